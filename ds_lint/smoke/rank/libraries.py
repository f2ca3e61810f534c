"""Why the libraries of a training run cannot be imported: one is missing, or older than those that runs support.

The extra ``smoke`` has no lower bounds, so that installing ds-lint changes no release that someone trains with. What
an older release does in a run is shown like anything else; its age matters only if it cannot be imported.
"""

from __future__ import annotations

import importlib.metadata
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST = {"torch": "2.0", "transformers": "4.45", "deepspeed": "0.15", "accelerate": "1.0"}  # that runs are tried with


def why_not(error: Exception) -> str:
    """What is in the way of a run, one sentence; ``error`` is what the imports raised."""
    if missing := [name for name in OLDEST if find_spec(name) is None]:
        *others, last = missing
        names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        return f"{names} not installed for {sys.executable}: pip install {' '.join(missing)}"
    failed = f"the libraries cannot be imported: {type(error).__name__}: {error}"
    return "; ".join([failed, *_too_old()])


def _too_old() -> Iterator[str]:
    for name, oldest in OLDEST.items():
        release = _installed(name)
        if release is not None and release < Version(oldest):
            yield f"{name} {release} is older than {oldest}, the oldest release that runs support"


def _installed(name: str) -> Version | None:
    try:
        return Version(importlib.metadata.version(name))
    except (importlib.metadata.PackageNotFoundError, InvalidVersion):
        return None  # a source tree on the path
