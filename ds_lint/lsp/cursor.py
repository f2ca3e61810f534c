"""What is at a place: in the tree of a text, and in a text that is only half typed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.record import Record
from ds_lint.source.tree import walk

if TYPE_CHECKING:
    from dataclasses import KW_ONLY

    from ds_lint.source.document import Document
    from ds_lint.source.tree import KeyPath, Member, Node


class At(NamedTuple):
    """The member that a place is in: in its key, or in its value, which is not an object then."""

    path: KeyPath
    member: Member
    is_key: bool


def member_at(document: Document, offset: int) -> At | None:
    """The innermost member of a config around a place, or None if there is none."""
    if document.is_dict:
        return _anywhere(document.root, offset)
    root = document.root
    found: At | None = None
    node = root
    path: KeyPath = ()
    while node is not None:
        inner: Node | None = None
        here = path
        for member in node.members:
            if member.key_span.start <= offset <= member.key_span.end:
                return At((*path, member.key), member, is_key=True)
            if member.value.span.start <= offset <= member.value.span.end:
                inner, here = member.value, (*path, member.key)
                found = At(here, member, is_key=False)
        for index, item in enumerate(node.items):
            if item.span.start <= offset <= item.span.end:
                inner, here = item, (*path, str(index))
        node, path = inner, here
    if found is None or found.member.value.kind == "object":
        return None
    return found


def _anywhere(root: Node | None, offset: int) -> At | None:
    """The same for a dict, whose members may be outside of it."""
    found: At | None = None
    for path, member in walk(root) if root is not None else ():
        if member.key_span.start <= offset <= member.key_span.end:
            return At(path, member, is_key=True)
        if member.value.kind != "object" and member.value.span.start <= offset <= member.value.span.end:
            found = At(path, member, is_key=False)
    return found


class Typed(NamedTuple):
    """What is being typed at a place.

    ``section`` is the key path of the object or array around it, ``key`` the member whose value is typed, None where it
    is a key. ``start`` and ``end`` are the word, without its quotes if ``is_quoted``; ``missing`` is the quote that is
    to end it, where that is not there yet.
    """

    section: KeyPath
    key: str | None
    start: int
    end: int
    is_quoted: bool
    missing: str
    in_array: bool = False


_TOKEN = re.compile(
    r"""(?P<comment>\#[^\r\n]*|//[^\r\n]*|/\*.*?(?:\*/|\Z))"""
    r"""|(?P<string>"(?:[^"\\\r\n]|\\[^\r\n])*(?P<closed>")?|'(?:[^'\\\r\n]|\\[^\r\n])*(?P<closed_single>')?)"""
    r"""|(?P<mark>[{}\[\],:])"""
    r"""|(?P<word>[^\s{}\[\],:"'\#/]+|/)""",
    re.DOTALL,
)
_REST_OF_WORD = re.compile(r"[\w.-]*")


class _Container(Record):
    """An object or array that is open; ``key`` and ``state`` are of the member that is being read."""

    name: str  # of the member, or the number of the element, that it is the value of
    _: KW_ONLY
    is_array: bool

    def __post_init__(self) -> None:
        self.key: str | None = "0" if self.is_array else None
        self.state = _VALUE if self.is_array else _KEY


_KEY, _COLON, _VALUE, _COMMA = range(4)  # what comes next


def typed_at(text: str, offset: int, start: int = 0) -> Typed | None:
    """What is being typed at a place; None in a comment, and where nothing but punctuation can be.

    ``start`` is where the config begins.
    """
    frames: list[_Container] = []
    word: re.Match[str] | None = None
    for token in _TOKEN.finditer(text, start, _end_of_line(text, offset)):
        begin, end = token.span()
        if begin >= offset:
            break
        kind = token.lastgroup if token.lastgroup not in ("closed", "closed_single") else "string"
        is_inside = offset < end or (offset == end and not _is_closed(token))
        if kind == "comment":
            if is_inside and not (text.startswith("/*", begin) and offset == end):
                return None
        elif kind == "mark":
            _take_mark(frames, token[0])
        elif is_inside:
            word = token
        elif frames:
            _take_word(frames[-1], token[0].strip("\"'"))
    return _typed(text, offset, frames, word)


def _typed(text: str, offset: int, frames: list[_Container], word: re.Match[str] | None) -> Typed | None:
    is_quoted = word is not None and word["string"] is not None
    missing = word[0][0] if word is not None and is_quoted and not _is_closed(word) else ""
    start = offset if word is None else word.start() + is_quoted
    end = _REST_OF_WORD.match(text, offset).end()  # type: ignore[union-attr]  # it matches nothing, too
    if not frames:
        return Typed((), None, start, end, is_quoted, missing) if not text[:start].strip("\ufeff \t\r\n\"'") else None
    frame = frames[-1]
    section = tuple(one.name for one in frames[1:])
    if frame.is_array:
        return (
            Typed(section, frame.key, start, end, is_quoted, missing, in_array=True) if frame.state == _VALUE else None
        )
    if frame.state == _VALUE:
        return Typed(section, frame.key, start, end, is_quoted, missing)
    if frame.state == _KEY or (frame.state == _COMMA and _begins_line(text, start)):  # a comma is missing
        return Typed(section, None, start, end, is_quoted, missing)
    return None


def _is_closed(token: re.Match[str]) -> bool:
    """Whether a token is a string that ends with its quote."""
    return bool(token["closed"] or token["closed_single"])


def _take_mark(frames: list[_Container], mark: str) -> None:
    if mark in "{[":
        name = frames[-1].key if frames else ""
        frames.append(_Container(name or "", is_array=mark == "["))
        return
    if not frames:
        return
    if mark in "}]":
        if len(frames) > 1:
            frames.pop()
            frames[-1].state = _COMMA
        return
    frame = frames[-1]
    if mark == ":" and not frame.is_array:
        frame.state = _VALUE
    elif mark == ",":
        frame.state = _VALUE if frame.is_array else _KEY
        frame.key = str(int(frame.key or 0) + 1) if frame.is_array else None


def _take_word(frame: _Container, word: str) -> None:
    """A key, a value, or a key behind a comma that is missing."""
    if frame.state == _VALUE:
        frame.state = _COMMA
    elif frame.state in (_KEY, _COMMA) and not frame.is_array:
        frame.key, frame.state = word, _COLON


def _end_of_line(text: str, offset: int) -> int:
    ends = [end for sign in "\r\n" if (end := text.find(sign, offset)) != -1]
    return min(ends, default=len(text))


def _begins_line(text: str, start: int) -> bool:
    before = text[:start].rstrip(" \t\"'")
    return not before or before[-1] in "\r\n"
