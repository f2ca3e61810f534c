"""The file with what a part has measured. It is written again after each item, so that nothing is lost."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.gpu.setting import Result

RUNNING, DONE, OUT_OF_TIME, STOPPED = "running", "done", "out of time", "stopped"  # how far a part came


class Record:
    """What one part has measured. Several threads may add to it."""

    def __init__(self, path: str, part: str, machine: Result, names: Iterable[str]) -> None:
        self._path = path
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._content: Result = {
            "version": 1,
            "part": part,
            "machine": machine,
            "status": RUNNING,
            "seconds": 0.0,
            "items": [],
            "left_out": list(names),
        }
        self._write()

    def add(self, name: str, result: Result) -> None:
        """Keep the result of an item."""
        with self._lock:
            self._content["items"].append({"name": name, **result})
            self._content["left_out"].remove(name)
            self._write()

    def fail(self, why: str) -> None:
        """Keep why a lane could not begin, or ended early."""
        with self._lock:
            self._content["error"] = why
            self._write()

    def end(self) -> None:
        """The part has ended: with everything measured, or for lack of time."""
        with self._lock:
            self._content["status"] = OUT_OF_TIME if self._content["left_out"] else DONE
            self._write()

    def _write(self) -> None:
        self._content["seconds"] = round(time.monotonic() - self._began, 1)
        write(self._path, self._content)


def write(path: str, content: Result) -> None:
    """Write a file as a whole or not at all."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
    os.replace(f"{path}.new", path)


def read(path: str) -> Result | None:
    """The content of a file; None if there is none."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        content: Result = json.load(file)
    return content


def measured(content: Result | None) -> set[str]:
    """The names of the items that an earlier call has measured: what failed for another reason is tried again."""
    items: list[dict[str, Any]] = content["items"] if content is not None else []
    return {item["name"] for item in items if item["status"] != "error"}
