"""An engine of ``deepspeed.init_inference`` in the user's script, on one rank."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import CPU, CUDA
from ds_lint.smoke.observe import probes
from ds_lint.smoke.observe.observation import MOST_WHOLE
from ds_lint.smoke.probe import loads
from ds_lint.smoke.probe.evaluation import ForwardPasses
from ds_lint.smoke.probe.initialization import versions
from ds_lint.smoke.records import engine_trace
from ds_lint.smoke.records.engine_trace import EngineTrace, Evaluated
from ds_lint.smoke.records.job import Evidence, TrainedParameter

if TYPE_CHECKING:
    from ds_lint.smoke.probe.loads import LoadedWeights
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.probe.presence import Presence


class Inference:
    """The model that ``deepspeed.init_inference`` gets, and the engine that it makes."""

    def __init__(self, number: int, plan: Plan, presence: Presence, weights: LoadedWeights, model: Any) -> None:
        self._number = number
        self._plan = plan
        self._presence = presence
        self._weights = weights
        self._given = loads.digests_of(model)
        self._was_peft = loads.has_adapters(model)
        self._parameters = [TrainedParameter(name, one.numel()) for name, one in model.named_parameters()]
        self._class = f"{type(model).__module__}.{type(model).__qualname__}"
        self._model = type(model).__name__
        self._engine: Any = None
        self.trace: EngineTrace | None = None

    def made(self, engine: Any, given: Any) -> None:
        """The engine is there; ``given`` is its config, as the script writes it."""
        self._engine = engine
        is_distributed = torch.distributed.is_initialized()
        ranks = torch.distributed.get_world_size() if is_distributed else 1
        rank = torch.distributed.get_rank() if is_distributed else int(os.environ.get("RANK", "0"))
        first = next(engine.module.parameters(), None)
        tensor_parallel = int(engine._config.tensor_parallel.tp_size)  # noqa: SLF001 - it has no public one
        evidence = Evidence(rank)
        evidence.model, evidence.parameters = self._model, self._parameters
        self.trace = EngineTrace(
            number=self._number,
            evidence=evidence,
            stack="deepspeed",
            world_size=ranks,
            data_parallel=max(1, ranks // tensor_parallel),
            multiplied_by=ranks,
            mode=CUDA if first is not None and first.device.type == "cuda" else CPU,
            model_class=self._class,
            config={},
            versions=versions(),
            evaluated=Evaluated(
                kind=engine_trace.INFERENCE,
                given=self._given,
                was_peft=self._was_peft,
                dtype=str(engine._config.dtype).removeprefix("torch."),  # noqa: SLF001 - the same
                tensor_parallel=tensor_parallel,
            ),
        )
        if (place := loads.place_of_checkpoint(given)) is not None:
            self._weights.by_engine(engine.module, f"the checkpoint of init_inference ({place})")
        ForwardPasses(self._plan, self.trace, engine.module, self._look)
        self.write()

    def _look(self) -> None:
        """What this rank computes with, before its first pass."""
        self._presence.enter("evaluate")
        assert self.trace is not None  # noqa: S101 - the engine is made
        assert self.trace.evaluated is not None  # noqa: S101 - as above
        evaluated, parameters = self.trace.evaluated, dict(self._engine.module.named_parameters())
        evaluated.loaded = self._weights.of(self._engine.module)
        evaluated.shape = {name: one.numel() for name, one in parameters.items()}
        evaluated.dtypes = sorted({str(one.dtype).removeprefix("torch.") for one in parameters.values()})
        size = sum(one.nbytes for one in parameters.values())
        if evaluated.tensor_parallel == 1 and size <= MOST_WHOLE:
            self.trace.evidence.live = {name: probes.digest(one.data) for name, one in parameters.items()}
        self.write()

    def write(self) -> None:
        """Leave the trace so far for the driver."""
        if self.trace is not None:
            os.makedirs(self._plan.own_folder, exist_ok=True)
            engine_trace.write(self.trace, self._plan.own_folder)
