"""Fixes for rules to offer. A clean file needs none, so ``builders``, which makes them, is imported at the first."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.fixes.builders import (
        deletion,
        moving,
        offloading_renamed,
        renaming,
        renaming_in,
        replacement,
        replacement_in,
        set_to_auto,
        setting,
        wrapping,
        written,
    )

__all__ = [
    "deletion", "moving", "offloading_renamed", "renaming", "renaming_in", "replacement", "replacement_in",
    "set_to_auto", "setting", "wrapping", "written",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """One of the functions above."""
    from ds_lint.fixes import builders

    return getattr(builders, name)
