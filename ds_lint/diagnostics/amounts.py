"""Amounts of memory and of parameters, as messages have them."""

from __future__ import annotations

GIB = 2**30


def gibibytes(size: float) -> str:
    """A number of bytes as people read it."""
    return f"{size / GIB:,.0f} GiB" if size >= 10 * GIB else f"{size / GIB:.1f} GiB"


def billions(count: int) -> str:
    """A number of parameters as people say it."""
    return f"{count / 1e9:.3g} billion" if count >= 1e8 else f"{count:,}"
