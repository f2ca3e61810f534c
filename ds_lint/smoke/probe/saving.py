"""What ds-lint saves of an engine of the user's script: a checkpoint for the second start, and the model."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import OF_EXPORT, OF_LOAD, OF_SAVE
from ds_lint.smoke.observe import lora, probes, whole_weights
from ds_lint.smoke.probe import frameworks, measured
from ds_lint.smoke.probe.plan import RESUME

if TYPE_CHECKING:
    from ds_lint.smoke.probe.frameworks import Frameworks
    from ds_lint.smoke.probe.measured import EngineMeter
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.records.engine_trace import EngineTrace
    from ds_lint.smoke.records.job import Evidence

_GB = 10**9
_NOT_SAVED = ("parameters", "gradients")  # of what a rank holds: the parameters are counted whole


class EngineCheckpoint:
    """Saved by every rank in the first start, and loaded in the second."""

    def __init__(self, plan: Plan, trace: EngineTrace, meter: EngineMeter, maker: Frameworks, folder: str) -> None:
        self._trace = trace
        self._meter = meter
        self._trainer, self._accelerator = maker.trainer, maker.accelerator
        self._checkpoint = os.path.join(folder, "checkpoint")
        self._export = os.path.join(folder, "export")
        self.is_to_resume = plan.part == RESUME and os.path.isdir(self._checkpoint)
        self.is_to_load = self.is_to_resume  # still

    def save(self, engine: Any) -> None:
        """Save both."""
        with self._meter.during(OF_SAVE), frameworks.loadable_state(engine.module):
            engine.save_checkpoint(self._checkpoint)
        self._trace.has_checkpoint = True
        if self._trace.is_pipeline:
            self._trace.not_saved = "each rank of a pipeline saves the layers that it has"
        else:
            with self._meter.during(OF_EXPORT):
                self._trace.not_saved = self._save_model(engine)
        torch.distributed.barrier()

    def _save_model(self, engine: Any) -> str | None:
        """Why there is no saved model, if there is none; what the framework raises does not end the script."""
        if self._trace.has_adapters:
            with contextlib.suppress(Exception):  # of an older release of peft
                self._trace.adapter_names = lora.names_in_file(engine.module)
        try:
            return frameworks.save_model(engine, self._trainer, self._accelerator, self._export)
        except Exception as error:  # noqa: BLE001 - the error is the result
            return f"{type(error).__name__}: {error}"

    def load(self, engine: Any) -> dict[str, str]:
        """Load the checkpoint, once; digests of what the rank has of it."""
        self.is_to_load = False
        with self._meter.during(OF_LOAD):
            engine.load_checkpoint(self._checkpoint)
        return probes.fingerprint(engine)


def no_room(engine: Any, evidence: Evidence, folder: str) -> str | None:
    """Why the checkpoint and the model are not saved, if the disk has no room for them; every rank says the same.

    A checkpoint has the master weights and the states of all ranks, and below stage 3 the weights; the model has them
    once more. Frozen weights and what lies on NVMe are not counted, so a disk that is almost full may fill up.
    """
    weights = whole_weights.bytes_of(engine) * (1 if evidence.engine is not None and evidence.engine.stage == 3 else 2)
    is_of_rank = evidence.engine is None or evidence.engine.stage > 0 or evidence.rank == 0  # else all have the same
    own = sum(held.bytes for kind, held in evidence.held.items() if kind not in _NOT_SAVED) if is_of_rank else 0
    size = measured.of_all_ranks(own, engine.device) + weights
    free = torch.tensor(shutil.disk_usage(folder).free, dtype=torch.int64, device=engine.device)
    torch.distributed.all_reduce(free, op=torch.distributed.ReduceOp.MIN)
    room = int(free)
    if size <= room:
        return None
    there = f"the disk of {folder} has {room / _GB:,.1f} GB free"
    return f"the checkpoint and the model take about {size / _GB:,.1f} GB, and {there}"
