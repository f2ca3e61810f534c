"""What a new process finds in the files that a run has saved."""

from __future__ import annotations

import os
from typing import Any

from ds_lint.smoke.observe import lora, saved_weights
from ds_lint.smoke.observe.probes import digest
from ds_lint.smoke.rank import deepspeed_run, trainer_run, training_model
from ds_lint.smoke.records.job import Exported, Job


def inspect(job: Job) -> Exported:
    """Load the saved model with ``from_pretrained``, and the fp32 weights as zero_to_fp32 does."""
    is_trainer = job.stack == "trainer"
    folder = trainer_run.export_folder(job) if is_trainer else os.path.join(job.folder, deepspeed_run.EXPORT)
    exported = Exported(files=saved_weights.files_of(folder))
    try:
        _load(folder, job, exported)
    except Exception as error:  # noqa: BLE001 - the error is the result
        exported.load_error = saved_weights.sentence_of(error, job.folder)
    checkpoint = folder if is_trainer else os.path.join(job.folder, deepspeed_run.CHECKPOINT)
    try:
        saved_weights.recover(checkpoint, exported)
    except Exception as error:  # noqa: BLE001 - the error is the result
        exported.recovery_error = saved_weights.sentence_of(error, checkpoint)
    return exported


def real_shapes(job: Job) -> list[int] | None:
    """Elements of the parameters of the user's own model, without memory for them; None if no model is given."""
    return [shape.numel for shape in training_model.shapes(job.model)] if job.model is not None else None


def _load(folder: str, job: Job, exported: Exported) -> None:
    weights = dict(saved_weights.stored(folder))
    exported.empty = sorted(name for name, tensor in weights.items() if tensor.numel() == 0)
    exported.stored = {name: digest(tensor) for name, tensor in weights.items()}
    recipe = training_model.recipe_of(job)
    if job.has_adapters:
        _load_adapters(folder, recipe, weights, exported)
        return
    auto = training_model.auto_class(recipe)
    model, info = auto.from_pretrained(folder, dtype=saved_weights.dtype_to_load(weights), output_loading_info=True)
    saved_weights.note_loaded(model, info, weights, exported)


def _load_adapters(folder: str, recipe: training_model.Recipe, weights: dict[str, Any], exported: Exported) -> None:
    """The adapters alone: ``PeftModel.from_pretrained`` makes up those that are missing, and loads 16 bit into fp32."""
    model = lora.loaded(training_model.build_base(recipe), folder)
    adapters = {name: one for name, one in model.named_parameters() if lora.is_adapter(name)}
    names = {name: lora.name_in_file(name) for name in adapters}
    exported.missing = sorted(name for name in adapters if names[name] not in weights)
    exported.loaded = {
        name: digest(one.data.to(weights[names[name]].dtype) if names[name] in weights else one.data)
        for name, one in adapters.items()
    }
