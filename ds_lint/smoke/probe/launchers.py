"""Programs and modules that start ranks: they import the libraries, and train nothing themselves."""

from __future__ import annotations

import os

# Console scripts and modules of accelerate, deepspeed and torch; tests/fidelity/test_script_hooks.py finds them.
LAUNCHERS = {
    "accelerate",
    "accelerate-launch",
    "accelerate.commands.launch",
    "deepspeed",
    "ds",
    "torchrun",
    "torch.distributed.launch",
    "torch.distributed.run",
}
_OF_DEEPSPEED = "deepspeed.launcher."


def is_launcher(words: list[str]) -> bool:
    """Whether a Python with this command line runs one of them."""
    names = [os.path.basename(word) for word in words[1:4]]  # behind options of Python
    return any(name in LAUNCHERS or name.startswith(_OF_DEEPSPEED) for name in names)
