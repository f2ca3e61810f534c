"""What changes an engine of the user's script outside its own passes and steps, on one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ds_lint.diagnostics.verdict import OF_DS_LINT, OF_FORWARD
from ds_lint.smoke.observe import probes
from ds_lint.smoke.observe.sampled_step import differing, elements_of, gradients_of
from ds_lint.smoke.probe.plan import TRAIN
from ds_lint.smoke.records import engine_trace

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from ds_lint.smoke.probe.measured import EngineMeter
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.records.engine_trace import EngineTrace, Replayed

_WATCHED = 4  # forward passes that train nothing


class OutsideChanges:
    """Notes learning rates, gradients and weights that are no longer those that the engine has left."""

    def __init__(self, plan: Plan, trace: EngineTrace, meter: EngineMeter, engine: Any, *, is_sampled: bool) -> None:
        self._plan = plan
        self._trace = trace
        self._meter = meter
        self._engine = engine
        self._is_sampled = is_sampled  # a step of this engine
        self._rates = rates_of(engine)
        self._gradients: dict[str, torch.Tensor] = {}
        self._evaluations = 0

    def left_gradients(self, steps: int) -> None:
        """Keep a few elements of what a backward pass leaves, while a step is sampled."""
        self._gradients = gradients_of(self._engine) if self._is_sampled and steps <= self._plan.steps else {}

    def left_rates(self) -> None:
        """Keep the learning rates that a step leaves."""
        self._rates = rates_of(self._engine)

    def look_at_gradients(self) -> None:
        """Note if the script has changed those that the backward pass has left."""
        if differing(self._gradients, gradients_of(self._engine) if self._gradients else {}):
            self._trace.changes_gradients = True

    def look_at_rates(self) -> None:
        """Note if they are those of the script; the Trainer steps its schedule itself."""
        if self._trace.own_rates is not None or self._plan.part != TRAIN:
            return
        if not self._trace.is_trained and self._engine.global_steps > 0:
            self._trace.own_rates = engine_trace.GOES_ON
        elif self._trace.stack != "trainer" and rates_of(self._engine) != self._rates:
            self._trace.own_rates = engine_trace.SETS_RATES

    def look_at_weights(self, replayed: Replayed) -> None:
        """Whether the script has changed weights since the step with the checkpoint, which is within that step."""
        before = self._trace.evidence.fingerprint
        now = probes.parameter_marks(self._engine)
        if any(before.get(name, mark) != mark for name, mark in now.items()):
            replayed.unrecorded = "the script changes weights between `engine.step` and its next forward pass"

    def evaluate(self, call: Callable[[], Any]) -> Any:
        """A forward pass that trains nothing; the first ones are watched, up to a change."""
        changed = self._trace.evidence.changed_in_evaluation
        if not self._is_sampled or self._evaluations >= _WATCHED or changed:
            return call()
        self._evaluations += 1
        with self._meter.during(OF_DS_LINT):
            before = elements_of(self._engine)
            answer = self._meter.measuring(OF_FORWARD, call)()
            changed += differing(before, elements_of(self._engine))
        return answer


def rates_of(engine: Any) -> list[float]:
    """The learning rate of each parameter group."""
    groups = getattr(probes.inner_optimizer(engine), "param_groups", [])
    return [float(group["lr"]) for group in groups if "lr" in group]
