"""Bytes and seconds in words."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3600, 86400  # seconds


def in_units(size: int) -> str:
    """Bytes in the largest unit of which there is at least one: ``96.6 KiB``."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:,.0f} B" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"


def duration(seconds: float) -> str:
    """Seconds in two units: ``0.52 s``, ``8 min 40 s``, ``3 h 12 min``, ``2 days 4 h``."""
    if seconds < _MINUTE:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    days = whole // _DAY
    return f"{days:,} {'day' if days == 1 else 'days'} {whole % _DAY // _HOUR} h"
