"""ds-lint says what DeepSpeed, the Hugging Face Trainer and Accelerate really do with a config."""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    from ds_lint.finding import Finding

__all__ = ["__version__", "check"]


def check(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    stack: str | None = None,
    world_size: int | None = None,
) -> list[Finding]:
    """The findings for a config: a path, which is read as DeepSpeed reads a file, or a dict, which is taken as it is.

    ``stack`` is who loads it: ``deepspeed``, ``trainer`` or ``accelerate``; left out, it is inferred where the config
    tells. Raises OSError where a path cannot be read, TypeError and ValueError for arguments that make no sense.
    """
    from ds_lint import linting  # not at import time: ``import ds_lint`` must cost a training script nothing
    from ds_lint.finding import STACKS

    if stack not in (None, *STACKS):
        raise ValueError(f"stack is one of {', '.join(STACKS)}, not {stack!r}")
    if world_size is not None and world_size < 1:
        raise ValueError(f"a run has at least one rank, not {world_size}")
    if isinstance(config, str) or hasattr(config, "__fspath__"):
        return linting.lint_file(str(config), stack=stack, world_size=world_size).findings
    if not hasattr(config, "keys"):
        raise TypeError(f"a config is a dict or a path, not {type(config).__name__}")
    return linting.lint_dict(config, stack=stack, world_size=world_size).findings
