"""Backward passes that a script makes itself, as DeepSpeed hooks them: by the outputs of an engine."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from ds_lint.smoke.probe import direct_backward  # noqa: E402 - it imports torch


class Told:
    """Notes what it is told of."""

    def __init__(self):
        self.calls = []

    def begins_backward(self, engine, loss):
        self.calls.append(("begins", engine.name, float(loss.detach())))

    def ends_backward(self, engine):
        self.calls.append(("ends", engine.name, float(engine.weight.grad)))


@pytest.fixture
def engines(monkeypatch):
    """Makes engines with a weight of 3, which an observer watches; what it is told is the second."""
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)  # put back at the end

    class Engine:
        def __init__(self, name):
            self.name, self.weight = name, torch.tensor(3.0, requires_grad=True)
            self._running_engine_backward = False

        def __call__(self, inputs):
            outputs = self.weight * inputs
            outputs.register_hook(lambda gradient: self._backward_prologue())
            return outputs

        def backward(self, loss):
            self._running_engine_backward = True
            loss.backward()
            self._running_engine_backward = False

        def _backward_prologue(self):
            assert self.weight.grad is None or float(self.weight.grad) != 0

    told = Told()
    direct_backward.watch(Engine, lambda engine: told if engine.name != "unknown" else None)
    return Engine, told.calls


def test_a_backward_pass_of_the_script_begins_and_ends(engines):
    engine, told = engines
    (engine("a")(2.0) ** 2).backward()
    assert told == [("begins", "a", 36.0), ("ends", "a", 24.0)]


def test_that_of_the_engine_is_told_by_the_engine(engines):
    engine, told = engines
    one = engine("a")
    one.backward(one(2.0))
    assert told == []


def test_two_forward_passes_have_one_backward_pass(engines):
    engine, told = engines
    one = engine("a")
    (one(2.0) + one(4.0)).backward()
    assert told == [("begins", "a", 18.0), ("ends", "a", 6.0)]


def test_a_loss_may_come_from_several_engines(engines):
    engine, told = engines
    engine("a")(engine("b")(2.0)).backward()
    assert [call[:2] for call in told] == [("begins", "a"), ("begins", "b"), ("ends", "a"), ("ends", "b")]


def test_a_pass_within_another_one_is_part_of_it(engines):
    engine, told = engines
    one, inner = engine("a"), torch.ones(2, 3, requires_grad=True)
    outputs = one(2.0)

    def again(_gradient):
        with torch.enable_grad():
            torch.autograd.backward([inner * 5.0], [torch.ones(2, 3)])

    outputs.register_hook(again)  # as a checkpointed layer computes its gradients
    outputs.backward()
    assert told == [("begins", "a", 6.0), ("ends", "a", 2.0)]
    assert inner.grad.tolist() == [[5.0] * 3] * 2


def test_the_tensors_of_a_pass_may_come_from_a_generator(engines):
    engine, told = engines
    one = engine("a")
    torch.autograd.backward(one(number) for number in (2.0, 4.0))
    assert told == [("begins", "a", 6.0), ("ends", "a", 6.0)]


def test_tensors_without_an_engine_and_engines_without_an_observer_are_left_alone(engines):
    engine, told = engines
    torch.tensor(1.0, requires_grad=True).backward()
    engine("unknown")(1.0).backward()
    assert told == []
