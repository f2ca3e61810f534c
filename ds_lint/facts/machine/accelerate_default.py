"""The YAML that ``accelerate config`` has written, with which ``accelerate launch`` starts where none is named.

Source: ``accelerate/commands/config/config_args.py``; ``accelerate env`` prints it too.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ds_lint.targets.text import text_of

_NAMES = ("default_config.yaml", "default_config.json")  # the first that is there
_MOST = 20_000  # characters; hardly one has 2,000


class AccelerateDefault(NamedTuple):
    """The file and its text."""

    path: str
    text: str


def accelerate_default() -> AccelerateDefault | None:
    """The default of this user; None if there is none."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.path.expanduser(os.environ.get("HF_HOME") or os.path.join(cache, "huggingface"))
    for name in _NAMES:
        path = os.path.join(home, "accelerate", name)
        if text := text_of(path):
            return AccelerateDefault(path, text[:_MOST])
    return None
