"""Checks of an engine of the user's own script that depend on what the script does itself."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from shown_engines import observed, runs, shown

from ds_lint.diagnostics.verdict import Held
from ds_lint.smoke.observe import probes
from ds_lint.smoke.probe.changes import rates_of
from ds_lint.smoke.probe.micro_steps import is_micro_step
from ds_lint.smoke.records.job import Exported
from ds_lint.smoke.verify import precision, script_rates, storages, ties

pytest.importorskip("torch")
TIED = [["encoder.weight", "decoder.weight"]]


def expectation(schedule=None, stack="deepspeed"):
    return SimpleNamespace(
        config=SimpleNamespace(stack=stack, knowledge=None), schedule=schedule, optimizer="AdamW", stage=None,
        rate=SimpleNamespace(value=0.001), key=lambda *path: SimpleNamespace(path=path), adapted=frozenset(),
    )  # fmt: skip


def run_with(scheduler, rates):
    steps = [SimpleNamespace(learning_rates=[rate], is_skipped=False) for rate in rates]
    return SimpleNamespace(
        ranks=[SimpleNamespace(scheduler=scheduler, own_rates=None)],
        train=[SimpleNamespace(steps=steps)],
        adapted=frozenset(),
        is_pipeline=False,
    )


def test_rates_that_a_scheduler_of_the_script_sets_are_not_those_of_the_config():
    (check,) = script_rates.learning_rates(expectation(), run_with("train.OwnSchedule", [0.004, 0.003]))
    message = "the OwnSchedule of the script sets the learning rates: the steps are made with 0.004, 0.003"
    assert (check.status, check.message) == ("pass", message)


@pytest.mark.parametrize(("rates", "status"), [([0.001, 0.001], "pass"), ([0.004, 0.003], "fail")])
def test_without_a_scheduler_the_rates_are_those_of_the_config(rates, status):
    (check,) = script_rates.learning_rates(expectation(), run_with("", rates))
    assert check.status == status


@pytest.mark.parametrize("is_of_transformers", [True, False])
def test_tied_weights_of_a_class_of_the_script_are_not_lost_in_a_loader_that_it_does_not_have(is_of_transformers):
    evidence = SimpleNamespace(tied=TIED, tied_after=TIED)
    stored = dict.fromkeys(TIED[0], "0")
    run = SimpleNamespace(
        train=[evidence], exported=Exported(stored=stored, loaded=stored), has_adapters=False,
        is_of_transformers=is_of_transformers,
    )  # fmt: skip
    (check,) = ties.tied_weights(expectation(), run)
    assert check.status == ("fail" if is_of_transformers else "pass")
    assert ("from_pretrained" in check.message) is is_of_transformers


@pytest.mark.parametrize(("is_script", "limit"), [(True, ""), (False, ", of at most 1,024")])
def test_a_script_may_hold_tensors_of_its_own(is_script, limit):
    evidence = SimpleNamespace(storages={"unknown": Held(1000, 4000)})
    assert storages._in_words(evidence, is_script=is_script).endswith(f"4,000 bytes of unknown purpose{limit}")


def test_an_engine_of_stage_3_without_an_optimizer_keeps_no_states():
    offload = SimpleNamespace()  # DeepSpeedZeRoOffload, which has no `state`
    assert probes.states(SimpleNamespace(optimizer=offload, basic_optimizer=None)) == {}


def test_an_engine_of_stage_3_without_an_optimizer_has_no_learning_rates():
    assert rates_of(SimpleNamespace(optimizer=SimpleNamespace())) == []


@pytest.mark.parametrize(("is_script", "word"), [(False, "generated"), (True, "labels")])
def test_the_data_of_a_script_may_be_why_a_loss_is_not_a_number(is_script, word):
    one = shown()
    one.evidence.steps = [SimpleNamespace(loss=math.nan)]
    run = runs([one]) if is_script else observed([one.evidence])
    (check,) = precision.loss(SimpleNamespace(dtype=SimpleNamespace(key=None)), run)
    assert check.status == "fail"
    assert word in check.help


@pytest.mark.parametrize(("boundary", "is_inside", "counts"), [(None, False, 1), (None, True, 0), (False, True, 1)])
def test_a_backward_pass_without_synchronization_counts_if_the_caller_says_where_a_window_ends(
    boundary, is_inside, counts
):
    """As Accelerate does below stage 2."""
    one = SimpleNamespace(
        _is_gradient_accumulation_boundary=boundary, inside_no_sync_ctxt=is_inside, optimizer=SimpleNamespace()
    )
    assert is_micro_step(one) == counts
    one.optimizer._coalesce_grad_reduction = True  # `engine.coalesce_grad_reduction` is a `no_sync` that counts
    assert is_micro_step(one)
