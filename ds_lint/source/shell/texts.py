"""The texts that a script writes: here-documents, and words that begin like a config, each piece with its place.

A text may be written several times, by a loop or a function. What is not the same each time is unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.source.parts import Part
from ds_lint.source.shell.unknowns import is_known
from ds_lint.source.shell.words import LONGEST, OneField
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from ds_lint.source.shell.parameters import Expanded
    from ds_lint.source.shell.unknowns import Unknowns

_MOST_TURNS = 20  # of a loop around a text; what is expanded in it is unknown then
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_SPLIT_OR_MATCHED = re.compile(r"[\s*?\[\]]")
_BRACES_OR_MATCHED = re.compile(r"[*?\[\]{}~]")


class WrittenText(NamedTuple):
    """A here-document, or a word of a command named ``command`` (empty for an assignment)."""

    start: int
    command: str
    parts: list[Part]
    is_body: bool
    is_reached: bool = True  # by the commands as they run


class WrittenTexts:
    """The texts of a script by their places."""

    def __init__(self) -> None:
        self._found: dict[int, WrittenText] = {}
        self._turns: dict[int, int] = {}

    def is_settled(self, start: int, *, is_reached: bool) -> bool:
        """Whether nothing more is to be learnt of a text: it was written often, or does run elsewhere."""
        before = self._found.get(start)
        return before is not None and (self._turns[start] > _MOST_TURNS or (before.is_reached and not is_reached))

    def note(self, text: WrittenText) -> None:
        """Note a text each time that it is written; what is never reached counts only if nothing else is known."""
        before = self._found.get(text.start)
        turns = self._turns[text.start] = self._turns.get(text.start, 0) + 1
        if before is not None and before.is_reached == text.is_reached:
            text = text._replace(parts=_alike(before.parts, text.parts))
        if turns > _MOST_TURNS:
            text = text._replace(parts=[one if one.is_verbatim else _unknown(one.span) for one in text.parts])
        self._found[text.start] = text

    def in_order(self) -> list[WrittenText]:
        """All of them in the order of the script."""
        return [self._found[start] for start in sorted(self._found)]


def _alike(before: list[Part], after: list[Part]) -> list[Part]:
    pairs = zip(before, after, strict=False)  # of one text, so that the places are the same
    return [one if one.text == other.text else _unknown(one.span) for one, other in pairs]


class PlacedText(OneField):
    """Pieces of a text that is in the script from ``start`` on.

    ``splits`` says that expansions outside of quotes become several words, and that brackets there name files.
    """

    def __init__(self, text: str, start: int, unknowns: Unknowns, *, splits: bool = False) -> None:
        super().__init__()
        self.parts: list[Part] = []
        self.is_one_word = True
        self._text = text
        self._start = start
        self._unknowns = unknowns
        self._splits = splits

    def add(self, text: str, start: int = 0, end: int = 0, *, is_quoted: bool = False) -> None:
        """Add a part that is written so, or meant."""
        is_verbatim = text == self._text[start:end]
        self.parts.append(Part(text, self._span(start, end), is_verbatim=is_verbatim))
        self.is_one_word &= is_quoted or _BRACES_OR_MATCHED.search(text) is None

    def expand(self, value: Expanded, start: int, end: int, *, is_quoted: bool) -> None:
        """Add a part that stands in for an expansion, if it is known and no part of it may become a word of its own."""
        text = " ".join(value.texts)
        is_one = not self._splits or (
            (not value.is_list or len(value.texts) == 1) if is_quoted else _SPLIT_OR_MATCHED.search(text) is None
        )
        self.length += len(text)
        if is_known(text) and is_one and self.length <= LONGEST:
            self.parts.append(Part(text, self._span(start, end), is_verbatim=False))
        else:
            name = next((unknown.name for unknown in self._unknowns.of(text)), "value")
            self.parts.append(_unknown(self._span(start, end), name))

    def at(self, position: int) -> int | None:
        """Where a position is in the script."""
        return self._start + position

    def _span(self, start: int, end: int) -> Span:
        return Span(self._start + start, self._start + end)

    def without_tabs(self) -> list[Part]:
        """The parts of a body without the tabs that a line begins with, which ``<<-`` takes away."""
        kept = list[Part]()
        begins_line = True
        for part in self.parts:
            if not part.is_verbatim:
                kept.append(part)
                begins_line = False
                continue
            start = part.span.start
            for line in _LINES.findall(part.text):
                plain = line.lstrip("\t") if begins_line else line
                kept.append(Part(plain, Span(start + len(line) - len(plain), start + len(line))))
                begins_line = line.endswith("\n")
                start += len(line)
        return kept


def _unknown(span: Span, name: str = "value") -> Part:
    """A variable that nothing sets, in the place of what is unknown."""
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII)
    return Part(f"${{unknown_{plain}}}", span, is_verbatim=False, is_known=False)
