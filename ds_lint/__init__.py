"""ds-lint reports what DeepSpeed, the Hugging Face Trainer and Accelerate really do with a config."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    from ds_lint.callback import ConfigError, TrainerCallback
    from ds_lint.commands.calls import EffectiveValue, EffectiveValues, MemoryEstimate
    from ds_lint.diagnostics.finding import Finding, Stack

__version__ = "0.1.0"
__all__ = [
    "ConfigError",
    "EffectiveValue",
    "EffectiveValues",
    "Finding",
    "MemoryEstimate",
    "Stack",
    "TrainerCallback",
    "__version__",
    "check",
    "effective",
    "memory",
]

_MODULES = {
    "ConfigError": "callback",
    "EffectiveValue": "commands.calls",
    "EffectiveValues": "commands.calls",
    "Finding": "diagnostics.finding",
    "MemoryEstimate": "commands.calls",
    "TrainerCallback": "callback",
}


def __getattr__(name: str) -> Any:
    """What is imported on first use: the callback and its error alone import transformers."""
    if name in _MODULES:
        module = __import__(f"ds_lint.{_MODULES[name]}", fromlist=[name])
        return getattr(module, name)
    if name == "Stack":
        from typing import Literal

        from ds_lint.diagnostics.finding import STACKS

        return Literal[STACKS]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    stack: Stack | None = None,
    deepspeed_version: str | None = None,
    transformers_version: str | None = None,
    accelerate_version: str | None = None,
    world_size: int | None = None,
    nodes: int | None = None,
    training_args: object = None,
    model: str | os.PathLike[str] | None = None,
    gpu: str | None = None,
    host_memory: str | None = None,
) -> list[Finding]:
    """Check a config and return its findings; ``config`` is a path, or a dict as the library gets it.

    ``stack`` is what loads it: ``deepspeed``, ``trainer`` or ``accelerate``; by default it is inferred from the config
    if possible. The versions are releases or ranges such as ``>=0.14``; by default they are the ones that the project
    around the path (or around the working directory) pins, the installed ones, or the newest known. ``training_args``
    is a transformers.TrainingArguments, a dict of its fields, the path of a JSON or YAML file of them, or flags.
    ``model`` is a folder or the name of a downloaded model, ``gpu`` a name such as ``A100-80GB``, ``host_memory`` the
    memory of each machine, such as ``512GB``. The settings of a project are not read; comments in a file suppress
    findings. Warns about a release that ds-lint does not know. Raises OSError if a path cannot be read, TypeError or
    ValueError for invalid arguments.
    """
    given = locals()
    from ds_lint.session.call import findings  # not at import time, which must cost a training script nothing

    return findings(**given)


def effective(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    everything: bool = False,
    stack: Stack | None = None,
    deepspeed_version: str | None = None,
    transformers_version: str | None = None,
    accelerate_version: str | None = None,
    world_size: int | None = None,
    nodes: int | None = None,
    training_args: object = None,
    model: str | os.PathLike[str] | None = None,
    gpu: str | None = None,
    host_memory: str | None = None,
) -> EffectiveValues:
    """The config as the stack uses it: every value, and where it comes from, as ``ds-lint effective`` prints it.

    ``everything`` adds the defaults of sections that the config does not have. A path may have the place of one of
    several configs, as ``train.py:12``. The other keywords, warnings and errors are those of ``check``.
    """
    given = locals()
    from ds_lint.commands import calls

    return calls.effective(**given)


def memory(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    sweep: bool = False,
    largest: bool = False,
    build_model: bool = False,
    stack: Stack | None = None,
    deepspeed_version: str | None = None,
    transformers_version: str | None = None,
    accelerate_version: str | None = None,
    world_size: int | None = None,
    nodes: int | None = None,
    training_args: object = None,
    model: str | os.PathLike[str] | None = None,
    gpu: str | None = None,
    host_memory: str | None = None,
    parameters: str | None = None,
    lora: str | None = None,
    quantization: str | None = None,
    gpu_memory: str | None = None,
    micro_batch: int | None = None,
    sequence_length: int | None = None,
    new_tokens: int | None = None,
    attention: str | None = None,
    kernels: str | None = None,
    packing: bool | None = None,
    activation_checkpointing: bool | None = None,
    optimizer: str | None = None,
) -> list[MemoryEstimate]:
    """What the runs of a config, or of a file that launches training, take, as ``ds-lint memory`` prints it.

    A config has one run, unless several launches of its project use it. ``sweep`` adds every stage of ZeRO to the
    report of a run, ``largest`` the largest micro batch, sequence length and model that fit, and ``build_model`` builds
    a model whose shapes are not known. The other keywords are options of ``ds-lint memory``. Raises ValueError if a
    fact is missing, such as the model; the other warnings and errors are those of ``check``.
    """
    given = locals()
    from ds_lint.commands import calls

    return calls.memory(**given)
