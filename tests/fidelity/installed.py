"""The releases that are installed: what the fidelity tests run is what they let ds-lint lint with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest

from ds_lint.knowledge import keys
from ds_lint.knowledge.keys import Knowledge, Target


def _release(library: str) -> str | None:
    try:
        return version(library).partition("+")[0]
    except PackageNotFoundError:
        return None


INSTALLED = Target(_release("deepspeed"), _release("transformers"), _release("accelerate"))


def knowledge() -> Knowledge:
    """What ds-lint knows about the installed releases."""
    return keys.knowledge(INSTALLED)


# For what was measured by hand, and holds for the release that it was measured with.
measured_with_the_newest = pytest.mark.skipif(
    not knowledge().is_newest, reason=f"measured with the newest DeepSpeed, and {INSTALLED.deepspeed} is installed"
)
