"""Engines with which a script evaluates: the forward passes of its ranks, and the weights that it loads."""

from __future__ import annotations

import pytest
from shown_engines import CONFIG, expected, runs, shown

from ds_lint.diagnostics.verdict import Held
from ds_lint.smoke.records.engine_trace import Evaluated, Loaded
from ds_lint.smoke.verify.script_evaluation import Source, evaluation, uneven


def evaluated(rank=0, begun=4, ended=4, stage=3, **changes):
    one = shown(rank, is_trained=False, evaluated=Evaluated(begun=begun, ended=ended, **changes))
    one.evidence.engine.stage = stage
    one.evidence.held = {"parameters": Held(5, 20)}
    return one


def config(stage):
    return {**CONFIG, "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}}


def checks(sources, stage=3, held=5, **changes):
    ranks = [evaluated(rank, stage=stage, **changes) for rank in (0, 1)]
    for one in ranks:
        one.evidence.held = {"parameters": Held(held, held * 4)}
    ranks[0].evidence.live = {"weight": "bf16 a"}
    return {one.id: one for one in evaluation(expected(ranks[0], config(stage)), runs(ranks), sources)}


def test_ranks_that_wait_for_others_are_named():
    ranks = [evaluated(0, 5, 4), evaluated(1)]
    check = uneven(ranks, 3, None)
    assert check.status == "fail"
    assert check.message.endswith("rank 0 waits in its 5th, and rank 1 makes 4")


@pytest.mark.parametrize(
    ("begun", "stage", "idle"),
    [
        pytest.param((5, 5), 3, None, id="as many"),
        pytest.param((5, 4), 2, None, id="ranks that need no others"),
        pytest.param((5, 4), 3, 2.0, id="ranks that were at work when the time was up"),
    ],
)
def test_ranks_that_do_not_wait(begun, stage, idle):
    assert uneven([evaluated(rank, number) for rank, number in enumerate(begun)], stage, idle) is None


@pytest.mark.parametrize(
    ("stage", "held", "status"), [(3, 5, "pass"), (3, 10, "fail"), (0, 10, "pass"), (0, 5, "fail")]
)
def test_what_a_rank_holds_is_a_share_at_stage_3_and_else_all(stage, held, status):
    assert checks({}, stage, held)["parameters"].status == status


LOADED = {"weight": Loaded("from_pretrained('model')", name="weight")}


@pytest.mark.parametrize(
    ("loaded", "source", "given", "status", "words"),
    [
        ({}, None, {}, "skip", "the script loads no weights"),
        (LOADED, Source(["fp32 a", "bf16 a"], is_missing=False), {}, "pass", "1 of 1 parameters of the engine equal"),
        (LOADED, Source(["fp32 b", "bf16 b"], is_missing=False), {}, "fail", "1 of 1 parameters of the engine differ"),
        (LOADED, Source(None, is_missing=True), {}, "fail", "1 of 1 parameters are in nothing that the script loads"),
        (LOADED, Source(["fp32 b"], is_missing=False), {"weight": "fp32 a"}, "skip", "not in files that ds-lint reads"),
        (LOADED, Source(None, is_missing=False), {}, "skip", "not in files that ds-lint reads"),
    ],
)
def test_the_engine_has_the_weights_that_the_script_loads(loaded, source, given, status, words):
    sources = {} if source is None else {"weight": source}
    check = checks(sources, loaded=loaded, given=given)["weights"]
    assert check.status == status
    assert words in check.message


def divided(*shapes, whole=10):
    ranks = [
        evaluated(rank, kind="deepspeed.init_inference", tensor_parallel=len(shapes), shape={"weight": shape})
        for rank, shape in enumerate(shapes)
    ]
    for one in ranks:
        one.evidence.engine, one.evidence.parameters[0].elements = None, whole
    return {one.id: one.status for one in evaluation(expected(ranks[0]), runs(ranks), {})}


@pytest.mark.parametrize(("shapes", "status"), [((5, 5), "pass"), ((10, 10), "pass"), ((5, 4), "fail")])
def test_ranks_of_tensor_parallelism_have_all_of_a_parameter_together(shapes, status):
    assert divided(*shapes)["parameters"] == status
