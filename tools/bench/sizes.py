"""Measure how the time of ds-lint grows with its input: ten times the input takes at most 15 times the time.

    python -m tools.bench.sizes [--only WORD]

For each kind of input (``size_texts``) a project of a size and one of ten times that size, each checked by a process of
its own. CPU time of the process (user and system), without that of a check of the same command with one unit. Where
the larger one takes less than 0.1 s, the ratio says nothing and is left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench.cost import CHECKOUT, cost
from tools.bench.size_texts import ALL

if TYPE_CHECKING:
    from tools.bench.size_texts import Case

TIMES = 10
MOST = 15.0  # times the time
_LEAST = 0.1  # seconds that a ratio is taken of
_LONGEST = 60  # seconds of one process


def main() -> None:
    """Print the table; the status is 1 if something grows too fast."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", metavar="WORD", default="", help="the kinds of input with this in their name")
    chosen = options.parse_args()
    failed = 0
    sys.stdout.write(f"{'input':42} {'bytes':>9} {'seconds':>8} {'x10':>8} {'ratio':>6}\n")
    for case in ALL:
        if chosen.only in case.name:
            failed += _line(case)
    sys.exit(1 if failed else 0)


def _line(case: Case) -> bool:
    """Print the line of one kind of input, and return whether it grows too fast."""
    start, _ = _measured(case, 1)
    small, size = _measured(case, case.units)
    large, _ = _measured(case, case.units * TIMES)
    ratio = grown(start, small, large)
    is_slow = ratio is not None and ratio > MOST
    shown = f"{ratio:6.1f}" if ratio is not None else "     -"
    sys.stdout.write(f"{case.name:42} {size:9,} {small:8.2f} {large:8.2f} {shown}{' !' if is_slow else ''}\n")
    sys.stdout.flush()
    return is_slow


def grown(start: float, small: float, large: float) -> float | None:
    """How many times the time the larger input takes; None where that is too little to tell."""
    if large - start < _LEAST:
        return None
    return (large - start) / max(small - start, _LEAST / TIMES)


def _measured(case: Case, units: int) -> tuple[float, int]:
    """The CPU seconds of one process, and the bytes of its input."""
    with tempfile.TemporaryDirectory() as folder:
        size = case.write(Path(folder), units)
        took = cost([*CHECKOUT, *case.command], Path(folder), most=_LONGEST, statuses=(0, 1, -9, -24))
    return took.cpu, size


if __name__ == "__main__":
    main()
