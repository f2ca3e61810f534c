"""Programs and modules that start ranks: they import the libraries, and train nothing themselves."""

from __future__ import annotations

import os

from ds_lint.launches.launchers import names_per_gpu

LAUNCHERS = set(names_per_gpu())
_OF_DEEPSPEED = "deepspeed.launcher."


def is_launcher(words: list[str]) -> bool:
    """Whether a Python with this command line runs one of them."""
    names = [os.path.basename(word) for word in words[1:4]]  # behind options of Python
    return any(name in LAUNCHERS or name.startswith(_OF_DEEPSPEED) for name in names)
