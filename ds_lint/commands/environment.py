"""Environment variables that give options of ``check``, ``upgrade`` and ``effective``, for CI.

An option wins over its variable, and a variable over the settings. An empty variable counts as unset. A wrong value is
wrong usage, and the message names the variable.
"""

from __future__ import annotations

import os

from ds_lint.facts import Sources
from ds_lint.linter.choice import UnknownRelease, choose
from ds_lint.session.options import Options

VARIABLES = {
    f"DS_LINT_{option.name.upper()}": f"--{option.dashed}"
    for option in (*Options.options(), *Sources.options())
    if option.variable
}


def complaint(option: str, value: str) -> str | None:
    """What is wrong with a value that names a file or a release; None if nothing is."""
    if option == "--settings" and not os.path.isfile(value):
        return f"{value}: no such file"
    if option.endswith("-version"):
        try:
            choose("", {option.removeprefix("--").removesuffix("-version"): value}, {})
        except UnknownRelease as error:
            return str(error)
    return None
