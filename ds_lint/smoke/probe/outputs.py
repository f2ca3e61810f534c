"""The folders into which Trainer, Accelerate, DeepSpeed and models save."""

from __future__ import annotations

import functools
import inspect
import os
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.probe import imports
from ds_lint.smoke.probe.leading import Leading
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ds_lint.smoke.probe.plan import Plan

# Module, class, method, and the argument that is a folder or a file. Each also saves what belongs to a model.
_SAVING = (
    ("transformers.modeling_utils", "PreTrainedModel", "save_pretrained", "save_directory"),
    ("transformers.tokenization_utils_base", "PreTrainedTokenizerBase", "save_pretrained", "save_directory"),
    ("transformers.processing_utils", "ProcessorMixin", "save_pretrained", "save_directory"),
    ("transformers.image_processing_base", "ImageProcessingMixin", "save_pretrained", "save_directory"),
    ("transformers.feature_extraction_utils", "FeatureExtractionMixin", "save_pretrained", "save_directory"),
    ("transformers.configuration_utils", "PretrainedConfig", "save_pretrained", "save_directory"),
    ("transformers.generation.configuration_utils", "GenerationConfig", "save_pretrained", "save_directory"),
    ("transformers.trainer", "Trainer", "save_model", "output_dir"),
    ("peft.peft_model", "PeftModel", "save_pretrained", "save_directory"),
    ("accelerate.accelerator", "Accelerator", "save_state", "output_dir"),
    ("accelerate.accelerator", "Accelerator", "save_model", "save_directory"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "save_checkpoint", "save_dir"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "save_16bit_model", "save_dir"),
    ("torch", "", "save", "f"),
    ("torch.jit", "", "save", "f"),
)
_LOGGING = (
    ("torch.utils.tensorboard.writer", "SummaryWriter", "__init__", "log_dir"),
    ("tensorboardX.writer", "SummaryWriter", "__init__", "logdir"),
)
_LOADING = (
    ("accelerate.accelerator", "Accelerator", "load_state", "input_dir"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "load_checkpoint", "load_dir"),
    ("torch", "", "load", "f"),
)


def install(plan: Plan) -> None:
    """Lead each folder of outputs into the folder of the run, as soon as its library is imported."""
    leading = Leading(plan)
    for rows, lead in ((_SAVING, leading.for_saving), (_LOADING, leading.for_loading), (_LOGGING, leading.led)):
        for module, owner, name, argument in rows:
            imports.after(module, functools.partial(_lead_argument, owner, name, argument, lead))
    imports.after("transformers.training_args", functools.partial(_lead_training_arguments, leading))
    imports.after("transformers.trainer", functools.partial(_find_own_checkpoint, leading))
    imports.after("accelerate.utils.dataclasses", functools.partial(_lead_projects, leading))
    for module, owner in (("csv_monitor", "csvMonitor"), ("tensorboard", "TensorBoardMonitor")):
        imports.after(f"deepspeed.monitor.{module}", functools.partial(_lead_monitor, owner, leading))


def _lead_argument(owner: str, name: str, argument: str, lead: Callable[[Any], Any], module: ModuleType) -> None:
    place: Any = getattr(module, owner, None) if owner else module
    function = vars(place).get(name) if place is not None else None
    if function is None:
        return
    names = list(inspect.signature(function).parameters)
    position = names.index(argument) if argument in names else None

    @around(place, name)
    def led(function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if argument in kwargs:
            kwargs[argument] = lead(kwargs[argument])
        elif position is not None and position < len(args):
            args = (*args[:position], lead(args[position]), *args[position + 1 :])
        return function(*args, **kwargs)  # which rejects what does not fit its signature


def _lead_training_arguments(leading: Leading, module: ModuleType) -> None:
    """The Trainer gets an ``output_dir`` that looks empty: it rotates no checkpoint of the user, and finds none."""

    @around(module.TrainingArguments, "__post_init__")
    def led(prepare: Any, arguments: Any) -> None:
        prepare(arguments)
        arguments.output_dir = leading.led(arguments.output_dir)
        if getattr(arguments, "logging_dir", None) is not None:
            arguments.logging_dir = leading.led(arguments.logging_dir)


def _find_own_checkpoint(leading: Leading, module: Any) -> None:
    """``resume_from_checkpoint=True`` asks for a checkpoint that the user has: it is read where it is."""

    @around(module, "get_last_checkpoint")
    def found(find: Any, folder: Any) -> Any:
        own = leading.own(folder)
        return (find(folder) if os.path.isdir(folder) else None) or (find(own) if os.path.isdir(own) else None)


def _lead_projects(leading: Leading, module: ModuleType) -> None:
    @around(module.ProjectConfiguration, "set_directories")
    def led(set_directories: Any, project: Any, project_dir: Any = None) -> None:
        project.logging_dir = leading.led(project.logging_dir)
        set_directories(project, leading.led(project_dir))


def _lead_monitor(owner: str, leading: Leading, module: ModuleType) -> None:
    """A monitor in the config of DeepSpeed; its files go to the home folder if it names none."""

    @around(getattr(module, owner), "__init__")
    def led(begin: Any, monitor: Any, config: Any) -> None:
        path = leading.led(config.output_path or os.path.abspath(""))
        begin(monitor, config.model_copy(update={"output_path": path}))
