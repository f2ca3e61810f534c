"""Here-documents: where the body of each is, as bash finds it.

tree-sitter-bash knows where ``<<`` is one. Their bodies are hidden from it, since it takes two in a line for one, ends
them behind a line that goes on, and makes what is behind the delimiter a part of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_CHARACTERS = 2_000_000  # that the parser looks at again and again
_LINE_END = re.compile(r"(?:[^\n\\]+|\\.)*", re.DOTALL)
_DELIMITER = re.compile(r"<<(-?)[ \t]*((?:[^\s\\'\";&|<>()]|\\.|'[^']*'|\"[^\"]*\")+)", re.DOTALL)
_QUOTES = re.compile(r"\\(.)|['\"]", re.DOTALL)


class Heredoc(NamedTuple):
    """The body of a here-document, and where the line with its delimiter ends."""

    start: int
    end: int
    behind: int
    is_quoted: bool  # then nothing in it is expanded
    strips_tabs: bool


class Heredocs:
    """The here-documents of a text by the offset of their operator."""

    def __init__(self, text: str) -> None:
        self.found: dict[int, Heredoc] = {}
        self._text = text
        self._behind: dict[int, int] = {}  # by the end of a line: where the bodies that follow it end
        self._turns = 0

    def hide(self, operators: list[Node], seen: bytearray) -> bool:
        """Take here-documents out of what the parser sees; returns whether it has to look again.

        What follows one that the parser reads otherwise than bash is not known before that.
        """
        self._turns += 1
        is_enough = self._turns > 2 and self._turns * len(self._text) > _MOST_CHARACTERS
        hidden = range(0)
        for node in operators if not is_enough else ():
            operator, parts = node.start_byte, node.parent.children if node.parent is not None else []
            match = _DELIMITER.match(self._text, operator)
            if operator in hidden or match is None:
                continue
            heredoc = self._heredoc(match)
            self.found[operator] = heredoc
            seen[operator : match.end()] = b"<" + b" " * (match.start(2) - operator - 1) + b"E" * len(match[2])
            seen[heredoc.start : heredoc.behind] = re.sub(rb"[^\n]", b" ", seen[heredoc.start : heredoc.behind])
            hidden = range(heredoc.start, heredoc.behind + 1)
            if not any(child.type == "heredoc_body" and child.end_byte == heredoc.end for child in parts):
                break
        return bool(hidden)

    def _heredoc(self, match: re.Match[str]) -> Heredoc:
        text, delimiter = self._text, _QUOTES.sub(r"\1", match[2])
        is_quoted, strips_tabs, is_continued = delimiter != match[2], match[1] == "-", False
        line_end = _end_of_line(text, match.end())
        start = position = self._behind.get(line_end, min(line_end + 1, len(text)))
        end = None
        while end is None and position < len(text):
            begin, stop = position, text.find("\n", position)
            stop = len(text) if stop < 0 else stop
            line = text[begin:stop]
            position = min(stop + 1, len(text))
            if not is_continued and (line.lstrip("\t") if strips_tabs else line) == delimiter:
                end = begin
            is_continued = not is_quoted and (len(line) - len(line.rstrip("\\"))) % 2 == 1
        self._behind[line_end] = position
        return Heredoc(start, position if end is None else end, position, is_quoted, strips_tabs)

    def behind(self, position: int) -> int:
        """Where the here-documents end that begin in the line of a position."""
        return self._behind.get(_end_of_line(self._text, position), position)


def _end_of_line(text: str, position: int) -> int:
    match = _LINE_END.match(text, position)
    return match.end() if match else len(text)
