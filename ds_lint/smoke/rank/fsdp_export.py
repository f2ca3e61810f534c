"""What a new process without ranks finds in the files that a run with FSDP has saved."""

from __future__ import annotations

import glob
import os
import tempfile
from typing import TYPE_CHECKING

import torch
from torch.distributed.checkpoint import CheckpointException  # no Exception

from ds_lint.smoke.observe import fsdp_recording, saved_weights
from ds_lint.smoke.observe.probes import digest
from ds_lint.smoke.rank import training_model
from ds_lint.smoke.rank.deepspeed_run import CHECKPOINT, EXPORT
from ds_lint.smoke.records.fsdp import FsdpSaved, plain_name
from ds_lint.smoke.records.job import Exported, Job

if TYPE_CHECKING:
    from collections.abc import Iterator

_WHOLE, _SHARDED = "pytorch_model_fsdp.bin", "pytorch_model_fsdp_0"  # accelerate/utils/fsdp_utils.py
_LOCAL = "pytorch_model_fsdp_rank*.bin"  # flat shards, which only the same ranks can load


def inspect(job: Job) -> tuple[Exported, FsdpSaved]:
    """Load the saved model with ``from_pretrained``, and the weights of the checkpoint as they are stored."""
    folder, checkpoint = _folders(job)
    exported = Exported(files=saved_weights.files_of(folder))
    recipe = training_model.recipe_of(job)
    try:
        weights = dict(saved_weights.stored(folder))
        exported.empty = sorted(name for name, tensor in weights.items() if tensor.numel() == 0)
        exported.stored = {name: digest(tensor) for name, tensor in weights.items()}
        auto = training_model.auto_class(recipe)
        model, info = auto.from_pretrained(folder, dtype="auto", output_loading_info=True)
        saved_weights.note_loaded(model, info, weights, exported)
    except Exception as error:  # noqa: BLE001 - the error is the result
        exported.load_error = f"{type(error).__name__}: {error}"
    shapes = {name: one.shape for name, one in training_model.build(recipe).named_parameters()}
    saved = FsdpSaved(files=saved_weights.files_of(checkpoint))
    for name, (whole, is_complete) in _assembled(job, shapes).items():
        saved.trained[name] = digest(whole)
        saved.incomplete += [] if is_complete else [name]
    try:
        saved.kept = {name: digest(one) for name, one in _kept(checkpoint)}
    except (Exception, CheckpointException) as error:  # noqa: BLE001 - the same
        saved.error = f"{type(error).__name__}: {error}"
    return exported, saved


def _folders(job: Job) -> tuple[str, str]:
    """Where the model is saved, and the checkpoint."""
    return os.path.join(job.folder, EXPORT), os.path.join(job.folder, CHECKPOINT)


def _assembled(job: Job, shapes: dict[str, torch.Size]) -> dict[str, tuple[torch.Tensor, bool]]:
    """The whole weights at the checkpoint, from what the optimizers of all ranks made of their shards."""
    whole = {name: torch.zeros(shape.numel()) for name, shape in shapes.items()}
    there = {name: torch.zeros(shape.numel(), dtype=torch.bool) for name, shape in shapes.items()}
    for steps in fsdp_recording.load(job):
        for update in steps[job.steps - 1].updates:
            for at in update.places:
                part = update.after.reshape(-1)[at.begin : at.begin + at.length]
                if at.name in whole:
                    whole[at.name][at.start : at.start + len(part)] = part.float()
                    there[at.name][at.start : at.start + len(part)] = True
    return {name: (one.reshape(shapes[name]), bool(there[name].all())) for name, one in whole.items()}


def _kept(checkpoint: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights in a checkpoint, of whichever of the three kinds it is."""
    whole, sharded = os.path.join(checkpoint, _WHOLE), os.path.join(checkpoint, _SHARDED)
    if os.path.exists(whole):
        found = torch.load(whole, map_location="cpu", weights_only=True)
        yield from ((plain_name(name), one) for name, one in found.items())
    elif os.path.isdir(sharded):
        yield from _of_parts(sharded)
    elif not glob.glob(os.path.join(checkpoint, _LOCAL)):
        raise FileNotFoundError(f"no file with weights in {os.path.basename(checkpoint)}")


def _of_parts(folder: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The parts that torch.distributed.checkpoint has written, put together without a process group."""
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "joined.pt")
        dcp_to_torch_save(folder, path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    yield from ((plain_name(name), one) for name, one in found.get("model", found).items())
