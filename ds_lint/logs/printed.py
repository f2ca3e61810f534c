"""The config that DeepSpeed prints into a log when a run starts (``print`` in deepspeed/runtime/config.py)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ds_lint.logs.lines import LogLine

ANCHOR = "json = {"
_BEGIN = re.compile(r"\bjson = (\{.*)$")
MOST_LINES = 2000


class PrintedConfig:
    """Collects the first config that a log has."""

    def __init__(self) -> None:
        """Begin with none."""
        self.found: dict[str, Any] | None = None
        self.at = 0
        self._lines: list[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the next lines may belong to a config."""
        return self._lines is not None

    def read(self, line: LogLine) -> None:
        """Read the next line."""
        if self.found is not None:
            return
        if self._lines is None:
            if ANCHOR in line.text and (begin := _BEGIN.search(line.text)):
                self._lines, self.at = [begin[1]], line.number
            return
        self._lines.append(line.text)
        if line.text.rstrip() == "}":
            self._end()
        elif len(self._lines) > MOST_LINES:
            self._lines = None

    def _end(self) -> None:
        try:
            value = json.loads("\n".join(self._lines or ()))
        except ValueError:
            value = None
        self._lines = None
        if isinstance(value, dict):
            self.found = value
