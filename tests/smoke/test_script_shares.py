"""What the ranks of a script hold at stage 3: partitions, and the parameters below the persistence threshold whole."""

from __future__ import annotations

import re

import pytest
from shown_engines import CONFIG, expected, runs, shown

from ds_lint.diagnostics.verdict import Held, Step
from ds_lint.smoke.records.job import TrainedParameter
from ds_lint.smoke.verify import shares

STAGE_3 = {**CONFIG, "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 100}}
PARAMETERS = [TrainedParameter("weight", 1000), TrainedParameter("bias", 10)]
PARTITIONS, WHOLE = 505, 10  # elements on each of two ranks


def of_stage_3(held, *, is_skipped=False, parameters=PARAMETERS):
    ranks = [shown(rank, config=STAGE_3) for rank in (0, 1)]
    for one in ranks:
        one.evidence.engine.stage = 3
        one.evidence.parameters = parameters
        one.evidence.held = {"parameters": Held(held, 2 * held)}
        one.evidence.steps = [Step(1.0, [1e-3], None, 1.0, is_skipped)] * 3
    run = runs(ranks)
    run.real_shapes = [one.elements for one in parameters]
    return expected(ranks[0], STAGE_3), run


def parameters_of(expectation, run, verify=shares.sharding):
    return next(check for check in verify(expectation, run) if check.id == "parameters")


@pytest.mark.parametrize("verify", [shares.sharding, shares.untrained])
@pytest.mark.parametrize(("held", "status"), [(PARTITIONS + WHOLE, "pass"), (1010, "fail")])
def test_a_rank_holds_its_partitions_and_what_stays_whole(held, status, verify):
    assert parameters_of(*of_stage_3(held), verify).status == status


def test_less_fails_unless_deepspeed_has_made_no_step():
    assert parameters_of(*of_stage_3(PARTITIONS)).status == "fail"
    check = parameters_of(*of_stage_3(PARTITIONS, is_skipped=True))
    assert (check.status, check.message) == (
        "skip",
        "DeepSpeed made no step, after which it keeps small parameters whole",
    )


@pytest.mark.parametrize(("elements", "status"), [(1_000, "skip"), (2_000_000, "fail")])
def test_a_model_that_is_small_does_not_show_what_the_threshold_does(elements, status):
    parameters = [TrainedParameter("scale", 10)] * elements  # every one is below the threshold
    (check,) = shares.persistence(*of_stage_3(10, parameters=parameters))
    assert check.status == status


@pytest.mark.parametrize(
    ("optimizer", "held", "told"),
    [
        ("torch.optim.adamw.AdamW", ["exp_avg"], {"exp_avg": "pass", "exp_avg_sq": "fail"}),
        ("torch.optim.sgd.SGD", [], {}),
        ("schedulefree.adamw_schedulefree.AdamWScheduleFree", ["z"], {"z": "pass"}),
    ],
)
def test_the_states_of_an_optimizer_of_the_script_are_those_that_it_has(optimizer, held, told):
    config = {name: value for name, value in STAGE_3.items() if name != "optimizer"}
    ranks = [shown(rank, config=config, optimizer=optimizer) for rank in (0, 1)]
    for one in ranks:
        one.evidence.parameters = [TrainedParameter("weight", 1000)]
        one.evidence.held = {kind: Held(500, 2000) for kind in held}
    checks = [one for one in shares.sharding(expected(ranks[0], config), runs(ranks)) if one.id == "optimizer-states"]
    assert {re.search(r"elements of (\w+),", one.message)[1]: one.status for one in checks} == told
