"""The phase that a process of the user's command tells, and the process of it that is not a rank."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from ds_lint.smoke.probe import engine, initialization
from ds_lint.smoke.probe.engines import _Engines
from ds_lint.smoke.probe.plan import Plan
from ds_lint.smoke.probe.presence import BEFORE, STEP, Presence
from ds_lint.smoke.standins.device import stand_in_of_accelerate

pytestmark = pytest.mark.fidelity


class Initialization:
    """Stands for a call of ``deepspeed.initialize``."""

    def __init__(self, *_args):
        self.given = {}


@pytest.mark.parametrize(("before", "after"), [(BEFORE, "after initialize"), (STEP, STEP)])
def test_with_an_engine_a_script_is_no_longer_before_initialize(tmp_path, monkeypatch, before, after):
    monkeypatch.setattr(engine, "ObservedEngine", Initialization)
    monkeypatch.setattr(initialization, "Initialization", Initialization)
    plan = Plan(str(tmp_path))
    (tmp_path / plan.part).mkdir()
    presence = Presence(plan)
    presence.enter(before)
    _Engines(plan, presence)._initialize(lambda: ("engine",), {})
    assert presence.phase == after


class State:
    """What Accelerate decides in a process."""

    def _prepare_backend(self, *_cpu):
        return None, "NO"


@pytest.mark.parametrize(("rank", "backend"), [("0", ("gloo", "MULTI_GPU")), (None, (None, "NO"))])
def test_only_a_rank_has_a_backend(monkeypatch, rank, backend):
    """``trl sft`` parses the training arguments, and then launches the ranks."""
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    state = type("State", (State,), {"_prepare_backend": State._prepare_backend})
    stand_in_of_accelerate(SimpleNamespace(PartialState=state, DistributedType=SimpleNamespace(MULTI_GPU="MULTI_GPU")))
    assert state()._prepare_backend(False) == backend
