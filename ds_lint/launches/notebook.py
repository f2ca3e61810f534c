"""The launches of a notebook: ``!`` lines and ``%%bash`` cells."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ds_lint.launches.scripts import Launches, joined, launches_in
from ds_lint.source.shell.unknowns import StandIns

if TYPE_CHECKING:
    from collections.abc import Callable

_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|script bash|script sh)\b[^\n]*\n")
_SHELL_LINE = re.compile(r"^[ \t]*[!%](?:sx |system )?(?=\S)", re.MULTILINE)
_PYTHON_VALUE = re.compile(r"\{([A-Za-z_][\w.\[\]'\"]*)\}")


def launches(text: str, path: str, read: Callable[[str], str | None]) -> Launches:
    """The launches of the code cells; their lines are those of the file in which the cell's source starts."""
    try:
        cells = json.loads(text)["cells"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return joined([])
    found = []
    for cell in cells if isinstance(cells, list) else ():
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", "")
            source = "".join(map(str, source)) if isinstance(source, list) else str(source)
            found.append(_of_cell(source, path, read).moved(_line_of(source, text)))
    return joined(found)


def _of_cell(source: str, path: str, read: Callable[[str], str | None]) -> Launches:
    """The launches of a cell with lines as if it were a file."""
    if match := _SHELL_CELL.match(source):
        return launches_in(source[match.end() :], path, read).moved(source.count("\n", 0, match.end()))
    found = []
    for match in _SHELL_LINE.finditer(source):
        if match[0].strip() == "%":
            continue
        end = re.compile(r"(?<!\\)\n|\Z").search(source, match.end())
        line = source[match.end() : end.start() if end else None]
        stand_ins = StandIns()
        command = _PYTHON_VALUE.sub(lambda value: stand_ins.add(value[1]), line)  # noqa: B023 - called at once
        found.append(launches_in(command, path, read, stand_ins=stand_ins).moved(source.count("\n", 0, match.start())))
    return joined(found)


def _line_of(source: str, text: str) -> int:
    """The lines of the file before a cell's source, as far as its first line tells."""
    first = next((line for line in source.splitlines() if line.strip()), "")
    place = text.find(json.dumps(first, ensure_ascii=False)[1:-1]) if first else -1
    return text.count("\n", 0, place) if place >= 0 else 0
