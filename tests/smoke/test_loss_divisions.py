"""How often a loss is divided by the micro steps, found in the graph of autograd."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ds_lint.smoke.observe.training_mode import idle
from ds_lint.smoke.probe.loss_divisions import LossDivisions

torch = pytest.importorskip("torch")

STEPS = 4


def divided(loss_of, *, by_engine=True, by_trainer=None, windows=STEPS):
    """The surplus divisions of a loss that the script makes of the two losses that a model returns."""
    weight = torch.ones(3, requires_grad=True)
    first, second = (weight * 2).sum(), (weight**2).mean() / STEPS  # the model itself may divide by any number
    trace = SimpleNamespace(divided_again=[])
    divisions = LossDivisions(trace)
    divisions.saw_outputs({"loss": first, "other": second})
    divisions.note(loss_of(first, second), windows, by_engine=by_engine, by_trainer=by_trainer)
    return trace.divided_again


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda loss, _other: loss / STEPS,
        lambda loss, _other: loss.clone().div_(float(STEPS)),
        lambda loss, _other: (loss * 0.5 / STEPS).to(torch.bfloat16),
        lambda loss, other: (loss + other) / STEPS,
    ],
)
def test_a_division_before_that_of_the_engine_is_one_too_many(loss_of):
    assert divided(loss_of) == [1]


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda loss, _other: loss,
        lambda _loss, other: other,
        lambda loss, _other: loss / 3,
        lambda loss, _other: loss * 0.25,
        lambda loss, other: (loss + other + loss + other) / STEPS,  # the average of four losses
        lambda loss, _other: loss / torch.tensor([4.0]).sum(),  # a number of tokens
    ],
)
def test_other_operations_are_no_division_by_the_micro_steps(loss_of):
    assert divided(loss_of) == [0]


@pytest.mark.parametrize(
    ("by_engine", "by_trainer", "surplus"), [(False, None, 0), (False, True, 0), (False, False, 1), (True, None, 1)]
)
def test_who_divides_once(by_engine, by_trainer, surplus):
    assert divided(lambda loss, _other: loss / STEPS, by_engine=by_engine, by_trainer=by_trainer) == [surplus]


def test_one_micro_step_divides_nothing():
    assert divided(lambda loss, _other: loss / 1, windows=1) == []


def net(*modules):
    return torch.nn.Sequential(*modules).eval()


def test_what_does_nothing_in_evaluation_mode():
    nn = torch.nn
    attention = nn.Linear(2, 2)
    attention.attention_dropout = 0.1
    checkpointed = nn.Linear(2, 2)
    checkpointed.gradient_checkpointing = True
    model = net(nn.Dropout(0.1), nn.BatchNorm1d(2), attention, checkpointed)
    assert idle(model) == [
        "dropout of 2 modules", "batch normalization by the batch of 1 module", "gradient checkpointing of 1 module"
    ]  # fmt: skip
    assert idle(model.train()) == []
    assert idle(net(nn.Dropout(0.0), nn.BatchNorm1d(2).requires_grad_(requires_grad=False), nn.Linear(2, 2))) == []
