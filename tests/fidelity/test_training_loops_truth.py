"""The loops that rules are about, run with the real engine: what they make of a weight.

The gradient of batch n is n, and the weight loses what the optimizer gets.
"""

from __future__ import annotations

import itertools
import json
from functools import cache

import pytest

pytest.importorskip("deepspeed")
pytest.importorskip("accelerate")

from installed import measured_with_the_newest
from ranks import run

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

OF_EACH = [-1.0, -3.0, -6.0, -10.0, -15.0, -21.0, -28.0, -36.0]  # every batch is an update
QUARTERS = [one / 4 for one in OF_EACH]
MEANS = [0.0, 0.0, 0.0, -2.5, -2.5, -2.5, -2.5, -9.0]  # four batches are an update
NEVER = [0.0] * 8
STAGES = (0, 1, 2, 3)
OF_ENGINE = [
    (loop, stage, steps)
    for loop, steps in (("plain", 1), ("plain", 4), ("rare", 1), ("rare", 4), ("at_boundary", 4), ("divided", 4))
    for stage in STAGES
] + [(loop, stage, 1) for loop in ("clipped", "of_torch") for stage in STAGES]
OF_ONE, OF_FOUR = {"gradient_accumulation_steps": 1}, {"gradient_accumulation_steps": 4}
OF_ACCELERATE = (
    ("plain", OF_ONE, {}),
    ("plain", OF_FOUR, {}),
    ("plain", OF_FOUR, OF_FOUR),
    ("plain in accumulate", OF_FOUR, {}),
    ("plain in accumulate", OF_ONE, OF_FOUR),
    ("plain in accumulate", {}, OF_FOUR),
    ("plain in accumulate", {"gradient_accumulation_steps": "auto"}, OF_FOUR),
    ("rare", OF_ONE, {}),
    ("clipped", OF_ONE, {}),
    ("clipped", {**OF_ONE, "gradient_clipping": "auto"}, {}),
    ("clipped", {**OF_ONE, "gradient_clipping": 0.5}, {}),
    ("clipped_by_torch", OF_ONE, {}),
    ("of_torch", OF_ONE, {}),
    ("of_torch", {**OF_ONE, "zero_optimization": {"stage": 0}}, {}),
)


@cache
def of_engine() -> dict[tuple[str, int, int], list[float] | str]:
    done = run("engine_loops", json.dumps(OF_ENGINE))
    assert done.answers[0] is not None, "\n".join(done.errors)
    assert done.answers[0] == done.answers[1]  # on both ranks
    return dict(zip(OF_ENGINE, done.answers[0]["weights"], strict=True))


@cache
def of_accelerate() -> dict[str, list[float] | str]:
    done = run("accelerated_loops", json.dumps(OF_ACCELERATE), ranks=1)
    assert done.answers[0] is not None, "\n".join(done.errors)
    return {json.dumps(case): weights for case, weights in zip(OF_ACCELERATE, done.answers[0]["weights"], strict=True)}


def accelerated(loop: str, config: dict[str, object], keywords: dict[str, object] | None = None) -> list[float] | str:
    return of_accelerate()[json.dumps((loop, config, keywords or {}))]


@pytest.mark.parametrize("stage", STAGES)
def test_the_engine_updates_at_each_call_or_at_the_last(stage: int) -> None:
    assert of_engine()["plain", stage, 1] == OF_EACH
    assert of_engine()["plain", stage, 4] == MEANS


def test_steps_of_the_config_win_over_those_of_the_accelerator() -> None:
    """DS860: with "auto" those of the accelerator count."""
    assert accelerated("plain in accumulate", OF_ONE, OF_FOUR) == OF_EACH
    assert accelerated("plain in accumulate", {}, OF_FOUR) == OF_EACH
    assert accelerated("plain in accumulate", {"gradient_accumulation_steps": "auto"}, OF_FOUR) == MEANS


def test_accelerate_steps_at_each_batch_unless_it_accumulates() -> None:
    """DS861"""
    assert accelerated("plain in accumulate", OF_FOUR) == MEANS
    for keywords in ({}, OF_FOUR):
        assert accelerated("plain", OF_FOUR, keywords) == QUARTERS
    assert accelerated("rare", OF_ONE) == accelerated("plain", OF_ONE) == OF_EACH


@pytest.mark.parametrize("stage", STAGES)
def test_the_engine_counts_its_calls(stage: int) -> None:
    """DS861: with four steps, the fourth call of ``step`` would be at the sixteenth batch."""
    assert of_engine()["rare", stage, 4] == NEVER
    assert of_engine()["at_boundary", stage, 4] == NEVER


@pytest.mark.parametrize("stage", STAGES)
def test_gradients_between_steps_are_lost_where_the_optimizer_has_them(stage: int) -> None:
    """DS861: stages 1 and 2 keep that of the last batch, the others add up."""
    (*_, first, _, _, _, second) = of_engine()["rare", stage, 1]
    assert (first, second) == ((-4.0, -12.0) if stage in (1, 2) else (-10.0, -36.0))


@pytest.mark.parametrize("stage", STAGES)
def test_a_divided_loss_is_divided_again(stage: int) -> None:
    """DS862"""
    assert of_engine()["divided", stage, 4] == [one / 4 for one in MEANS]


@pytest.mark.parametrize("stage", STAGES)
def test_torch_clips_nothing_that_zero_has(stage: int) -> None:
    """DS873"""
    clipped = [-0.5 * batch for batch in range(1, 9)]
    assert of_engine()["clipped", stage, 1] == (OF_EACH if stage else clipped)


def test_accelerate_clips_as_the_config_says() -> None:
    """DS873"""
    assert accelerated("clipped", OF_ONE) == accelerated("clipped_by_torch", OF_ONE) == OF_EACH
    for limit, clipping in ((1.0, "auto"), (0.5, 0.5)):
        weights = accelerated("clipped", {**OF_ONE, "gradient_clipping": clipping})
        assert weights == pytest.approx([-limit * batch for batch in range(1, 9)], abs=1e-3)


@pytest.mark.parametrize("stage", STAGES)
def test_backward_of_torch_needs_zero(stage: int) -> None:
    """DS874"""
    done = of_engine()["of_torch", stage, 1]
    assert done == OF_EACH if stage else "Direct calls to tensor.backward() are not supported" in done


def test_backward_of_torch_never_lets_accelerate_step() -> None:
    """DS874"""
    assert accelerated("of_torch", OF_ONE) == NEVER
    at_0 = {**OF_ONE, "zero_optimization": {"stage": 0}}
    assert "Direct calls to tensor.backward() are not supported" in accelerated("of_torch", at_0)


def test_the_numbers_are_those_of_arithmetic() -> None:
    gradients = range(1, 9)
    assert [-float(one) for one in itertools.accumulate(gradients)] == OF_EACH
    assert [MEANS[3], MEANS[7]] == [-sum(gradients[:4]) / 4, -sum(gradients) / 4]
