"""Measure one part: ``python -m tools.gpu.part NAME --out FILE --seconds S [--rehearse] [--first] [--after FILE]``."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import queue
import shutil
import sys
import tempfile
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, Protocol, cast

from ds_lint.smoke.processes.client import ended_by_signal
from tools.gpu import machine
from tools.gpu.record import Record, measured, read
from tools.gpu.setting import ERROR, UNANSWERED, Later, Setting, Unanswered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from tools.gpu.setting import Item, Result

# The most valuable first, with its share of the time; what a part does not take, the next ones have.
# `ops` is late, because the builds that it needs take minutes.
SHARES = {"smoke": 20, "sabotage": 10, "memory": 25, "ops": 12, "script": 11, "claims": 11, "one_gpu": 11}
_CORES_OF_A_LANE = 4
_TICK = 0.5  # seconds between looks at something that is on its way
_LONGEST = 6000  # characters of a traceback


class Part(Protocol):
    """A module of ``parts/``."""

    QUESTION: str
    LANES: int

    def items(self, setting: Setting) -> list[Item]:
        """What is measured, in the order of its value."""

    def lane(self, setting: Setting) -> AbstractContextManager[object]:
        """What the items of one lane share."""


def part_of(name: str) -> Part:
    """The module of a part."""
    module: Any = importlib.import_module(f"tools.gpu.parts.{name}")
    return cast("Part", module)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure until everything is measured, or there is no time for anything else."""
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.part", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("name", choices=SHARES)
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--first", action="store_true", help="the first item only")
    parser.add_argument("--after", metavar="FILE", help="leave out what was measured there")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    part = part_of(options.name)
    folder = tempfile.mkdtemp(prefix="ds-lint-gpu-")
    try:
        setting = Setting(folder, options.rehearse)
        before = measured(read(options.after)) if options.after else set()
        items = [item for item in part.items(setting) if item.name not in before][: 1 if options.first else None]
        record = Record(
            options.out, options.name, machine.describe(rehearses=options.rehearse), [item.name for item in items]
        )
        lanes = min(part.LANES, len(items), max(1, (os.cpu_count() or 1) // _CORES_OF_A_LANE))
        _measure(part, setting, items, record, deadline, lanes)
        record.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _measure(part: Part, setting: Setting, items: list[Item], record: Record, deadline: float, lanes: int) -> None:
    """Measure the items, several at once, in their order."""
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    threads = [
        threading.Thread(target=_work, args=(part, setting, waiting, record, deadline), daemon=True)
        for _ in range(lanes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _work(part: Part, setting: Setting, waiting: queue.SimpleQueue[Item], record: Record, deadline: float) -> None:
    """Measure what no other lane measures, until there is nothing left or no time for it."""
    try:
        with part.lane(setting) as shared, contextlib.suppress(queue.Empty):
            while True:
                item = waiting.get_nowait()
                if deadline - time.monotonic() < item.seconds:
                    continue
                try:
                    record.add(item.name, _result(item, shared))
                except Later:
                    time.sleep(_TICK)
                    waiting.put(item)
    except Exception:  # noqa: BLE001 - the other lanes go on
        record.fail(traceback.format_exc()[-_LONGEST:])


def _result(item: Item, shared: object) -> Result:
    began = time.monotonic()
    try:
        found = item.measure(shared)
    except Later:
        raise
    except Unanswered as question:
        found = {"status": UNANSWERED, "question": str(question)}
    except Exception:  # noqa: BLE001 - it is a result, and the next item does not depend on it
        found = {"status": ERROR, "error": traceback.format_exc()[-_LONGEST:]}
    return {**found, "seconds": round(time.monotonic() - began, 2)}


if __name__ == "__main__":
    with ended_by_signal():  # so that its files are removed
        sys.exit(main())
