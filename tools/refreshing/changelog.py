"""The line that ``CHANGELOG.md`` has for each release that ds-lint has come to know."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from tools.refreshing.words import sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.refreshing.words import Entry

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
UNRELEASED = "## Unreleased"
WIDTH = 120


def add(entries: Sequence[Entry]) -> list[str]:
    """Write a line for each release that has none yet; what was written."""
    text = CHANGELOG.read_text(encoding="utf-8")
    lines = [_line(entry) for entry in entries if not _has(text, entry)]
    if lines:
        CHANGELOG.write_text(_with(text, lines), encoding="utf-8", newline="\n")
    return lines


def _has(text: str, entry: Entry) -> bool:
    return re.search(rf"\* Knows {re.escape(f'{entry.library} {entry.release}')}(?![\d.]*\d)", text) is not None


def _line(entry: Entry) -> str:
    text = f"* Knows {entry.library} {entry.release}: {sentence(entry)}."
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _with(text: str, lines: Sequence[str]) -> str:
    """The text with lines at the end of the section of what is not released."""
    sections = list(re.finditer(r"^## .*$", text, re.MULTILINE))
    added = "\n".join(lines)
    first = sections[0]
    if "unreleased" not in first[0].lower():
        return f"{text[: first.start()]}{UNRELEASED}\n\n{added}\n\n{text[first.start() :]}"
    end = sections[1].start() if len(sections) > 1 else len(text)
    return f"{text[:end].rstrip()}\n{added}\n{text[end:] and chr(10)}{text[end:]}"
