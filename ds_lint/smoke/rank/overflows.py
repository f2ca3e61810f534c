"""A few steps after the training whose gradients ds-lint chooses, so that it is known which of them overflow.

The engine goes forward and backward as before, and a hook puts a number in the place of each gradient: one that every
dtype has, or infinity on the last rank alone, of which the others have to hear. Of the loss scaler nothing is read but
the scale itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe import probes
from ds_lint.smoke.rank import data, training_model

if TYPE_CHECKING:
    from torch import Tensor

    from ds_lint.smoke.records.job import Evidence, Job

_AT_LEAST = "already at minimum"  # what DeepSpeed raises if the scale cannot fall further


class _Gradients:
    """What a rank puts in the place of its gradients."""

    def __init__(self) -> None:
        self.overflows = False  # in one element, of the parameter whose gradient comes next

    def replace(self, gradient: Tensor) -> Tensor:
        """The gradient of a parameter."""
        given = torch.ones_like(gradient)
        if self.overflows and given.numel():
            given.view(-1)[0] = math.inf
            self.overflows = False
        return given


def provoke(job: Job, rank: int, engine: Any, evidence: Evidence) -> None:
    """Make the steps, and note the loss scale after each."""
    recipe = training_model.recipe_of(job)
    gradients = _Gradients()
    for parameter in engine.module.parameters():
        if parameter.requires_grad:
            parameter.register_hook(gradients.replace)
    engine.lr_scheduler = None  # which may have no rate for further steps
    first = (job.steps + job.steps_after) * engine.gradient_accumulation_steps()
    for number, overflows in enumerate(job.overflows):
        gradients.overflows = overflows and rank == job.world_size - 1
        before = engine.skipped_steps
        try:
            _step(engine, recipe, first + number, rank)
        except Exception as error:  # noqa: BLE001 - of the engine; the steps before it are compared
            evidence.stopped = "" if _AT_LEAST in str(error) else f"{type(error).__name__}: {error}"
            return
        if (engine.skipped_steps > before) != overflows:
            evidence.made_anyway.append(number)
        evidence.scales.append(probes.loss_scale(engine) or 1.0)


def _step(engine: Any, recipe: training_model.Recipe, place: int, rank: int) -> None:
    batch = data.batch(recipe, engine.train_micro_batch_size_per_gpu(), place, rank)
    inputs = {name: value.to(engine.device) for name, value in batch.items()}
    for _ in range(engine.gradient_accumulation_steps()):
        engine.backward(engine(**inputs).loss)
        engine.step()
