"""The environment in which tests start ds-lint as people do."""

from __future__ import annotations

import ctypes
import json
import os

from ds_lint.commands.environment import VARIABLES

DROP_CAPABILITY, WRITE_ANYTHING = 24, 1  # prctl.h; CAP_DAC_OVERRIDE
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def clean_environment():
    unwanted = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONIOENCODING", *VARIABLES)
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return kept | {"PYTHONPATH": ROOT, "PYTHONIOENCODING": "utf-8", "TERM": "xterm"}


def outside_environment():
    """The environment variables without those of an activated environment, whose releases ds-lint would look up."""
    return {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}


def write_into(folder):
    """A function that writes files below a folder: a text as it is, anything else as JSON."""

    def write(files):
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    return write


def give_up_privileges():
    """Let file modes count, for root too."""
    ctypes.CDLL(None).prctl(DROP_CAPABILITY, WRITE_ANYTHING, 0, 0, 0)
