"""The weights that ranks compute with, and the gradients that they average, from what a run has recorded."""

from __future__ import annotations

import pytest
from shown_engines import CONFIG, expected, runs, shown

from ds_lint.smoke.records.comparison import FarthestElement, Recomputed
from ds_lint.smoke.verify.script_arithmetic import arithmetic

BF16 = {**CONFIG, "bf16": {"enabled": True}}
COMPARED = {"averaging": 10, "update": 10, "weights": 10}


def told(id, recomputed=None, config=BF16, engine=None, **rank_1):
    """The check of two ranks, of which the second shows something else."""
    ranks = [shown(rank, config=config) for rank in (0, 1)]
    for one in ranks:
        one.evidence.copies = ["weight"]
        one.evidence.fingerprint["parameter weight"] = "same"
        for name, value in (engine or {}).items():
            setattr(one, name, value)
    for name, value in rank_1.items():
        setattr(ranks[1].evidence, name, value)
    run = runs(ranks)
    run.recomputed = recomputed or Recomputed("FusedAdam", 10, compared=dict(COMPARED))
    (check,) = (check for check in arithmetic(expected(ranks[0], config), run) if check.id == id)
    return check.status, check.message


@pytest.mark.parametrize("id", ["averaging", "update", "weights"])
def test_as_it_should_be(id):
    assert told(id, divisions=[1.0, 1.003])[0] == "pass"


@pytest.mark.parametrize(("applied", "share"), [(2.0, "1"), (0.5, "0.25")])
def test_a_loss_that_is_not_divided_by_the_micro_steps_or_divided_twice(applied, share):
    assert told("averaging", divisions=[1.0, applied]) == (
        "fail",
        f"the loss of a micro step is multiplied by {share}, not by 1/2",
    )


def test_what_autocast_multiplies_a_loss_with_is_not_known():
    autocast = {**CONFIG, "torch_autocast": {"enabled": True, "dtype": "float16"}}
    assert told("averaging", config=autocast, divisions=[65536.0])[0] == "pass"


def test_parameters_that_the_optimizer_lacks():
    found = Recomputed("FusedAdam", 10, compared=dict(COMPARED), lacking=["head.weight"])
    assert told("averaging", found) == (
        "fail",
        "the optimizer steps without gradients of parameters that the script gives it (head.weight)",
    )


def test_another_weight_decay():
    found = Recomputed("FusedAdam", 10, compared=dict(COMPARED), decays={"norm.weight": (0.0, 0.1)})
    assert told("update", found) == (
        "fail",
        "the optimizer decays norm.weight by 0.1, but the script asks for 0",
    )


def test_gradients_in_a_step_in_which_the_loss_scale_rises():
    far = {"averaging": FarthestElement("layer.weight", 2.0, 1.0, 0.1)}
    found = Recomputed("FusedAdam", 10, compared=dict(COMPARED), mismatches=far, is_divided_by_next_scale=True)
    ranks = [shown(rank, config=BF16) for rank in (0, 1)]
    run = runs(ranks)
    run.recomputed = found
    (check,) = (check for check in arithmetic(expected(ranks[0], BF16), run) if check.id == "averaging")
    assert check.status == "fail"
    assert check.help == (
        "DeepSpeed divides them by the loss scale of the next step. "
        "An element of layer.weight is 1, not 2 (tolerance 0.1)."
    )


def test_an_evaluation_that_changes_weights():
    assert told("weights", changed_in_evaluation=["master weights 0"]) == (
        "fail",
        "a forward pass without training changes what rank 1 trains (master weights 0)",
    )


def test_weights_at_the_checkpoint_that_are_not_the_fp32_ones():
    assert told("weights", stale=["layer.weight"]) == (
        "fail",
        (
            "after step 3, rank 1 computes with other weights than the fp32 weights of that step, rounded to bfloat16 "
            "(layer.weight)"
        ),
    )


def test_weights_that_a_rank_has_otherwise():
    other = {"fingerprint": {"parameter weight": "other"}}
    assert told("weights", **other) == ("fail", "after step 3, rank 1 has other weights than rank 0 (weight)")
    assert told("weights", engine={"data_parallel": 1}, **other)[0] == "pass"
    assert told("weights", fingerprint={})[0] == "pass"


def test_a_loss_scale_of_another_rank_counts():
    from ds_lint.smoke.verify.precision import loss_scale

    config = {**CONFIG, "fp16": {"enabled": True}}
    ranks = [shown(rank, config=config) for rank in (0, 1)]
    ranks[0].evidence.scalings, ranks[1].evidence.scalings = [(256.0, 256.0)], [(1.0, 256.0)]
    (check,) = loss_scale(expected(ranks[0], config), runs(ranks))
    assert (check.status, check.observed) == ("fail", 1.0)
