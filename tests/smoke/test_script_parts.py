"""What the ranks of a script hold if each has a part of the model: two stages of a pipeline on two ranks each."""

from __future__ import annotations

import pytest
from shown_engines import CONFIG, expected, runs, shown

from ds_lint.diagnostics.verdict import Held, Step
from ds_lint.smoke.records.job import TrainedParameter
from ds_lint.smoke.verify import parts

STAGE_1 = {**CONFIG, "zero_optimization": {"stage": 1}}
ELEMENTS = (100, 100, 60, 60)  # of the part of each rank
SHARES = {"parameters": (100, 100, 60, 60), "master weights": (50, 50, 30, 30), "exp_avg": (50, 50, 30, 30)}


def told(held, **changes):
    """The status and the message of each check, by what it is about."""
    ranks = [shown(rank, config=STAGE_1, world_size=4, is_pipeline=True, **changes) for rank in range(4)]
    for rank, one in enumerate(ranks):
        one.parts = [TrainedParameter("weight", ELEMENTS[rank])]
        one.evidence.engine.stage = 1
        one.evidence.held = {kind: Held(shares[rank], 4 * shares[rank]) for kind, shares in held.items()}
    found = parts.sharding(expected(ranks[0], STAGE_1), runs(ranks))
    return [(check.id, check.status, check.message) for check in found]


def test_each_rank_holds_the_share_of_its_part():
    whole = {**SHARES, "exp_avg_sq": SHARES["exp_avg"]}
    assert told(whole)[:2] == [
        (
            "parameters",
            "pass",
            "each rank holds 60 to 100 elements of parameters of its part of the model, which 2 ranks share",
        ),
        (
            "master-weights",
            "pass",
            "each rank holds 30 to 50 elements of master weights of its part of the model, which 2 ranks share",
        ),
    ]
    assert {status for _, status, _ in told(whole)} == {"pass"}


@pytest.mark.parametrize(
    ("kind", "held", "check"), [("master weights", 100, "master-weights"), ("exp_avg", 30, "optimizer-states")]
)
def test_the_share_of_another_part_or_all_of_it_fails(kind, held, check):
    broken = {**SHARES, "exp_avg_sq": SHARES["exp_avg"], kind: (50, held, 30, 30)}
    failed = [one for one in told(broken) if one[1] == "fail"]
    message = (
        f"rank 1 holds {held} elements of {kind}, but the share of its part of the model at stage 1 on 2 ranks is 50"
    )
    assert failed == [(check, "fail", message)]


def test_ranks_that_share_sequences_are_not_counted():
    ((check, status, message),) = told(SHARES, sequence_parallel=2)
    assert (check, status) == ("parameters", "skip")
    assert message == "ranks share the sequences of a batch, so shares are not checked"


def test_without_a_step_there_are_no_states():
    skipped = Step(loss=1.0, learning_rates=[1e-3], loss_scale=1.0, gradient_norm=1.0, is_skipped=True)
    ranks = [shown(rank, config=STAGE_1, is_pipeline=True) for rank in range(2)]
    for one in ranks:
        one.evidence.engine.stage, one.evidence.steps = 1, [skipped] * 3
    ((check, status),) = [(one.id, one.status) for one in parts.sharding(expected(ranks[0], STAGE_1), runs(ranks))]
    assert (check, status) == ("optimizer-states", "skip")
