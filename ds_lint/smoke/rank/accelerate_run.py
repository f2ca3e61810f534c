"""The run for a script with its own loop and Hugging Face Accelerate."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler
from torch.utils.data import DataLoader

from ds_lint.smoke.rank import data, generation, training_model
from ds_lint.smoke.rank.deepspeed_run import CHECKPOINT, EXPORT
from ds_lint.smoke.records.job import GENERATE, RESUME, Job, TrainedParameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.observe.observation import Watch
    from ds_lint.smoke.records.accelerate_script import AccelerateScript


def train(job: Job, rank: int, config: Any, watch: Watch) -> None:
    """Train, save the state and the model, and continue; or load the saved state, and continue."""
    watch.enter("model")
    recipe = training_model.recipe_of(job)  # before transformers puts every model into zero.Init
    watch.evidence.model = recipe.words
    loop = _Loop(job, recipe, config, watch)
    checkpoint = os.path.join(job.folder, CHECKPOINT)
    if job.part == GENERATE:
        watch.enter("train")
        loop.train(0, 1)
        generation.observe(job, loop.engine, rank, watch)
        return
    if job.part == RESUME:
        watch.enter("load")
        loop.accelerator.load_state(checkpoint)
        watch.resumed(loop.engine)
        watch.enter("train on")
        loop.train(job.steps, job.steps_after)
        return
    watch.enter("train")
    loop.train(0, job.steps)
    watch.at_checkpoint(loop.engine)
    watch.enter("save")
    loop.accelerator.save_state(checkpoint)
    watch.evidence.save_refusal = _save_model(job, loop)
    loop.accelerator.wait_for_everyone()
    watch.enter("train on")
    loop.train(job.steps, job.steps_after)


class _Loop:
    """What a script makes before its loop, and the loop."""

    def __init__(self, job: Job, recipe: training_model.Recipe, config: Any, watch: Watch) -> None:
        script = job.script
        assert script is not None  # noqa: S101 - the driver makes one for this stack
        watch.enter("initialize")
        self.accelerator = Accelerator(
            deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config),
            mixed_precision=script.mixed_precision,
            gradient_accumulation_steps=script.accumulation_steps,
        )
        watch.enter("model")
        model = training_model.build(recipe)
        watch.evidence.parameters = [
            TrainedParameter(
                name, getattr(parameter, "ds_numel", parameter.numel()), is_trainable=parameter.requires_grad
            )
            for name, parameter in model.named_parameters()
        ]
        watch.built(model)
        watch.enter("initialize")
        samples = data.Tokens(recipe, _samples(job, script, config))
        parts = [model, _optimizer(model, config, script), DataLoader(samples, batch_size=_batch_size(script, config))]
        if "scheduler" in config:
            parts.append(
                DummyScheduler(parts[1], total_num_steps=script.total_steps, warmup_num_steps=script.warmup_steps)
            )
        self.engine, self.optimizer, self.loader, *schedulers = self.accelerator.prepare(*parts)
        self.schedulers: list[Any] = schedulers

    def train(self, first: int, steps: int) -> None:
        """The loop of the documentation of Accelerate, from a step on."""
        windows = self.accelerator.gradient_accumulation_steps  # the one of the config, since prepare
        for place, batch in self._batches(first * windows, steps * windows):
            torch.manual_seed(place)  # dropout, so that a resumed run draws the same
            with self.accelerator.accumulate(self.engine):
                self.accelerator.backward(self.engine(**batch).loss)
                for part in (self.optimizer, *self.schedulers):
                    part.step()
                self.optimizer.zero_grad()

    def _batches(self, first: int, count: int) -> Iterator[tuple[int, Any]]:
        rest = self.accelerator.skip_first_batches(self.loader, first) if first else self.loader
        return zip(range(first, first + count), itertools.islice(rest, count), strict=True)


def _optimizer(model: Any, config: Any, script: AccelerateScript) -> Any:
    """The optimizer of the script; a placeholder if the config has one."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    make = DummyOptim if "optimizer" in config else torch.optim.AdamW
    return make(parameters, lr=script.rate, weight_decay=script.weight_decay)


def _batch_size(script: AccelerateScript, config: Any) -> int:
    """The batch size of the loader: that of the config if it is a number, as DeepSpeed does not slice batches."""
    written = config.get("train_micro_batch_size_per_gpu")
    return written if isinstance(written, int) and written > 0 else script.batch_size


def _samples(job: Job, script: AccelerateScript, config: Any) -> int:
    """Enough for every step of all ranks."""
    written = config.get("gradient_accumulation_steps")
    windows = written if isinstance(written, int) and written > 0 else script.accumulation_steps
    return (job.steps + job.steps_after + 1) * windows * _batch_size(script, config) * job.world_size


def _save_model(job: Job, loop: _Loop) -> str | None:
    """Save the model as the documentation of Accelerate shows; what ``get_state_dict`` raises, as text."""
    try:
        weights = loop.accelerator.get_state_dict(loop.engine)
    except ValueError as error:  # on every rank
        return str(error)
    loop.accelerator.unwrap_model(loop.engine).save_pretrained(
        os.path.join(job.folder, EXPORT),
        is_main_process=loop.accelerator.is_main_process,
        save_function=loop.accelerator.save,
        state_dict=weights,
    )
    return None
