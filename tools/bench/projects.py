"""Measure what ``ds-lint check`` of whole projects costs, as a ratio to ``python -c pass`` of the same interpreter.

    python -m tools.bench.projects [--rounds 3] FOLDER ...

Each folder is the clone of a repository: CPU seconds (user and system) of one process, and its memory at the highest.
Medians of runs in turns. With the commit, how many configs are checked, and how many modules (`.py`) and scripts
(`.sh`) there are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

from tools.bench.cost import BARE, CHECKOUT, FROM_CHECKOUT, Cost, cost, in_turns


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("folders", nargs="+", metavar="FOLDER", type=Path)
    chosen = options.parse_args()
    runs = {"": partial(cost, BARE, Path())}
    runs |= {str(folder): partial(cost, [*CHECKOUT, "check"], folder, statuses=(0, 1)) for folder in chosen.folders}
    costs = in_turns(runs, chosen.rounds)
    base = costs[""]
    sys.stdout.write(f"{'project':36} {'configs':>7} {'modules':>7} {'scripts':>7} {'CPU':>8} {'x':>7} {'MB':>6}\n")
    sys.stdout.write(_row("python -c pass", ("", "", ""), base, base))
    for folder in chosen.folders:
        sys.stdout.write(_row(_named(folder), held(folder), costs[str(folder)], base))


def _row(name: str, counts: tuple[object, ...], took: Cost, base: Cost) -> str:
    columns = " ".join(f"{count:>7}" for count in counts)
    return f"{name:36} {columns} {took.cpu:6.2f} s {took.cpu / base.cpu:7.1f} {took.memory:6.1f}\n"


def held(folder: Path) -> tuple[int, int, int]:
    """The configs, the modules and the scripts."""
    command = [*CHECKOUT, "check", "--show-files", "--output-format", "json"]
    done = subprocess.run(command, cwd=folder, env=FROM_CHECKOUT, stdout=subprocess.PIPE, check=True)
    configs = sum(len(file["configs"]) for file in json.loads(done.stdout)["files"])
    modules, scripts = (sum(1 for _ in folder.rglob(pattern)) for pattern in ("*.py", "*.sh"))
    return configs, modules, scripts


def _named(folder: Path) -> str:
    """Its repository as GitHub has it, or else the folder, with the commit."""
    origin = _git(folder, "remote", "get-url", "origin").removesuffix(".git").removeprefix("https://github.com/")
    return f"{origin or folder.resolve().name} {_git(folder, 'rev-parse', '--short=10', 'HEAD')}"


def _git(folder: Path, *words: str) -> str:
    """What git prints of the folder: nothing, if it is not a clone."""
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()
