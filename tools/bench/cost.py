"""What a process costs: seconds of the processors, seconds on the clock, and its memory at the highest."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tools.bench.size_texts import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

BARE = (sys.executable, "-c", "pass")
CHECKOUT = (sys.executable, "-m", "ds_lint")  # of this checkout, with:
FROM_CHECKOUT = {**os.environ, "PYTHONPATH": str(ROOT)}
_COUNTED_IN = 1 if sys.platform == "darwin" else 1024  # bytes of the system's unit of memory


class Cost(NamedTuple):
    """What one process took, with those that it waited for."""

    cpu: float  # seconds
    clock: float  # seconds
    memory: float  # MB

    @classmethod
    def median(cls, costs: Iterable[Cost]) -> Cost:
        """The median of each."""
        return cls(*(statistics.median(column) for column in zip(*costs, strict=True)))


def cost(
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    most: int = 0,
    statuses: tuple[int, ...] = (0,),
) -> Cost:
    """Run a command in a folder, for at most so many seconds of a processor, with one of these exit statuses.

    What names with ``*`` match replaces them, as in a shell. Python keeps what it compiles, so that no start after the
    first one compiles.
    """
    started = [sys.executable, "-I", "-S", str(Path(__file__).parent / "started.py"), str(most)]
    words = [word for named in command for word in ((_matching(named, folder) if "*" in named else None) or [named])]
    kept = {**(FROM_CHECKOUT if environment is None else environment)}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([*started, *words], cwd=folder, env=kept, stdout=subprocess.PIPE, text=True, check=True)
    status, cpu, clock, memory = map(float, done.stdout.split())
    if status not in statuses:
        raise SystemExit(f"exit status {status:.0f}: {' '.join(command)}")
    return Cost(cpu, clock, memory * _COUNTED_IN / 1e6)


def _matching(pattern: str, folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))


def in_turns(runs: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, Cost]:
    """The median cost of each run: all of them in turns, after a first time that warms up."""
    costs: dict[str, list[Cost]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            one = run()
            if number:
                costs[name].append(one)
    return {name: Cost.median(own) for name, own in costs.items()}
