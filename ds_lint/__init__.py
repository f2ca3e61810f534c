"""ds-lint reports what DeepSpeed, the Hugging Face Trainer and Accelerate really do with a config."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    from ds_lint.callback import ConfigError, TrainerCallback
    from ds_lint.diagnostics.finding import Finding

__version__ = "0.1.0"
__all__ = ["ConfigError", "TrainerCallback", "__version__", "check"]


def __getattr__(name: str) -> type:
    """The callback and its error, which alone import transformers, on first use."""
    if name in ("ConfigError", "TrainerCallback"):
        from ds_lint import callback

        found: type = getattr(callback, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    stack: str | None = None,
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
