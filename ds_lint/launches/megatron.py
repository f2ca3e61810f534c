"""Whether a launch is one of Megatron-DeepSpeed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.launches.word import Word

_NEEDED = {"--deepspeed", "--deepspeed_config", "--micro-batch-size"}
_IMPORTS = re.compile(r"^\s*(?:from|import)\s+megatron\b", re.MULTILINE)


def is_megatron(words: Iterable[Word], script: str | None) -> bool:
    """Whether words are those of Megatron-DeepSpeed, and the script, if it is in the project, one that imports it."""
    names = {word.partition("=")[0] for word in words if word is not None}
    return names >= _NEEDED and (script is None or _IMPORTS.search(script) is not None)
