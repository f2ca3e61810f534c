"""The steps after a checkpoint, in the start that went on and in the one that resumed."""

from __future__ import annotations

import math

import pytest
from shown_engines import expected, replayed, runs, shown

from ds_lint.diagnostics.verdict import CPU, CUDA
from ds_lint.smoke.verify.check import Repetition
from ds_lint.smoke.verify.replayed import resume


def told(first=None, second=None, *, mode=CPU, **more):
    ranks = [shown(), shown(1)]
    repetition = Repetition(
        [one.replayed for one in ranks] if first is None else first,
        [replayed(), replayed(1)] if second is None else second,
        **more,
    )
    (check,) = resume(expected(ranks[0]), runs(ranks, repetition, mode=mode))
    return check.status, check.message


def test_steps_that_repeat():
    status, message = told()
    assert status == "pass"
    assert message == (
        "a second start restores all 4 tensors of the checkpoint, and with the inputs of the next 2 steps it repeats "
        "their losses bitwise"
    )


def test_without_a_second_start_nothing_is_told():
    assert list(resume(expected(shown()), runs([shown(), shown(1)]))) == []


def test_tensors_with_other_values_are_named():
    status, message = told(second=[replayed(), replayed(1, restored={"weight of 1": "a", "state of 1": "x"})])
    assert status == "fail"
    assert message == "a second start restores 3 of 4 tensors of the checkpoint"


def test_tensors_of_another_rank_are_lost():
    status, message = told(second=[replayed(1), replayed(0)])
    assert status == "fail"
    assert message.startswith("a second start restores 0 of 4 tensors of the checkpoint")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"outputs": ["c"]}, "numbers of forward passes"),
        ({"outputs": ["c", "x"]}, "outputs of the model"),
        ({"rates": [[1e-3], [5e-4]]}, "learning rates"),
        ({"last": {"weight of 1": "x"}}, "weights after them"),
    ],
)
def test_steps_that_do_not_repeat(change, what):
    status, message = told(second=[replayed(), replayed(1, **change)])
    assert status == "fail"
    assert message == (
        f"a second start restores 4 of 4 tensors of the checkpoint, and repeats the steps after it with other {what}"
    )


@pytest.mark.parametrize(("passes", "weights", "status"), [(1, "a", "pass"), (2, "a", "pass"), (1, "x", "fail")])
def test_a_script_that_ends_early_repeats_the_steps_that_it_makes(passes, weights, status):
    """Its last passes may be without a step; the second start goes on where the first one ended."""
    first = [replayed(rank, outputs=["c", "d"][:passes], rates=[[1e-3]], last={}) for rank in (0, 1)]
    second = [replayed(rank) for rank in (0, 1)]
    second[1].outputs[0] = {"a": second[1].outputs[0], "x": "other"}[weights]
    first[0].outputs[:], first[1].outputs[:] = second[0].outputs[:passes], replayed(1).outputs[:passes]
    told_status, message = told(first, second)
    assert told_status == status
    if status == "pass":
        assert message.endswith("with the inputs of the next step it repeats their losses bitwise")


@pytest.mark.parametrize("passes", [0, 1])
def test_a_script_that_ends_with_the_checkpoint_repeats_no_step(passes):
    first = [replayed(rank, outputs=[], losses=[], rates=[], last={}) for rank in (0, 1)]
    first[0].outputs = ["c"] * passes
    status, message = told(first)
    assert status == "skip"
    assert message == (
        "the script ends with the step of the checkpoint, so no steps after it are repeated; all 4 tensors are restored"
    )


def test_a_second_start_that_stops_in_a_step_tells_why():
    ended = {"outputs": ["c"], "last": {}}
    again = [replayed(0, **ended), replayed(1, **ended)]
    status, message = told(second=again, why_not="the script raises in a training step: KeyError: 'labels'")
    assert status == "fail"
    assert message == (
        "a second start restores 4 of 4 tensors of the checkpoint, and does not repeat the steps after it: "
        "the script raises in a training step: KeyError: 'labels'"
    )


@pytest.mark.parametrize("mode", [CPU, CUDA])
@pytest.mark.parametrize("missing", [{"losses": [2.5]}, {"rates": [[1e-3]]}, {"losses": [2.5], "rates": [[1e-3]]}])
@pytest.mark.parametrize(("is_cut_off", "status"), [(False, "fail"), (True, "error")])
def test_a_second_start_that_stops_after_a_forward_pass_tells_why(mode, missing, is_cut_off, status):
    again = [replayed(rank, last={}, **missing) for rank in (0, 1)]
    told_status, message = told(second=again, mode=mode, why_not="out of memory", is_cut_off=is_cut_off)
    assert told_status == status
    assert message.endswith("out of memory")


@pytest.mark.parametrize(("norm", "status"), [(8.0001, "pass"), (8.5, "fail"), (math.nan, "fail")])
def test_on_a_gpu_norms_of_outputs_are_close(norm, status):
    """The losses say nothing if the script computes them with labels of its own."""
    first = [replayed(rank, norms=[[9.0], [8.0]], has_own_loss=True) for rank in (0, 1)]
    change = {"outputs": ["x", "y"], "losses": [7.0, 6.0], "norms": [[9.0], [norm]], "last": {}}
    told_status, message = told(first, [replayed(rank, **change) for rank in (0, 1)], mode=CUDA)
    assert told_status == status
    if status == "pass":
        assert message.endswith("it repeats their norms of the outputs of the model to 0.1%, as a GPU allows")


@pytest.mark.parametrize(("loss", "status"), [(2.25001, "pass"), (2.5, "fail"), (math.nan, "fail")])
def test_on_a_gpu_losses_are_close(loss, status):
    change = {"outputs": ["c", "x"], "losses": [2.5, loss], "last": {}}
    assert told(second=[replayed(0, **change), replayed(1, **change)], mode=CUDA)[0] == status


def test_what_could_not_be_recorded_leaves_the_tensors():
    first = [replayed(), replayed(1, unrecorded="the gradients of the outputs are too large to record")]
    status, message = told(first, [replayed(outputs=["x", "y"]), replayed(1)])
    assert status == "skip"
    assert message == (
        "the gradients of the outputs are too large to record, so the steps after the checkpoint are not repeated; "
        "all 4 tensors are restored"
    )
    assert told(first, [replayed(restored={}), replayed(1)])[0] == "fail"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"passes": [2, 3]}, "the second start takes other numbers of micro steps, as at the end of an epoch"),
        ({"settings": [{"a": "1"}, {"a": "2"}]}, "the script itself changes the model by its step (a)"),
        ({"settings": [{"b": "1"}]}, "the script itself changes the model by its step (a)"),
    ],
)
def test_what_the_script_does_by_its_own_step_leaves_the_tensors(change, why):
    course = {"passes": [1, 3], "settings": [{"a": "1"}, {"a": "1"}]}
    first = [replayed(rank, **course) for rank in (0, 1)]
    again = {**course, "outputs": ["c", "x"], **change}
    status, message = told(first, [replayed(0, **course), replayed(1, **again)])
    assert status == "skip"
    assert message == f"{why}, so the steps after the checkpoint are not repeated; all 4 tensors are restored"
    assert told(first, [replayed(0, **course), replayed(1, **{**again, "outputs": ["c", "d"]})])[0] == "pass"
    assert told(first, [replayed(0, **course), replayed(1, **again, restored={})])[0] == "fail"
    assert told(first, [replayed(0, **course), replayed(1, **{**course, "outputs": ["c", "x"]})])[0] == "fail"


def test_a_loss_that_does_not_fit_the_repeated_inputs_leaves_the_tensors():
    first = [replayed(has_own_loss=True), replayed(1, has_own_loss=True)]
    ended = {"outputs": ["c"], "has_other_shapes": True}
    status, message = told(first, [replayed(), replayed(1, **ended)])
    assert status == "skip"
    assert message == (
        "the script computes its loss with tensors that do not fit the repeated inputs, so the steps after the "
        "checkpoint are not repeated; all 4 tensors are restored"
    )
    assert told(first, [replayed(), replayed(1, **ended, restored={})])[0] == "fail"
    assert told(second=[replayed(), replayed(1, **ended)])[0] == "fail"  # the model itself computes the loss


@pytest.mark.parametrize(
    ("changes", "status"), [({}, "pass"), ({"outputs": ["c", "x"]}, "fail"), ({"last": {}}, "fail")]
)
def test_what_a_stage_does_not_use_of_a_tied_layer_need_not_come_back(changes, status):
    name = "parameter tied_modules.embed.positions"
    ranks = [shown(is_pipeline=True), shown(1, is_pipeline=True)]
    ranks[1].evidence.fingerprint[name] = "a"
    second = [replayed(), replayed(1, **changes)]
    second[1].restored[name] = "x"
    repetition = Repetition([one.replayed for one in ranks], second)
    (check,) = resume(expected(ranks[0]), runs(ranks, repetition))
    assert check.status == status
    if status == "pass":
        assert check.message.startswith("a second start restores 4 of 5 tensors of the checkpoint, and with the inputs")


@pytest.mark.parametrize(("is_cut_off", "status"), [(False, "fail"), (True, "error")])
def test_a_second_start_that_ends_early(is_cut_off, status):
    told_status, message = told(second=[], why_not="the script raises in a training step", is_cut_off=is_cut_off)
    assert told_status == status
    assert message.endswith("resume: the script raises in a training step")


def test_a_script_that_calls_the_module_itself_shows_no_steps_to_repeat():
    first, second = [replayed(outputs=[]), replayed(1, outputs=[])], replayed(outputs=[], last={"weight of 0": "x"})
    status, message = told(first, [second, replayed(1, outputs=[])])
    assert status == "skip"
    assert message.endswith("all 4 tensors are restored")
    assert told(first, [second, replayed(1, outputs=[], restored={})])[0] == "fail"
