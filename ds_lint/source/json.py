"""JSON to a positioned tree.

A file without anything to say about its syntax is read here, by two regular expressions and nothing else, because this
is the path of every clean file at every start of ``ds-lint``. At the first thing that needs a word the reader gives up,
and ``tolerant.py``, which is not even imported before, reads the text again from the start.
"""

from __future__ import annotations

import re

from ds_lint.source.document import Document, SyntaxIssue
from ds_lint.tree import Member, Node, Span

TYPE_CHECKING = False

# How deep objects and arrays may nest for hjson, which makes two Python calls a level, and for json: measured where
# DeepSpeedConfig and HfDeepSpeedConfig open the file, with Python 3.10 and 3.11 (json reads deeper from 3.12 on), and
# with nothing but them on the stack. Under a script with a stack of its own it is less.
MOST_NESTING_HJSON = 494
MOST_NESTING_JSON = 991
MOST_DIGITS = 4300  # of an integer: with more, int() raises, in json and in hjson

_SPACE = r"[ \t\n\r]*"
_STRING = r'"([^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*)"'
_INTEGER = r"-?(?:0|[1-9][0-9]*)"
_REAL = rf"{_INTEGER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_DELIMITED = rf"{_SPACE}[,}}\]]"
_NAME = re.compile(rf"{_SPACE}{_STRING}{_SPACE}:").match
_VALUE = re.compile(rf"{_SPACE}(?:(?:{_STRING}|({_INTEGER})|({_REAL})|(true|false|null)){_DELIMITED}|([{{\[]))").match
_TEXT, _WHOLE_NUMBER, _REAL_NUMBER, _LITERAL, _OPENING = range(1, 6)  # the groups of _VALUE
_DELIMITER = re.compile(_DELIMITED).match

_LITERALS = {"true": True, "false": False, "null": None}
_INFINITE = (float("inf"), float("-inf"))
_WIDE_ENCODINGS: dict[tuple[bool, ...], str] = {  # by which of the first four bytes are zero
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# What a placeholder inside quotes begins with. A text with none of them holds no template.
_TEMPLATE_HINTS = ("$", "{{", "{%", "%(", '"<', '"CONFIG_', '"__')


def read(text: str, path: str) -> Document:
    """The document of a JSON text, whatever is wrong with it."""
    try:
        return Document(path, text, _read_clean(text), [])
    except _NotCleanError:
        pass
    from ds_lint.source import tolerant

    return Document(path, text, *tolerant.read(text))


def decode(data: bytes) -> tuple[str, SyntaxIssue | None]:
    """The text of a file, and an issue if its bytes are not the UTF-8 that the libraries read.

    A byte order mark stays, as one code point; ``read`` says what it does. Every other encoding is decoded as well as
    it can be, so that the rest of the file can still be judged.
    """
    encoding = _wide_encoding(data)
    if encoding:
        text = data.decode(encoding, "replace")
        return text, SyntaxIssue("not-utf8", Span(0, min(1, len(text))), encoding[:6].upper())
    try:
        return data.decode(), None
    except UnicodeDecodeError as error:
        start = len(data[: error.start].decode())
        found = f"0x{data[error.start]:02x}"
        return data.decode(errors="replace"), SyntaxIssue("not-utf8", Span(start, start + 1), found)


def unescape(raw: str) -> str:
    """What the inside of a JSON string stands for; every escape in it must be a valid one."""
    if "\\" not in raw:
        return raw
    return re.sub(r"\\(?:u([dD][89abAB]..)\\u([dD][c-fC-F]..)|u(....)|(.))", _unescape_one, raw)


def _unescape_one(escape: re.Match[str]) -> str:
    high, low, unit, letter = escape.groups()
    if letter:
        return _ESCAPES[letter]
    if unit:
        return chr(int(unit, 16))
    return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)


def _wide_encoding(data: bytes) -> str | None:
    """The encoding of a text with two or four bytes a character, told by its mark or by the NULs of its first ones."""
    if b"\0" not in data and data[:1] not in {b"\xff", b"\xfe"}:
        return None
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return _WIDE_ENCODINGS.get(tuple(byte == 0 for byte in data[:4]))


class _NotCleanError(Exception):
    """The text needs the tolerant reader."""


def _read_clean(text: str) -> Node:
    """The root object of a text that no reader has anything to say about."""
    start = len(text) - len(text.lstrip(" \t\n\r"))
    if not text.startswith("{", start) or any(hint in text for hint in _TEMPLATE_HINTS):
        raise _NotCleanError
    pos = start + 1
    container = Node("object", Span(start, pos))
    outer: list[Node] = []  # the open containers around ``container``
    while True:
        name = _NAME(text, pos) if container.kind == "object" else None
        match = _VALUE(text, name.end() if name else pos)
        if match and (name or container.kind == "array"):
            node = _value(match)
            pos = match.end()
            if name:
                start, end = name.span(1)
                container.members.append(Member(unescape(name[1]), Span(start - 1, end + 1), node))
            else:
                container.items.append(node)
            if match.lastindex == _OPENING:
                outer.append(container)
                if len(outer) == MOST_NESTING_HJSON:
                    raise _NotCleanError
                container = node
                continue
        else:  # only the end of an empty container is left to hope for
            pos = _after_delimiter(text, pos)
            if container.members or container.items or text[pos - 1] == ",":
                raise _NotCleanError
        while text[pos - 1] != ",":
            _close(container, pos, text)
            if not outer:
                if text[pos:].strip(" \t\n\r"):
                    raise _NotCleanError
                return container
            container = outer.pop()
            pos = _after_delimiter(text, pos)


def _value(match: re.Match[str]) -> Node:
    """The scalar or the opened container that ``_VALUE`` matched."""
    group = match.lastindex or 0
    start, end = match.span(group)
    if group == _TEXT:
        return Node("string", Span(start - 1, end + 1), unescape(match[group]))
    span = Span(start, end)
    if group == _OPENING:
        return Node("object" if match[group] == "{" else "array", span)
    if group == _LITERAL:
        value = _LITERALS[match[group]]
        return Node("null" if value is None else "boolean", span, value)
    if group == _WHOLE_NUMBER and end - start <= MOST_DIGITS:
        return Node("integer", span, int(match[group]))
    number = float(match[group])
    if group == _REAL_NUMBER and number not in _INFINITE:
        return Node("float", span, number)
    raise _NotCleanError


def _after_delimiter(text: str, pos: int) -> int:
    """The place after the comma or closing bracket that comes next."""
    match = _DELIMITER(text, pos)
    if match is None:
        raise _NotCleanError
    return match.end()


def _close(container: Node, pos: int, text: str) -> None:
    """End a container at the bracket before ``pos``, if it is the right one."""
    container.span.end = pos
    if container.kind == "array":
        if text[pos - 1] != "]":
            raise _NotCleanError
    elif text[pos - 1] != "}" or len({member.key for member in container.members}) < len(container.members):
        raise _NotCleanError
