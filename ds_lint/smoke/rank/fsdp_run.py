"""The run for a script with its own loop and Accelerate, where a YAML for ``accelerate launch`` asks for FSDP."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from ds_lint.smoke.expected import fsdp_shares, fsdp_units
from ds_lint.smoke.observe.fsdp_recording import FsdpRecording
from ds_lint.smoke.observe.fsdp_watch import FsdpWatch
from ds_lint.smoke.rank import data, environment, fsdp_launch, training_model
from ds_lint.smoke.rank.deepspeed_run import CHECKPOINT, EXPORT
from ds_lint.smoke.records.fsdp import FSDP1
from ds_lint.smoke.records.job import RESUME, TRAIN, Evidence, Job, TrainedParameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.smoke.records.fsdp import FsdpJob

_OTHER_SEED = 1000  # of the weights of ranks to which rank 0 sends its own


def train(job: Job, rank: int, evidence: Evidence, enter: Callable[[str], None]) -> None:
    """Train, save the state and the model, and continue; or load the saved state, and continue."""
    assert job.fsdp is not None  # noqa: S101 - of a job with FSDP
    enter("meet")
    environment.set_up(job, rank)
    enter("load")
    read = fsdp_launch.set_up(job)
    fsdp_launch.stand_in(job)
    watch = FsdpWatch(
        evidence, enter, FsdpRecording(job, rank, fsdp_shares.of_own_place) if job.part == TRAIN else None
    )
    enter("model")
    recipe = training_model.recipe_of(job)
    evidence.model = recipe.words
    loop = _FsdpLoop(job, job.fsdp, rank, recipe, watch)
    checkpoint = os.path.join(job.folder, CHECKPOINT)
    if job.part == RESUME:
        enter("load")
        loop.accelerator.load_state(checkpoint)
        evidence.fingerprint = watch.fingerprint()
        enter("train on")
        loop.train(job.steps, job.steps_after)
    else:
        enter("train")
        loop.train(0, job.steps)
        watch.at_checkpoint()
        enter("save")
        loop.accelerator.save_state(checkpoint)
        loop.save_model(os.path.join(job.folder, EXPORT))
        loop.accelerator.wait_for_everyone()
        enter("train on")
        loop.train(job.steps, job.steps_after)
    watch.finish()
    watch.seen.arguments, watch.seen.variables = sorted(read.arguments), sorted(read.variables)


class _FsdpLoop:
    """What a script makes before its loop, and the loop, as in the documentation of Accelerate."""

    def __init__(self, job: Job, fsdp: FsdpJob, rank: int, recipe: training_model.Recipe, watch: FsdpWatch) -> None:
        self.fsdp, self.watch = fsdp, watch
        watch.enter("initialize")
        self.accelerator = Accelerator(gradient_accumulation_steps=fsdp.accumulation_steps)
        watch.enter("model")
        others = rank > 0 and fsdp.syncs
        model = training_model.build(recipe._replace(seed=recipe.seed + _OTHER_SEED) if others else recipe)
        watch.evidence.parameters = parameters_of(model)
        watch.built(model, fsdp_units.of_policy(model, fsdp))
        watch.enter("initialize")
        micro_steps = (job.steps + job.steps_after + 1) * fsdp.accumulation_steps
        samples = data.Tokens(recipe, micro_steps * fsdp.batch_size * job.world_size)
        loader = DataLoader(samples, batch_size=fsdp.batch_size)
        if fsdp.version == FSDP1:  # the optimizer gets the flat parameters
            model = self.accelerator.prepare(model)
            optimizer, loader = self.accelerator.prepare(optimizer_of(model, fsdp), loader)
        else:
            model, optimizer, loader = self.accelerator.prepare(model, optimizer_of(model, fsdp), loader)
        self.model, self.optimizer, self.loader = model, optimizer, loader
        watch.prepared(model, optimizer)

    def train(self, first: int, steps: int) -> None:
        """The loop from a step on."""
        windows = self.fsdp.accumulation_steps
        for place, batch in self._batches(first * windows, steps * windows):
            torch.manual_seed(place)  # so that a resumed run draws the same
            with self.accelerator.accumulate(self.model):
                self.accelerator.backward(self.model(**batch).loss)
                if self.accelerator.sync_gradients:
                    norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.fsdp.clipping)
                    self.watch.clipped(_number(norm))
                self.optimizer.step()
                self.optimizer.zero_grad()
            if self.accelerator.sync_gradients:
                is_skipped = self.accelerator.optimizer_step_was_skipped
                self.watch.stepped(is_skipped=is_skipped, norm=_number(norm))

    def save_model(self, folder: str) -> None:
        """Save the model as the documentation of Accelerate shows."""
        weights = self.accelerator.get_state_dict(self.model)
        self.accelerator.unwrap_model(self.model).save_pretrained(
            folder,
            is_main_process=self.accelerator.is_main_process,
            save_function=self.accelerator.save,
            state_dict=weights,
        )

    def _batches(self, first: int, count: int) -> Iterator[tuple[int, Any]]:
        rest = self.accelerator.skip_first_batches(self.loader, first) if first else self.loader
        return zip(range(first, first + count), itertools.islice(rest, count), strict=True)


def parameters_of(model: Any) -> list[TrainedParameter]:
    """The parameters of a model that is not sharded yet."""
    return [
        TrainedParameter(name, one.numel(), is_trainable=one.requires_grad) for name, one in model.named_parameters()
    ]


def optimizer_of(model: Any, fsdp: FsdpJob) -> Any:
    """The optimizer of the loop."""
    return torch.optim.AdamW(model.parameters(), lr=fsdp.rate, weight_decay=fsdp.weight_decay)


def _number(norm: Any) -> float:
    """A norm, which FSDP 2 has as a tensor over ranks."""
    whole = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return float(whole)
