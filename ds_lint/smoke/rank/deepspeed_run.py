"""The run for a script that calls ``deepspeed.initialize``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import deepspeed
import torch

from ds_lint.smoke.rank import data, generation, training_model
from ds_lint.smoke.records.job import ADAMW, CPU_ADAM, GENERATE, RATE, RESUME, Job, TrainedParameter

if TYPE_CHECKING:
    from ds_lint.smoke.observe.observation import Watch

CHECKPOINT = "checkpoint"
EXPORT = "export"
WEIGHTS = "pytorch_model.bin"
OPTIMIZERS = {ADAMW: torch.optim.AdamW, CPU_ADAM: deepspeed.ops.adam.DeepSpeedCPUAdam}


def train(job: Job, rank: int, config: Any, watch: Watch) -> None:
    """Train, save, and continue; or load the saved state, and continue."""
    watch.enter("model")
    recipe = training_model.recipe_of(job)
    engine = _initialize(job, recipe, config, watch)
    if job.part == GENERATE:
        watch.enter("train")
        _steps(engine, recipe, rank, range(1))
        generation.observe(job, engine, rank, watch)
        return
    if job.part == RESUME:
        watch.enter("load")
        engine.load_checkpoint(os.path.join(job.folder, CHECKPOINT))
        watch.resumed(engine)
    else:
        watch.enter("train")
        _steps(engine, recipe, rank, range(job.steps))
        watch.at_checkpoint(engine)
        watch.enter("save")
        _save(job, rank, engine)
    watch.enter("train on")
    _steps(engine, recipe, rank, range(job.steps, job.steps + job.steps_after))


def _initialize(job: Job, recipe: training_model.Recipe, config: Any, watch: Watch) -> Any:
    watch.evidence.model = recipe.words
    model = training_model.build(recipe)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    watch.evidence.parameters = [
        TrainedParameter(names[id(parameter)], parameter.numel(), is_trainable=parameter.requires_grad)
        for parameter in model.parameters()
    ]
    watch.built(model)
    watch.enter("initialize")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = OPTIMIZERS[job.optimizer](trained, lr=RATE) if job.optimizer else None
    return deepspeed.initialize(
        model=model,
        model_parameters=None if optimizer else trained,
        optimizer=optimizer,
        config=config,
    )[0]


def _steps(engine: Any, recipe: training_model.Recipe, rank: int, steps: range) -> None:
    size, windows = engine.train_micro_batch_size_per_gpu(), engine.gradient_accumulation_steps()
    replica = rank // _ranks_of_tensors(engine)
    for step in steps:
        for micro_step in range(windows):
            place = step * windows + micro_step
            torch.manual_seed(place)  # dropout, so that a resumed run draws the same
            batch = {name: value.to(engine.device) for name, value in data.batch(recipe, size, place, replica).items()}
            engine.backward(engine(**batch).loss)
            engine.step()


def _ranks_of_tensors(engine: Any) -> int:
    """The neighbours that share each tensor: they have to get the same samples, and the engine raises where not."""
    return int(engine.autotp_size() or 1) if hasattr(engine, "autotp_size") else 1


def _save(job: Job, rank: int, engine: Any) -> None:
    engine.save_checkpoint(os.path.join(job.folder, CHECKPOINT))
    export = os.path.join(job.folder, EXPORT)
    if rank == 0:
        os.makedirs(export, exist_ok=True)
        engine.module.config.save_pretrained(export)
    torch.distributed.barrier()
    engine.save_16bit_model(export, WEIGHTS, exclude_frozen_parameters=job.has_adapters)
    if job.has_adapters and rank == 0:
        _save_adapters(engine, export)
    torch.distributed.barrier()


def _save_adapters(engine: Any, folder: str) -> None:
    """Turn the weights that DeepSpeed saved into the file that peft loads; DeepSpeed may have saved none."""
    path = os.path.join(folder, WEIGHTS)
    if os.path.exists(path):
        engine.module.save_pretrained(folder, state_dict=torch.load(path, map_location="cpu", weights_only=True))
        os.unlink(path)
