"""The Trainer or the Accelerator that is about to make an engine, and how each saves its model."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.probe import imports
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from ds_lint.diagnostics.finding import Stack

WEIGHTS = "pytorch_model.bin"
_LIBRARIES = ("transformers", "trl", "peft", "sentence_transformers")  # whose Trainers save a whole model
_MAKES_RATES = ("create_optimizer", "create_scheduler", "create_optimizer_and_scheduler")  # of the Trainer


class Frameworks:
    """What of the stack is at work in this process."""

    def __init__(self) -> None:
        self.trainer: Any = None  # the one that trains
        self.accelerator: Any = None  # the one that prepares a model
        self.divides_loss: bool | None = None  # the Trainer by the micro steps, in this one; None without a Trainer
        self._has_own_optimizer = False  # the Trainer: the script gives it one, or a scheduler
        imports.after("transformers.trainer", self._watch_trainer)
        imports.after("accelerate.accelerator", self._watch_accelerator)

    @property
    def stack(self) -> Stack:
        """The stack of an engine that is made now."""
        if self.trainer is not None:
            return "trainer"
        return "accelerate" if self.accelerator is not None else "deepspeed"

    def own_rates(self, given: dict[str, Any]) -> str | None:
        """Why the learning rates of the engine that is made now are those of the script; None if they are not."""
        if self.trainer is None:
            own = next((name for name in ("lr_scheduler", "optimizer") if given.get(name) is not None), None)
            return f"the script passes `{own}` to deepspeed.initialize" if own is not None else None
        kind = sys.modules["transformers.trainer"].Trainer
        is_own = any(getattr(type(self.trainer), name) is not getattr(kind, name) for name in _MAKES_RATES)
        if is_own or self._has_own_optimizer:
            return "the script makes the optimizer or the scheduler of the Trainer"
        return None

    def saves_itself(self) -> bool:
        """Whether the script has a Trainer of its own that saves a model in its own way."""
        if self.trainer is None:
            return False
        classes = type(self.trainer).__mro__
        saving = (next((one for one in classes if name in vars(one)), None) for name in ("save_model", "_save"))
        return any(one is not None and one.__module__.partition(".")[0] not in _LIBRARIES for one in saving)

    def _watch_trainer(self, module: ModuleType) -> None:
        @around(module.Trainer, "train")
        def watched(train: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
            before, self.trainer = self.trainer, trainer
            self._has_own_optimizer = trainer.optimizer is not None or trainer.lr_scheduler is not None
            try:
                return train(trainer, *args, **kwargs)
            finally:
                self.trainer = before

        if hasattr(module.Trainer, "training_step"):
            around(module.Trainer, "training_step")(self._step)

    def _step(self, step: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
        """A micro step of the Trainer, which divides the loss unless the model averages over the tokens of a window."""
        number = kwargs.get("num_items_in_batch", args[2] if len(args) > 2 else None)
        is_average_of_tokens = getattr(trainer, "model_accepts_loss_kwargs", False) and number is not None
        has_own = getattr(trainer, "compute_loss_func", None) is not None
        is_declared = getattr(trainer, "loss_is_scaled_for_ga", None) is not None
        # What divides in its own place, such as TRL's Trainers, counts as the Trainer.
        self.divides_loss = has_own or is_declared or not is_average_of_tokens
        try:
            return step(trainer, *args, **kwargs)
        finally:
            self.divides_loss = None

    def _watch_accelerator(self, module: ModuleType) -> None:
        @around(module.Accelerator, "_prepare_deepspeed")  # where Accelerate makes an engine
        def watched(prepare: Any, accelerator: Any, *args: Any, **kwargs: Any) -> Any:
            before, self.accelerator = self.accelerator, accelerator
            try:
                return prepare(accelerator, *args, **kwargs)
            finally:
                self.accelerator = before


@contextlib.contextmanager
def loadable_state(model: Any) -> Iterator[None]:
    """Let ``engine.save_checkpoint`` save what the model loads: Megatron's loads another state than its own.

    Source: ``save_checkpoint`` in ``megatron/checkpointing.py`` of Megatron-DeepSpeed, which does the same.
    """
    of_megatron = getattr(model, "state_dict_for_save_checkpoint", None)
    if of_megatron is None or "load_state_dict" not in vars(type(model)):
        yield
        return

    def state_dict(destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        return of_megatron(prefix, keep_vars)

    model.state_dict = state_dict
    try:
        yield
    finally:
        del model.state_dict  # that of its class is back


def save_model(engine: Any, trainer: Any, accelerator: Any, folder: str) -> str | None:
    """Save the model as the framework of the script does; why not, if it cannot. Every rank takes part."""
    if trainer is not None:
        trainer.save_model(folder)
        return None
    model = engine.module
    if accelerator is not None:
        try:
            weights = accelerator.get_state_dict(engine)
        except ValueError as error:  # on every rank: stage 3 that gathers no weights
            return f"accelerator.get_state_dict raises: {str(error).partition('. ')[0]}"
        if hasattr(model, "save_pretrained"):
            is_main = accelerator.is_main_process
            model.save_pretrained(folder, is_main_process=is_main, save_function=accelerator.save, state_dict=weights)
        elif accelerator.is_main_process:
            os.makedirs(folder, exist_ok=True)
            accelerator.save(weights, os.path.join(folder, WEIGHTS))
        return None
    if getattr(model, "peft_config", None):
        return "a script with plain DeepSpeed saves its adapter itself"
    if engine.save_16bit_model(folder, WEIGHTS) is False:
        return "engine.save_16bit_model returns False and writes nothing"
    if engine.global_rank == 0 and hasattr(getattr(model, "config", None), "save_pretrained"):
        model.config.save_pretrained(folder)
    return None


def given_arguments(trainer: Any) -> dict[str, Any]:
    """The training arguments that differ from the defaults of ``TrainingArguments``, with the steps of the Trainer.

    A class of a framework, such as ``SFTConfig``, has fields and defaults of its own.
    """
    if trainer is None:
        return {}
    from dataclasses import MISSING, fields

    declared = {one.name: one for one in fields(sys.modules["transformers.training_args"].TrainingArguments)}
    given: dict[str, Any] = {}
    for own in fields(trainer.args):
        one = declared.get(own.name, own)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        value = getattr(trainer.args, one.name, default)
        value = getattr(value, "value", value)
        if value != getattr(default, "value", default) and isinstance(value, (bool, int, float, str, list, dict)):
            given[one.name] = value
    if getattr(trainer.state, "max_steps", 0) > 0:
        given["max_steps"] = trainer.state.max_steps
    return given
