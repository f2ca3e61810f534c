"""Try mutated inputs of every surface, and say how many of each, and what failed.

    python -m tools.fuzz --seconds 600 --seed 1
    python -m tools.fuzz --only memory --keep failures --corpus ../shared/corpus

Each trial writes a mutated text into an empty folder, and runs a command line in this process. It fails if it ends in
a traceback, in a status other than 0, 1 and 2, or takes more CPU time than a trial may. Of each kind of failure the
first is made as small as it may be, and ``--keep`` writes it into a folder. The exit status is 1 if something failed.
The same seed tries the same inputs.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from ds_lint.commands import parser
from tools.fuzz.trials import Trials

if TYPE_CHECKING:
    from tools.fuzz.trials import Failure

_MEMORY = 3_000_000_000  # bytes of address space
_STUCK = 1800  # seconds of a hundred trials after which the process ends with a traceback: C code heeds no signal
_RARE = {"editor, messages": 0.004, "upgrade": 0.1, "requirements": 0.3, "fix notebook": 0.3}  # they take long


def main() -> None:
    """Run, print the table, and end with 1 if something failed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=600, help="of all trials together (default: 600)")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", default="", metavar="WORD", help="the surfaces with this in their name")
    options.add_argument(
        "--corpus", action="append", default=[], metavar="DIR", help="a folder of real files to mutate"
    )
    options.add_argument("--keep", metavar="DIR", help="write what failed into this folder")
    chosen = options.parse_args()
    keep = Path(chosen.keep).resolve() if chosen.keep else None
    corpus = tuple(str(Path(folder).resolve()) for folder in chosen.corpus)
    _limit_memory()
    tried, failed = fuzzed(chosen.seed, chosen.seconds, only=chosen.only, corpus=corpus, keep=keep)
    for name, number in sorted(tried.items()):
        sys.stdout.write(f"{name:28} {number:9,}\n")
    sys.stdout.write(f"{'all':28} {sum(tried.values()):9,}, {len(failed)} kinds of failures\n")
    for failure, number in failed.values():
        sys.stdout.write(
            f"\n{failure.surface}: {failure.what} ({number} times)\n  {failure.command}\n  {failure.text!r}\n"
        )
    sys.exit(1 if failed else 0)


def fuzzed(
    seed: int,
    seconds: float,
    trials: int | None = None,
    only: str = "",
    *,
    each: float = 3.0,
    corpus: tuple[str, ...] = (),
    keep: Path | None = None,
) -> tuple[Counter[str], dict[str, tuple[Failure, int]]]:
    """How often each surface was tried, and the first of each kind of failure with its number."""
    tried: Counter[str] = Counter()
    failed: dict[str, tuple[Failure, int]] = {}
    chance = random.Random(seed)  # noqa: S311 - no secret
    made = Trials(chance, each, corpus)
    names, end, before = made.names(only), time.monotonic() + seconds, os.getcwd()
    weights = [_RARE.get(name, 1.0) for name in names]
    command_line, whole = parser.command_line, parser.command_line()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        parser.command_line = lambda words=None: whole  # noqa: ARG005 - making it takes longer than most trials
        try:
            while time.monotonic() < end and (trials is None or sum(tried.values()) < trials):
                name = chance.choices(names, weights)[0]
                if sum(tried.values()) % 100 == 0:
                    faulthandler.dump_traceback_later(_STUCK, exit=True)
                    if keep is not None:  # what has been tried so far, should the process be ended
                        keep.mkdir(parents=True, exist_ok=True)
                        (keep / "tried.json").write_text(json.dumps(tried, indent=1), encoding="utf-8")
                failure = made.one(name)
                tried[name] += 1
                if failure is not None:
                    first, number = failed.get(failure.what, (failure, 0))
                    failed[failure.what] = first, number + 1
                    if keep is not None and not number:
                        _keep(keep, failure, len(failed))
        finally:
            parser.command_line = command_line
            faulthandler.cancel_dump_traceback_later()
            os.chdir(before)
    return tried, failed


def _keep(folder: Path, failure: Failure, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = f"{failure.surface}\n{failure.what}\n{failure.command!r}\n{failure.text!r}\n\n{failure.stderr}\n"
    (folder / f"{number:03}.txt").write_text(content, encoding="utf-8", errors="backslashreplace")


def _limit_memory() -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    main()
