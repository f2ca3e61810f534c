"""The process of a rank: the release comes first on the path, then the claim runs as a script would.

What became of it is written into a file, because a process that has started torch's threads ends best without cleaning
up. A rank that has finished waits for the others, which may still talk to it.
"""

from __future__ import annotations

import json
import logging
import os
import runpy
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tools.releases_of.stand_ins import AFTER, BEFORE

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST = 100  # characters of the message of an exception
_PAUSE = 0.05


class Task(NamedTuple):
    """What a rank has to do; it is handed over as JSON."""

    library: str
    release: str
    paths: list[str]  # in front of all others on the path
    stand_ins: list[str]
    claim: str
    arguments: list[str]
    answers: list[str]  # the files of all ranks, in their order


class Answer(NamedTuple):
    """What became of the claim on one rank."""

    raised: str | None  # the exception
    was_imported: bool  # False where the library itself raised
    at: float


def main(task: Task) -> None:
    """Run the claim, write the answer, and end the process."""
    sys.path[:1] = task.paths  # in place of the folder that this module was found from
    os.chdir(Path(task.answers[0]).parent)
    raised = None
    try:
        _prepare(task)
        sys.argv = [task.claim, *task.arguments]
        runpy.run_path(task.claim, run_name="__main__")
    except BaseException as error:  # noqa: BLE001 - the exception is what the claim is run for
        if not (isinstance(error, SystemExit) and not error.code):
            traceback.print_exc()
            raised = described(error)
    other = _other(task)
    _end(task, other or raised, was_imported=not other and (raised is None or _name(task) in sys.modules))


def described(error: BaseException) -> str:
    """An exception as the last line of a traceback has it, cut."""
    kind = type(error)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    message = (str(error).strip().splitlines() or [""])[0][:LONGEST].rstrip()
    return f"{module}{kind.__qualname__}: {message}".rstrip(": ")


def _prepare(task: Task) -> None:
    """Give the release what it needs, and import it if some of that is in the release itself."""
    for name in task.stand_ins:
        if name in BEFORE:
            BEFORE[name]()
    if task.library == "deepspeed":
        logging.disable(logging.WARNING)  # it logs to standard output, where the line of the claim is
    for name in task.stand_ins:
        if name in AFTER:
            AFTER[name]()


def _name(task: Task) -> str:
    return task.library.replace("-", "_")


def _other(task: Task) -> str | None:
    """Another release than the one that the claim is run for, where it has imported that."""
    module = sys.modules.get(_name(task))
    path = getattr(module, "__file__", None)
    own = task.paths[0] if task.paths and task.release != "installed" else None
    return f"imports {path}" if path and own and not path.startswith(own + os.sep) else None


def _end(task: Task, raised: str | None, *, was_imported: bool) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    own = Path(task.answers[int(os.environ["RANK"])])
    unfinished = own.with_suffix(".part")
    unfinished.write_text(json.dumps(Answer(raised, was_imported, time.time())), encoding="utf-8")
    unfinished.rename(own)
    while raised is None and not all(map(os.path.exists, task.answers)):
        time.sleep(_PAUSE)  # what has started the ranks ends them when one of them raises, or time is up
    os._exit(0)


def run(arguments: Sequence[str]) -> None:
    """Do what the command line says."""
    main(Task(**json.loads(arguments[0])))


if __name__ == "__main__":
    run(sys.argv[1:])
