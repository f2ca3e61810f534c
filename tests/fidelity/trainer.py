"""What the Trainer and Accelerate make of a config before DeepSpeed sees it: their own code, without a process group.

TrainingArguments are the real ones, made without ``deepspeed``, which would start a process group. What they do with it
(``__post_init__`` in transformers/training_args.py), the Trainer at the beginning of the training
(``deepspeed_init`` and ``deepspeed_optim_sched`` in transformers/integrations/deepspeed.py) and the Accelerator is done
here, with their functions and in their order, up to the call of ``deepspeed.initialize``.
"""

from __future__ import annotations

import copy
import os
import warnings
from inspect import signature
from types import SimpleNamespace
from typing import Any
from unittest import mock

import accelerate
import deepspeed
import torch
from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler
from deepspeed.ops.op_builder.builder import OpBuilder
from transformers import TrainingArguments
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

from ds_lint.smoke.standins import ops

HIDDEN_SIZE = 64
STEPS = 100
FIELDS = {"per_device_train_batch_size": 1}
# Whether the release looks at the config again for another batch size: Trainer._update_auto_batch_size.
LOOKS_AGAIN = "auto_find_batch_size" in signature(HfTrainerDeepSpeedConfig.trainer_config_process).parameters
OUTSIDE = ("ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_DEEPSPEED")  # where older releases leave word


class Initialized(Exception):  # noqa: N818 - not an error: the end of what is looked at
    """deepspeed.initialize was called."""


def arguments_of(fields: dict[str, Any], world_size: int = 1) -> TrainingArguments:
    """The real training arguments of a run with so many ranks; raises what they raise."""
    ranked = type("TrainingArguments", (TrainingArguments,), {"world_size": property(lambda _: world_size)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ranked(**{"output_dir": "out", "use_cpu": True, "report_to": "none"} | fields)


def prepare(
    config: dict[str, Any] | str,
    fields: dict[str, Any] | None = None,  # of TrainingArguments
    *,
    world_size: int = 1,
    model_config: Any = None,
    steps: int = STEPS,
) -> dict[str, Any]:
    """The config as deepspeed.initialize gets it from the Trainer; raises what the Trainer raises."""
    with (
        mock.patch.dict(os.environ),
        mock.patch.object(OpBuilder, "load", lambda builder, **_: ops.stand_in(builder.name)),  # no compiler
        mock.patch.object(deepspeed, "initialize", side_effect=Initialized) as initialize,
    ):
        for name in OUTSIDE:
            os.environ.pop(name, None)
        arguments = arguments_of(FIELDS if fields is None else fields, world_size)
        trainer = HfTrainerDeepSpeedConfig(copy.deepcopy(config))
        trainer.trainer_config_process(arguments)
        plugin = DeepSpeedPlugin(hf_ds_config=trainer)
        plugin.set_mixed_precision(_mixed_precision(arguments))
        if arguments.auto_find_batch_size and LOOKS_AGAIN:
            trainer = HfTrainerDeepSpeedConfig(plugin.hf_ds_config.config)  # Trainer._update_auto_batch_size
            plugin.hf_ds_config, plugin.deepspeed_config = trainer, trainer.config
            trainer.trainer_config_process(arguments, auto_find_batch_size=True)
        model = _model({"hidden_size": HIDDEN_SIZE} if model_config is None else model_config)
        trainer.trainer_config_finalize(arguments, model, steps if arguments.max_steps <= 0 else arguments.max_steps)
        accelerator = SimpleNamespace(
            deepspeed_plugin=plugin,
            num_processes=world_size,
            gradient_accumulation_steps=1,
            split_batches=False,
            parallelism_config=None,
            fp8_backend=None,
            fp8_recipe_handler=None,
            state=SimpleNamespace(mixed_precision="no", deepspeed_plugin=plugin),
            mixed_precision="no",
            device=torch.device("cpu"),
            _models=[],
        )
        try:
            accelerate.Accelerator._prepare_deepspeed(accelerator, model, *_optimizer_and_scheduler(trainer.config))
        except Initialized:
            return initialize.call_args.kwargs["config_params"]
    raise AssertionError("the Accelerator did not initialize DeepSpeed")


def _mixed_precision(arguments: TrainingArguments) -> str:
    """What the Accelerator is told; older releases leave it in the environment."""
    return getattr(arguments, "mixed_precision", None) or os.environ.get("ACCELERATE_MIXED_PRECISION", "no")


def _model(config: Any) -> torch.nn.Module:
    """A model with this config: a real one, or what its file holds."""
    model = torch.nn.Linear(1, 1)
    if not isinstance(config, dict):
        model.config = config
        return model
    parts = {name: SimpleNamespace(**value) if isinstance(value, dict) else value for name, value in config.items()}
    model.config = SimpleNamespace(**parts)
    return model


def _optimizer_and_scheduler(config: dict[str, Any]) -> list[Any]:
    """As ``deepspeed_optim_sched`` makes them."""
    if "optimizer" in config:
        optimizer: Any = DummyOptim(params=[])
        callable_ = None if "scheduler" in config else lambda _optimizer: None
        return [optimizer, DummyScheduler(optimizer, lr_scheduler_callable=callable_)]
    config["zero_allow_untested_optimizer"] = True
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    return [optimizer, DummyScheduler(optimizer)] if "scheduler" in config else [optimizer]
