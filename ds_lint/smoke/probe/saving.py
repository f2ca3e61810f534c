"""What ds-lint saves of an engine of the user's script: a checkpoint for the second start, and the model."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import OF_EXPORT, OF_LOAD, OF_SAVE
from ds_lint.smoke.observe import lora, probes
from ds_lint.smoke.probe import frameworks
from ds_lint.smoke.probe.plan import RESUME

if TYPE_CHECKING:
    from ds_lint.smoke.probe.frameworks import Frameworks
    from ds_lint.smoke.probe.measured import EngineMeter
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.records.shown import ShownEngine


class EngineCheckpoint:
    """Saved by every rank in the first start, and loaded in the second."""

    def __init__(self, plan: Plan, shown: ShownEngine, meter: EngineMeter, maker: Frameworks, folder: str) -> None:
        self._shown = shown
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
        self._shown.has_checkpoint = True
        if self._shown.is_pipeline:
            self._shown.not_saved = "each rank of a pipeline saves the layers that it has"
        else:
            with self._meter.during(OF_EXPORT):
                self._shown.not_saved = self._save_model(engine)
        torch.distributed.barrier()

    def _save_model(self, engine: Any) -> str | None:
        """Why there is no saved model, if there is none; what the framework raises does not end the script."""
        if self._shown.has_adapters:
            with contextlib.suppress(Exception):  # of an older release of peft
                self._shown.adapter_names = lora.names_in_file(engine.module)
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
