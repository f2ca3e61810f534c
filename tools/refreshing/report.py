"""The list of what a person has to look at, in Markdown: the text of the pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.refreshing.words import Entry

_KINDS = {"new": "New", "gone": "Gone", "default": "Defaults that changed", "other": "Other changes"}
# What a person does about a change, by what it is about; docs/dev/releases.md has the whole of it.
LONGEST = 60_000  # characters; GitHub takes 65,536 in a pull request
_ADVICE = """\
* A new key of DeepSpeed: describe it in `schemas/documentation.json` and `schemas/conversion.json`. What becomes of a
  raw key, `tests/fidelity/oracle.py` measures (`schemas/overlay.json`).
* A new expression of transformers or Accelerate: give it words in `schemas/trainer_overlay.json` if they are clearer.
* A new model: `python -m tools.model_shapes NAME` and `python -m tools.activations NAME`,
  `python -m tools.activations.forward NAME`.
* A new `raise`: answer its row in `tools/raises/`.
* Read what the changelog says of the releases, and say it in the words of users.
"""


class Report:
    """What the steps have found so far."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._failures: list[str] = []
        self._is_open = False
        self._lines: dict[str, list[str]] = {}  # by the title of a step
        self._tests = ""
        self._changelog: list[str] = []

    @property
    def needs_a_person(self) -> bool:
        """Whether a step failed, or left something open."""
        return bool(self._failures) or self._is_open

    def release(self, entry: Entry) -> None:
        """A release was read."""
        self._entries.append(entry)

    def fails(self, line: str) -> None:
        """A step could not be done."""
        self._failures.append(line)

    def look_at(self, title: str, lines: Sequence[str]) -> None:
        """A step has something for a person."""
        self._lines.setdefault(title, []).extend(lines)

    def leaves_open(self, title: str, lines: Sequence[str]) -> None:
        """A step has something that a person must answer."""
        self._is_open = True
        self.look_at(title, lines)

    def tests(self, summary: str, failed: Sequence[str]) -> None:
        """The tests have run."""
        self._tests = summary
        self.look_at("Tests", failed)

    def write_down(self, lines: Sequence[str]) -> None:
        """The changelog has got these lines."""
        self._changelog += lines

    def text(self, pins: Mapping[str, str], newest: Mapping[str, str], files: Sequence[str]) -> str:
        """The list."""
        parts = ["# New releases", "", *(f"* {self._head(entry)}" for entry in self._entries)]
        behind = [one for one in pins if newest.get(one, pins[one]) != pins[one]]
        parts += [
            f"* The tests run with {one} {pins[one]}; {newest[one]} is only read, its pin by hand." for one in behind
        ]
        parts += _section("## Not done", self._failures)
        for entry in self._entries:
            parts += _of_release(entry)
        for title, lines in self._lines.items():
            parts += _section(f"## {title}", lines)
        parts += _section("## CHANGELOG.md", [line.removeprefix("* ").replace("\n ", "") for line in self._changelog])
        parts += ["", "## What to do", "", _ADVICE.rstrip()]
        parts += _section("## Files", [f"`{file}`" for file in files])
        parts += ["", f"Tests: {self._tests or 'not run'}"]
        text = "\n".join(parts)
        return (text if len(text) <= LONGEST else f"{text[:LONGEST]}\n... (cut)") + "\n"

    @staticmethod
    def _head(entry: Entry) -> str:
        after = f" (after {entry.after})" if entry.after else ""
        count = len(entry.changes)
        return f"{entry.library} {entry.release}{after}: {count or 'no'} change{'s' * (count != 1)}"


def _of_release(entry: Entry) -> list[str]:
    parts = [] if not entry.changes else ["", f"## {entry.library} {entry.release}"]
    for kind, title in _KINDS.items():
        parts += _section(f"### {title}", [one.line for one in entry.changes if one.kind == kind])
    return parts


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, "", *(f"* {line}" for line in lines)] if lines else []
