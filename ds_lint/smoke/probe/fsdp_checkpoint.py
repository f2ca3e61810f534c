"""What ds-lint saves of a model that FSDP shards: a checkpoint for the second start, the model, and the shards.

A script with Accelerate or the Trainer saves and loads through ``Accelerator.save_state``, any other through
``torch.distributed.checkpoint``. The shards are raw tensors of each rank, from which the driver puts the weights
together again: no collective and no state dict takes part in that.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import OF_EXPORT, OF_LOAD, OF_SAVE
from ds_lint.smoke.observe import fsdp_shards, fsdp_step
from ds_lint.smoke.observe.probes import digest
from ds_lint.smoke.probe.plan import RESUME
from ds_lint.smoke.records.fsdp_trace import BY_TORCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.observe.fsdp_step import OwnTensor
    from ds_lint.smoke.probe.measured import EngineMeter
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.records.engine_trace import EngineTrace
    from ds_lint.smoke.records.fsdp_trace import FsdpTrace

BY_ACCELERATE = "Accelerator.save_state"
SHARDS = "shards.pt"  # the file of a rank
WEIGHTS = "pytorch_model.bin"
LARGEST = 2**31  # bytes of the shards of a rank that are written


class ModelCheckpoint:
    """Saved by every rank in the first start, and loaded in the second."""

    def __init__(self, plan: Plan, trace: EngineTrace, meter: EngineMeter, folder: str) -> None:
        assert trace.fsdp is not None  # noqa: S101 - it is of such a model
        self._trace, self._own = trace, trace.fsdp
        self._meter = meter
        self._folder = folder
        self._checkpoint = os.path.join(folder, "checkpoint")
        self._export = os.path.join(folder, "export")
        self.is_to_resume = plan.part == RESUME and os.path.isdir(self._checkpoint)
        self.is_to_load = self.is_to_resume

    def save(self, model: Any, optimizers: list[Any], accelerator: Any, trainer: Any) -> None:
        """Save all of it; what the libraries raise is a result, and does not end the script."""
        self._own.checkpoint_by = BY_TORCH if accelerator is None else BY_ACCELERATE
        if self._own.foreign:
            self._own.not_checkpointed = "the optimizer has parameters that are not of the model"
        try:
            with self._meter.during(OF_SAVE):
                if self._own.foreign:
                    pass
                elif accelerator is not None:
                    with _between_steps(accelerator):
                        accelerator.save_state(self._checkpoint)
                else:
                    self._save_by_torch(model, optimizers)
            self._trace.has_checkpoint = not self._own.foreign
        except Exception as error:  # noqa: BLE001 - the error is the result
            self._own.not_checkpointed = f"{type(error).__name__}: {error}"
        self._write_shards(model)
        try:
            with self._meter.during(OF_EXPORT):
                self._trace.not_saved = _export(model, accelerator, trainer, self._export, self._own)
        except Exception as error:  # noqa: BLE001 - the same
            self._trace.not_saved = f"{type(error).__name__}: {error}"
        torch.distributed.barrier()

    def load(self, model: Any, optimizers: list[Any], accelerator: Any) -> dict[str, str]:
        """Load the checkpoint, once; digests of what the rank has of it."""
        self.is_to_load = False
        with self._meter.during(OF_LOAD):
            if accelerator is not None:
                with _between_steps(accelerator):
                    accelerator.load_state(self._checkpoint)
            else:
                self._load_by_torch(model, optimizers)
        return fingerprint(fsdp_step.tensors_of(model), optimizers)

    def _save_by_torch(self, model: Any, optimizers: list[Any]) -> None:
        from torch.distributed import checkpoint
        from torch.distributed.checkpoint.state_dict import get_state_dict

        weights, states = get_state_dict(model, optimizers)
        checkpoint.save({"model": weights, "optimizer": states}, checkpoint_id=self._checkpoint)

    def _load_by_torch(self, model: Any, optimizers: list[Any]) -> None:
        from torch.distributed import checkpoint
        from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

        weights, states = get_state_dict(model, optimizers)
        found = {"model": weights, "optimizer": states}
        checkpoint.load(found, checkpoint_id=self._checkpoint)
        set_state_dict(model, optimizers, model_state_dict=found["model"], optim_state_dict=found["optimizer"])

    def _write_shards(self, model: Any) -> None:
        tensors = fsdp_step.tensors_of(model)
        size = sum(fsdp_shards.local(one.tensor).nbytes for one in tensors)
        too_large = torch.tensor(int(size > LARGEST))
        torch.distributed.all_reduce(too_large, op=torch.distributed.ReduceOp.MAX)
        if int(too_large):
            self._own.shards_left_out = "the weights are too large to write the shards beside them"
            return
        found = []
        for one in tensors:
            flat = fsdp_shards.local(one.tensor).reshape(-1)
            for part in one.parts:
                piece = flat[part.begin : part.begin + part.length].to("cpu", copy=True)
                found.append((part.name, part.size, part.start, piece))
        path = os.path.join(self._folder, f"rank-{self._trace.evidence.rank}", SHARDS)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        torch.save(found, path)


@contextlib.contextmanager
def _between_steps(accelerator: Any) -> Iterator[None]:
    """Let Accelerate load as at the beginning of a script: its optimizers make no step within an open window."""
    state = accelerator.gradient_state
    before, micro_step = state.sync_gradients, accelerator.step
    state._set_sync_gradients(True)  # noqa: SLF001
    try:
        yield
    finally:
        state._set_sync_gradients(before)  # noqa: SLF001
        accelerator.step = micro_step  # counts the micro steps of this start, which ends its windows


def fingerprint(tensors: list[OwnTensor], optimizers: list[Any]) -> dict[str, str]:
    """Digests of every tensor that the rank has of a model and its optimizers."""
    found = {}
    for one in tensors:
        name = " ".join(part.name for part in one.parts)
        if name:
            found[f"parameter {name}"] = digest(fsdp_shards.local(one.tensor))
        for optimizer in optimizers:
            for kind, value in optimizer.state.get(one.tensor, {}).items() if name else ():
                if torch.is_tensor(value):
                    found[f"{kind} {name}"] = digest(fsdp_shards.local(value))
    return found


def _export(model: Any, accelerator: Any, trainer: Any, folder: str, own: FsdpTrace) -> str | None:
    """Save the model as the framework does; why there is none, if there is none. All ranks take part."""
    is_first = torch.distributed.get_rank() == 0
    if trainer is not None:
        own.export_by = "trainer.save_model"
        trainer.save_model(folder)
        return None
    if accelerator is not None:
        own.export_by = "accelerator.get_state_dict"
        weights = accelerator.get_state_dict(model)
        inner = accelerator.unwrap_model(model)
        if hasattr(inner, "save_pretrained"):
            inner.save_pretrained(folder, is_main_process=is_first, save_function=accelerator.save, state_dict=weights)
            return None
    else:
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        own.export_by = "get_model_state_dict"
        weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if is_first:
        os.makedirs(folder, exist_ok=True)
        torch.save({name: one for name, one in weights.items() if torch.is_tensor(one)}, os.path.join(folder, WEIGHTS))
    return None
