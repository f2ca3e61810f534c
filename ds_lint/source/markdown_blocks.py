"""The fenced blocks of a Markdown text, as CommonMark has them, also in lists and quotes."""

from __future__ import annotations

import re
from typing import NamedTuple

from ds_lint.source.parts import Part, Places
from ds_lint.source.tree import Span

_OPENING = re.compile(r"((?:[ \t]|>|[-*+][ \t]|[0-9]{1,9}[.)][ \t])*)(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*)")
_MOST_INDENT = 3  # of the end of a block, relative to its beginning
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_QUOTE = re.compile(r"[ \t]*>[ \t]?")
_WORD = re.compile(r"[\w+-]+")


class MarkdownBlock(NamedTuple):
    """A fenced block: the first word of its info string in lower case, and its text with the places of its lines."""

    info: str
    places: Places


class MarkdownText(NamedTuple):
    """The blocks of a text, and the spans of the HTML comments between them."""

    blocks: list[MarkdownBlock]
    comments: list[Span]


class _Fence(NamedTuple):
    sign: str
    indent: int
    quotes: int
    info: str


def read_markdown(text: str) -> MarkdownText:
    """The blocks and comments of a text."""
    blocks: list[MarkdownBlock] = []
    comments: list[Span] = []
    fence: _Fence | None = None
    lines: list[Part] = []
    commented = start = 0
    last_close = text.rfind("-->")
    for line in _LINE.findall(text):
        end = start + len(line)
        if fence is not None:
            inside = None if _closes(fence, line) else _inside(fence, line)
            if inside is not None:
                lines.append(Part(line[inside:], Span(start + inside, end)))
                start = end
                continue
            blocks.append(MarkdownBlock(fence.info, Places(lines)))
            is_closed = _closes(fence, line)
            fence, lines = None, []
            if is_closed:
                start = commented = end
                continue
        if start >= commented:
            fence = _opened(line)
            opening = -1 if fence is not None else text.find("<!--", start, end)
            if 0 <= opening < last_close:
                commented = text.index("-->", opening) + len("-->")
                comments.append(Span(opening, commented))
        start = end
    if fence is not None:
        blocks.append(MarkdownBlock(fence.info, Places(lines)))
    return MarkdownText(blocks, comments)


def _opened(line: str) -> _Fence | None:
    """The fence that a line opens."""
    match = _OPENING.match(line.rstrip("\r\n"))
    if match is None:
        return None
    word = _WORD.search(match[3])
    indent = len(match[1]) if ">" not in match[1] else len(match[1].rpartition(">")[2].removeprefix(" "))
    return _Fence(match[2], indent, match[1].count(">"), word[0].lower() if word is not None else "")


def _inside(fence: _Fence, line: str) -> int | None:
    """Where the text of a line in a block begins; None if the line has left the quote that the block is in."""
    start = _after_quotes(fence, line)
    if start is None:
        return None
    rest = line[start:]
    indent = len(rest) - len(rest.lstrip(" \t"))
    return start + min(indent, fence.indent)


def _closes(fence: _Fence, line: str) -> bool:
    start = _after_quotes(fence, line)
    rest = "" if start is None else line[start:].rstrip()
    indent = len(rest) - len(rest.lstrip())
    if indent > fence.indent + _MOST_INDENT:
        return False
    rest = rest[indent:]
    return len(rest) >= len(fence.sign) and set(rest) == {fence.sign[0]}


def _after_quotes(fence: _Fence, line: str) -> int | None:
    start = 0
    for _ in range(fence.quotes):
        match = _QUOTE.match(line, start)
        if match is None:
            return None
        start = match.end()
    return start
