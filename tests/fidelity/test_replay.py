"""The forward passes after a checkpoint are repeated with their inputs and with every random state."""

from __future__ import annotations

import random
import sys
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

from ds_lint.smoke.probe.frameworks import loadable_state  # noqa: E402 - imports torch
from ds_lint.smoke.probe.plan import RESUME, TRAIN, Plan  # noqa: E402
from ds_lint.smoke.probe.replay import Replay  # noqa: E402

pytestmark = pytest.mark.fidelity
MODEL = torch.nn.Linear(1, 1)


class Tracker:
    """Random states by name, as those of Megatron and DeepSpeed."""

    def __init__(self):
        self.states = {}

    def get_states(self):
        return dict(self.states)

    def set_states(self, states):
        self.states = states


@pytest.fixture
def tracker(monkeypatch):
    module, tracker = ModuleType("megatron"), Tracker()
    module.get_cuda_rng_tracker = lambda: tracker
    monkeypatch.setitem(sys.modules, "megatron.core.tensor_parallel.random", module)
    return tracker


def repeat(folder, inputs, draw):
    """What a model returns, and what it returns when its forward pass is repeated with these inputs of the script."""
    outputs, replays = [], []
    for part, given in zip((TRAIN, RESUME), inputs, strict=True):
        replay = Replay(Plan(str(folder), part), str(folder))
        replay.is_on = True
        outputs.append(replay.forward(MODEL, (given,), {}, lambda args, _: args[0] + draw()))
        replays.append(replay)
    return outputs, replays[1].replayed


@pytest.mark.parametrize(
    "draw",
    [lambda: torch.rand(()), random.random, lambda: float(numpy.random.rand())],
    ids=["torch", "python", "numpy"],
)
def test_random_numbers_come_again(tmp_path, draw):
    (first, second), _ = repeat(tmp_path, (torch.ones(3), torch.zeros(3)), draw)
    assert torch.equal(first, second)


def test_states_of_tensor_parallel_dropout_come_again(tmp_path, tracker):
    def draw():
        number = tracker.states.get("model-parallel-rng", 0.5)
        tracker.states["model-parallel-rng"] = number * 2
        return number

    tracker.states["model-parallel-rng"] = 3.0
    (first, second), _ = repeat(tmp_path, (torch.ones(3), torch.ones(3)), draw)
    assert torch.equal(first, second)


@pytest.mark.parametrize(("rows", "is_other"), [(3, False), (4, True)])
def test_inputs_of_another_shape_are_noted(tmp_path, rows, is_other):
    (first, second), shown = repeat(tmp_path, (torch.ones(3), torch.zeros(rows)), lambda: 0)
    assert torch.equal(first, second)
    assert shown.has_other_shapes is is_other


def test_a_model_among_the_inputs_is_that_of_each_start(tmp_path):
    """TRL passes the model that it trains through the engine, to compute a loss with it."""
    seen = []
    for part, scale in ((TRAIN, 2.0), (RESUME, 3.0)):
        replay = Replay(Plan(str(tmp_path), part), str(tmp_path))
        replay.is_on = True
        model = torch.nn.Identity()
        model.register_forward_hook(lambda *_: None)  # DeepSpeed's hooks, too, cannot be pickled
        given = model, {"rows": [torch.full((2,), scale)]}
        replay.forward(MODEL, given, {"reduce": torch.sum}, lambda args, kwargs: seen.append((args, kwargs)))
        assert seen[-1][0][0] is model
        assert replay.replayed.unrecorded == ""
    assert torch.equal(seen[1][0][1]["rows"][0], torch.full((2,), 2.0))
    assert seen[1][1]["reduce"] is torch.sum


def test_inputs_that_cannot_be_recorded_leave_the_script_alone(tmp_path):
    replay = Replay(Plan(str(tmp_path), TRAIN), str(tmp_path))
    replay.is_on = True
    rows = (torch.ones(2) for _ in range(2))
    (given,) = replay.forward(MODEL, (rows,), {}, lambda args, _: args)
    assert given is rows
    assert replay.replayed.unrecorded == "the inputs of the model cannot be recorded (TypeError)"
    assert list(tmp_path.iterdir()) == []


class Nested(torch.nn.Linear):
    """Saves and loads a state of its own, as the models of Megatron do."""

    def state_dict_for_save_checkpoint(self, prefix="", keep_vars=False):
        return {f"{prefix}language_model": {"weight": self.weight if keep_vars else self.weight.detach()}}

    def load_state_dict(self, state_dict):
        self.weight.data.copy_(state_dict["language_model"]["weight"])


class Plain(torch.nn.Linear):
    """Megatron's module as it is: its state is that of torch."""

    def state_dict_for_save_checkpoint(self, prefix="", keep_vars=False):
        return self.state_dict(prefix=prefix, keep_vars=keep_vars)


def test_a_model_of_megatron_saves_what_it_loads():
    model = Nested(2, 2)
    with loadable_state(model):
        model.load_state_dict(model.state_dict())
    assert set(model.state_dict()) == {"weight", "bias"}


@pytest.mark.parametrize("model", [Plain(2, 2), torch.nn.Linear(2, 2)], ids=["Megatron's module", "torch's module"])
def test_other_models_save_as_torch_does(model):
    with loadable_state(model):
        assert set(model.state_dict()) == {"weight", "bias"}
