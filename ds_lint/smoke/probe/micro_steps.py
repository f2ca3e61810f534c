"""The micro steps of the optimizer step that an engine of the user's script makes on one rank, and their inputs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe import probes
from ds_lint.smoke.observe.tensors import tensors_in
from ds_lint.smoke.observe.training_mode import idle
from ds_lint.smoke.probe import measured
from ds_lint.smoke.probe.plan import RESUME, TRAIN

if TYPE_CHECKING:
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.records.engine_trace import EngineTrace


class MicroSteps:
    """Counts the passes of a step, and takes digests of what the model gets."""

    def __init__(self, plan: Plan, trace: EngineTrace, folder: str) -> None:
        self._part = plan.part
        self._trace = trace
        self._mark = os.path.join(folder, "trains-in-eval-mode")  # for the second start
        self._trains_in_eval_mode = plan.part == RESUME and os.path.exists(self._mark)
        self._trained = self._untrained = 0  # forward passes with gradients, by the mode of the model
        self._backwards = self._last_backwards = self._tokens = 0
        self._digests: list[str] = []

    def is_training(self, model: torch.nn.Module) -> bool:
        """Whether a forward pass that begins trains the model; it is counted."""
        if not torch.is_grad_enabled():
            return False
        is_training = model.training or self._trains_in_eval_mode
        self._trained += is_training
        self._untrained += not is_training
        return is_training

    def note_inputs(self, args: Any, kwargs: Any) -> None:
        """What the model gets in a forward pass."""
        self.note_batch((args, kwargs))
        self._tokens += measured.tokens_in(args, kwargs)
        if not self._trace.is_trained:
            self._trace.rows.append(next((len(one) for one in tensors_in((args, kwargs)) if one.dim()), 0))

    def note_batch(self, batch: Any) -> None:
        """What a pipeline gets, or any other model."""
        self._digests.append(" ".join(map(probes.digest, tensors_in(batch))))

    def count_backward(self, engine: Any) -> None:
        """A backward pass begins."""
        if self._part == TRAIN and not engine.module.training:
            self._note_evaluation_mode(engine.module)
        if self._untrained and not self._trained and self._part == TRAIN:
            self._trains_in_eval_mode = True  # ``from_pretrained`` leaves a model in it
            os.makedirs(os.path.dirname(self._mark), exist_ok=True)
            with open(self._mark, "wb"):
                pass
        self._backwards += is_micro_step(engine)
        self._last_backwards += 1 if engine.is_gradient_accumulation_boundary() else 0

    def _note_evaluation_mode(self, model: torch.nn.Module) -> None:
        """Note that a step trains a model that is in evaluation mode."""
        trace, step = self._trace, len(self._trace.micro_steps) + 1
        if step not in trace.in_evaluation:
            trace.in_evaluation.append(step)
            trace.idle = trace.idle or idle(model)

    def before_step(self) -> None:
        """The optimizer is about to make a step."""
        if not self._trace.is_trained and not self._backwards:
            self._trace.lacks_backward = not self._trace.is_pipeline

    def after_step(self) -> None:
        """The optimizer has made it."""
        self._trace.is_trained = True
        self._trace.batches.append(self._digests)
        self._trace.micro_steps.append(self._backwards)
        self._trace.last_micro_steps.append(self._last_backwards)
        self._trace.measured.tokens.append(self._tokens)
        self._digests, self._backwards, self._last_backwards, self._tokens = [], 0, 0, 0
        self._trained = self._untrained = 0


def is_micro_step(engine: Any) -> bool:
    """DeepSpeed counts no backward pass within ``engine.no_sync``, unless the caller says where a window ends.

    Accelerate does, and uses ``no_sync`` below stage 2: ``accumulate`` in accelerate/accelerator.py.
    """
    is_set_by_script = getattr(engine, "_is_gradient_accumulation_boundary", None) is not None
    return is_set_by_script or probes.is_coalescing(engine) or not getattr(engine, "inside_no_sync_ctxt", False)
