"""JSON to a positioned tree.

A file without anything to say about its syntax is read here, with the methods of ``str`` and nothing else, because this
is the path of every clean file at every start of ``ds-lint``: to import ``re`` and to compile three patterns takes a
fifth of the whole run. At the first thing that needs a word the reader gives up, and ``tolerant.py``, which is not even
imported before, reads the text again from the start.
"""

from __future__ import annotations

from ds_lint.source.document import NOT_UTF8, Document, SyntaxIssue
from ds_lint.source.limits import MOST_DIGITS, MOST_NESTING_HJSON
from ds_lint.source.tree import Member, Node, Span

_SPACE = " \t\n\r"
_OF_NUMBERS = "+-.0123456789eE"
_AT_ONCE = 80  # code points that are looked at for space or digits: an indented line has less of either
_LITERALS = (("true", True), ("false", False), ("null", None))
_INFINITE = (float("inf"), float("-inf"))
_WIDE_ENCODINGS: dict[tuple[bool, ...], str] = {  # by which of the first four bytes are zero
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
}
# What a placeholder inside quotes begins with. A text with none of them holds no template.
_TEMPLATE_HINTS = ("$", "{{", "{%", "%(", '"<', '"CONFIG_', '"__')


def parse(text: str, path: str) -> Document:
    """The document of a JSON text, whatever is wrong with it."""
    try:
        return Document(path, text, _read_clean(text), [])
    except _NotCleanError:
        pass
    from ds_lint.source import tolerant

    return Document(path, text, *tolerant.parse(text))


def strict_tree(text: str) -> Node | None:
    """The tree of a text that is one object in strict JSON, whatever its strings say; None for any other text."""
    try:
        return _read_object(text)
    except (_NotCleanError, IndexError):
        return None


def decode(data: bytes) -> tuple[str, SyntaxIssue | None]:
    """The text of a file, and an issue if its bytes are not the UTF-8 that the libraries read.

    A byte order mark stays, as one code point; ``read`` says what it does. Every other encoding is decoded as well as
    it can be, so that the rest of the file can still be linted.
    """
    encoding = _wide_encoding(data)
    if encoding:
        text = data.decode(encoding, "replace")
        return text, SyntaxIssue(NOT_UTF8, Span(0, min(1, len(text))), encoding[:6].upper())
    try:
        return data.decode(), None
    except UnicodeDecodeError as error:
        start = len(data[: error.start].decode())
        found = f"0x{data[error.start]:02x}"
        return data.decode(errors="replace"), SyntaxIssue(NOT_UTF8, Span(start, start + 1), found)


def _wide_encoding(data: bytes) -> str | None:
    """The encoding of a text with two or four bytes a character, known by its mark or by the NULs of its first ones."""
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
    if any(hint in text for hint in _TEMPLATE_HINTS):
        raise _NotCleanError
    try:
        return _read_object(text)
    except IndexError:  # the text ended before the object did
        raise _NotCleanError from None


def _read_object(text: str) -> Node:
    pos = _after_space(text, 0)
    if text[pos] != "{":
        raise _NotCleanError
    container = Node("object", Span(pos, pos + 1))
    outer: list[Node] = []  # the open containers around ``container``
    pos += 1
    while True:
        pos = _after_space(text, pos)
        if text[pos] in "}]":  # nothing before it: after a comma there must be an element
            if container.members or container.items:
                raise _NotCleanError
            pos += 1
        else:
            node = _element(text, pos, container)
            pos = node.span.end
            if text[pos - 1] in "{[" and node.kind in ("object", "array"):
                outer.append(container)
                if len(outer) == MOST_NESTING_HJSON:
                    raise _NotCleanError
                container = node
                continue
            pos = _after_delimiter(text, pos)
        while text[pos - 1] != ",":
            _close(container, pos, text)
            if not outer:
                if text[pos:].strip(_SPACE):
                    raise _NotCleanError
                return container
            container = outer.pop()
            pos = _after_delimiter(text, pos)


def _element(text: str, pos: int, container: Node) -> Node:
    """The value of the member or item that begins at a place; it is put into the container."""
    if container.kind == "array":
        value = _value(text, pos)
        container.items.append(value)
        return value
    key, end = _string(text, pos)
    colon = end
    if text[colon] != ":":
        colon = _after_space(text, colon)
        if text[colon] != ":":
            raise _NotCleanError
    value = _value(text, _after_space(text, colon + 1))
    container.members.append(Member(key, Span(pos, end), value))
    return value


def _after_space(text: str, pos: int) -> int:
    """The place of the next code point that is not a space; the end of the text if there is none."""
    if text[pos] > " ":
        return pos
    if text[pos] == " " and text[pos + 1 : pos + 2] > " ":
        return pos + 1
    return _after(text, pos, _SPACE)


def _after(text: str, pos: int, passed_over: str) -> int:
    """The place of the next code point that is none of these; the end of the text if there is none."""
    while ahead := text[pos : pos + _AT_ONCE]:
        rest = len(ahead.lstrip(passed_over))
        pos += len(ahead) - rest
        if rest:
            break
    return pos


def _after_delimiter(text: str, pos: int) -> int:
    """The place after the comma or closing bracket that comes next."""
    if text[pos] != ",":
        pos = _after_space(text, pos)
        if text[pos] not in ",}]":
            raise _NotCleanError
    return pos + 1


def _value(text: str, pos: int) -> Node:
    """The scalar or the opened container at a place."""
    first = text[pos]
    if first == '"':
        string, end = _string(text, pos)
        return Node("string", Span(pos, end), string)
    if first in "{[":
        return Node("object" if first == "{" else "array", Span(pos, pos + 1))
    if first in "tfn":
        for literal, value in _LITERALS:
            if text.startswith(literal, pos):
                return Node("null" if value is None else "boolean", Span(pos, pos + len(literal)), value)
        raise _NotCleanError
    return _number(text, pos)


def _string(text: str, pos: int) -> tuple[str, int]:
    """The string that begins at a place, and where it ends."""
    end = text.find('"', pos + 1)
    if text[pos] != '"' or end < 0:
        raise _NotCleanError
    raw = text[pos + 1 : end]
    if "\\" in raw:
        from ds_lint.source.escapes import unescape  # few configs have an escape

        raw = _with_escapes(text, pos)
        return unescape(raw), pos + len(raw) + 2
    if not raw.isprintable() and min(raw) < " ":
        raise _NotCleanError
    return raw, end + 1


def _with_escapes(text: str, pos: int) -> str:
    """The inside of a string with escapes, as it is written."""
    import re  # few configs have an escape

    pattern = r'"([^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*)"'
    match = re.compile(pattern).match(text, pos)
    if match is None:
        raise _NotCleanError
    return match[1]


def _number(text: str, pos: int) -> Node:
    """The number that begins at a place."""
    end = _after(text, pos, _OF_NUMBERS)
    written = text[pos:end]
    digits = written.removeprefix("-")
    if digits.isdecimal():
        if len(written) > MOST_DIGITS or (digits[0] == "0" and digits != "0"):
            raise _NotCleanError
        return Node("integer", Span(pos, end), int(written))
    if not _is_real(digits):
        raise _NotCleanError
    number = float(written)
    if number in _INFINITE:
        raise _NotCleanError
    return Node("float", Span(pos, end), number)


def _is_real(digits: str) -> bool:
    """Whether these are the digits of a JSON number with a fraction or an exponent."""
    mantissa, has_exponent, exponent = digits.replace("E", "e").partition("e")
    whole, has_fraction, fraction = mantissa.partition(".")
    return (
        whole.isdecimal()
        and (whole[0] != "0" or whole == "0")
        and (not has_fraction or fraction.isdecimal())
        and (not has_exponent or exponent[exponent[:1] in ("+", "-") :].isdecimal())
    )


def _close(container: Node, pos: int, text: str) -> None:
    """End a container at the bracket before ``pos``, if it is the right one."""
    container.span.end = pos
    if container.kind == "array":
        if text[pos - 1] != "]":
            raise _NotCleanError
    elif text[pos - 1] != "}" or len({member.key for member in container.members}) < len(container.members):
        raise _NotCleanError
