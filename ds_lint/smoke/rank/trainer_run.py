"""The run for a script that uses the Hugging Face Trainer."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from transformers import Trainer, TrainerCallback, TrainingArguments

from ds_lint.smoke.rank import data, generation, training_model
from ds_lint.smoke.records.job import GENERATE, RESUME, Job, TrainedParameter

if TYPE_CHECKING:
    from ds_lint.smoke.observe.observation import Watch

OUTPUT = "output"


def train(job: Job, rank: int, config: Any, watch: Watch) -> None:
    """Train with a checkpoint on the way; or from that checkpoint to the same end."""
    watch.enter("model")
    recipe = training_model.recipe_of(job)  # before transformers puts every model into zero.Init
    watch.evidence.model = recipe.words
    watch.enter("arguments")
    arguments = TrainingArguments(
        **{
            **job.training,
            "output_dir": os.path.join(job.folder, OUTPUT),
            "deepspeed": config,
            "max_steps": job.training.get("max_steps") or job.steps + job.steps_after,
        }
    )
    watch.enter("model")
    model = training_model.build(recipe)
    watch.built(model)
    watch.enter("initialize")
    callback = _Callback(job, watch)
    trainer = Trainer(
        model=model, args=arguments, train_dataset=data.Tokens(recipe, _samples(job, arguments)), callbacks=[callback]
    )
    callback.trainer = trainer
    watch.evidence.parameters = _parameters(trainer)
    trainer.train(resume_from_checkpoint=_checkpoint(job) if job.part == RESUME else None)


def export_folder(job: Job) -> str:
    """Where the Trainer saves the model with the checkpoint."""
    return _checkpoint(job)


def _checkpoint(job: Job) -> str:
    return os.path.join(job.folder, OUTPUT, f"checkpoint-{job.steps}")


def _samples(job: Job, arguments: TrainingArguments) -> int:
    """Enough for every step of all ranks."""
    steps = job.steps + job.steps_after + 1
    micro_steps = steps * arguments.gradient_accumulation_steps
    samples: float = micro_steps * arguments.per_device_train_batch_size * job.world_size
    return max(job.world_size, math.ceil(samples))


def _parameters(trainer: Trainer) -> list[TrainedParameter]:
    """The parameters with the group that the Trainer puts them in: those with weight decay, and those without.

    An optimizer of the config gets all of them in one (``deepspeed_optim_sched`` in transformers/integrations).
    """
    is_grouped = "optimizer" not in trainer.args.hf_deepspeed_config.config
    decayed = set(trainer.get_decay_parameter_names(trainer.model))
    return [
        TrainedParameter(
            name,
            getattr(parameter, "ds_numel", parameter.numel()),
            group=int(is_grouped and name not in decayed),
            is_trainable=parameter.requires_grad,
        )
        for name, parameter in trainer.model.named_parameters()
    ]


class _Callback(TrainerCallback):
    """Looks at the engine when the Trainer is at the right place, and ends the training after the last step."""

    def __init__(self, job: Job, watch: Watch) -> None:
        self.job = job
        self.watch = watch
        self.trainer: Any = None
        self._is_resumed = False

    def on_step_begin(self, *_arguments: Any, **_more: Any) -> None:
        """The first step of a run that resumed: all is loaded."""
        if self.job.part == RESUME and not self._is_resumed:
            self._is_resumed = True
            self.watch.resumed(self.trainer.model_wrapped)
            self.watch.enter("train on")
        elif not self.watch.evidence.steps:
            self.watch.enter("train")

    def on_step_end(self, _arguments: Any, state: Any, control: Any, **_more: Any) -> None:
        """The step before the checkpoint, and the last one; the first one if the run is about ``generate``."""
        if self.job.part == GENERATE:
            rank = self.watch.evidence.rank
            generation.observe(self.job, self.trainer.model_wrapped, rank, self.watch)
            control.should_save = control.should_evaluate = False
            control.should_training_stop = True
            return
        if self.job.part != RESUME and state.global_step == self.job.steps:
            self.watch.at_checkpoint(self.trainer.model_wrapped)
            self.watch.enter("save")
        control.should_save = self.job.part != RESUME and state.global_step == self.job.steps
        control.should_evaluate = False
        control.should_training_stop = state.global_step >= self.job.steps + self.job.steps_after

    def on_save(self, *_arguments: Any, **_more: Any) -> None:
        """Saved."""
        self.watch.enter("train on")
