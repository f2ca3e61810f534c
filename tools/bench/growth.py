"""Measure how the cost of ds-lint grows with what a project has many of: configs, launches, releases, files.

    python -m tools.bench.growth [--only WORD] [--rounds 3]

Each project is made four times (`GROWING` in `tools/bench/size_texts.py`), each time twice as large, and checked by a
process of its own: CPU seconds (user and system) over those for the same project with one unit, and the memory of the
process at its highest. Medians of runs in turns. The exponent is that of the power of the size that fits the seconds
best: 1 is linear, 2 is quadratic. It is left out where the largest project costs less than 50 ms over the start.

The launches differ either in their seeds, which no rule looks at, or in their batch sizes, so that each is another
question. The last kind is made like a public repository with a script for each experiment, and four batch sizes.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench.cost import CHECKOUT, Cost, cost, in_turns
from tools.bench.size_texts import GROWING

if TYPE_CHECKING:
    from tools.bench.size_texts import Case

DOUBLED = 4  # sizes of each
_LEAST = 0.05  # seconds over the start from which an exponent says something


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", metavar="WORD", default="", help="the kinds of project with this in their name")
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    sys.stdout.write(f"{'of these':44} {'so many':>8} {'seconds over one':>18} {'MB':>6} {'exponent':>9}\n")
    for case in GROWING:
        if chosen.only in case.name:
            start, costs = measured(case, chosen.rounds)
            sys.stdout.write("\n".join(_rows(case.name, start, costs)) + "\n")
            sys.stdout.flush()


def measured(case: Case, rounds: int) -> tuple[Cost, dict[int, Cost]]:
    """The cost of one unit, and those of each size."""
    sizes = [1, *(case.units * 2**times for times in range(DOUBLED))]
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for size in sizes:
            project = Path(folder) / str(size)
            project.mkdir()
            case.write(project, size)
            runs[str(size)] = partial(cost, [*CHECKOUT, *case.command], project, statuses=(0, 1))
        costs = {int(size): one for size, one in in_turns(runs, rounds).items()}
    return costs.pop(1), costs


def _rows(name: str, start: Cost, costs: dict[int, Cost]) -> list[str]:
    over = {size: one.cpu - start.cpu for size, one in costs.items()}
    power = exponent(over)
    rows = [
        f"{name if size == min(costs) else '':44} {size:8,} {over[size]:18.3f} {one.memory:6.1f}"
        for size, one in costs.items()
    ]
    return [*rows[:-1], f"{rows[-1]} {f'{power:.2f}' if power is not None else '-':>9}"]


def exponent(seconds: dict[int, float]) -> float | None:
    """The power of the size that fits the seconds best (least squares of the logarithms); None where they are few."""
    if max(seconds.values()) < _LEAST:
        return None
    points = [(math.log(size), math.log(max(taken, 0.001))) for size, taken in seconds.items()]
    across, up = (sum(column) / len(points) for column in zip(*points, strict=True))
    power: float = sum((x - across) * (y - up) for x, y in points) / sum((x - across) ** 2 for x, _ in points)
    return power


if __name__ == "__main__":
    main()
