"""Further ``per-file-ignores`` or ``extend-per-file-ignores`` in a settings file, which otherwise stays as it is."""

from __future__ import annotations

import os
from json import dumps
from typing import NamedTuple

from ds_lint.settings.reader import strictly
from ds_lint.settings.record import OWN_TABLE, SHARED
from ds_lint.targets.toml import TOKEN, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Path = tuple[str, ...]
    Ignores = dict[str, list[str]]  # rules by pattern

NAME = "per-file-ignores"
ADDED = "extend-per-file-ignores"


class _Token(NamedTuple):
    text: str
    start: int
    end: int


class _Statement(NamedTuple):
    """A header of a table, or a key with its value; ``end`` is behind the line break."""

    table: Path  # that it is in
    key: Path  # empty for a header
    start: int
    value: list[_Token]
    end: int


def with_ignores(text: str, path: str, ignores: Ignores, setting: str = NAME) -> str | None:
    """The text of the settings file at a path with these rules ignored too; None if that cannot be written into it.

    ``setting`` is the table for them. What is returned was read again: everything else in it is as before.
    """
    own = ("tool", OWN_TABLE) if os.path.basename(path) == SHARED else ()
    try:
        wanted = strictly(text)
        table: dict[str, Any] = wanted
        for name in (*own, setting):
            table = table.setdefault(name, {})
        after = text
        for pattern, rules in ignores.items():
            table[pattern] = [*table.get(pattern, ()), *rules]
            after = _with_entry(after, (*own, setting), pattern, rules)
        after.encode()  # a name of a file may hold what no text can
        return after if strictly(after) == wanted else None
    except (ValueError, TypeError, AttributeError, IndexError):
        return None


def entry(pattern: str, rules: list[str]) -> str:
    """The setting as it is written in the table."""
    return f"{_quoted(pattern)} = [{', '.join(map(_quoted, rules))}]"


def _with_entry(text: str, name: Path, pattern: str, rules: list[str]) -> str:
    """The text with rules added to the list of a pattern, where that is: in a table of its own, inline or dotted."""
    statements = list(_statements(text))
    newline = "\r\n" if "\r\n" in text else "\n"
    words = ", ".join(map(_quoted, rules))
    for one in statements:
        if one.key and (*one.table, *one.key) == (*name, pattern):
            return _in_array(text, one.value, words)
    for one in statements:
        if one.key and (*one.table, *one.key) == name:
            return _in_inline_table(text, one.value, pattern, rules)
    for one in statements:
        if not one.key and one.table == name:
            line = "" if text[: one.end].endswith("\n") else newline
            return f"{text[: one.end]}{line}{entry(pattern, rules)}{newline}{text[one.end :]}"
    for one in statements:
        if (*one.table, *one.key)[:-1] == name and one.key:
            prefix = "".join(f"{_quoted(part)}." for part in one.key[:-1])
            return f"{text[: one.start]}{prefix}{entry(pattern, rules)}{newline}{text[one.start :]}"
    line = "" if not text or text.endswith("\n") else newline
    blank = newline if text else ""
    header = ".".join(name)
    return f"{text}{line}{blank}[{header}]{newline}{entry(pattern, rules)}{newline}"


def _in_array(text: str, value: list[_Token], words: str) -> str:
    """The text with words at the end of a list, before a comma or a comment that is there."""
    last = value[-3] if value[-2].text == "," else value[-2]
    separator = "" if last.text == "[" else ", "
    return f"{text[: last.end]}{separator}{words}{text[last.end :]}"


def _in_inline_table(text: str, value: list[_Token], pattern: str, rules: list[str]) -> str:
    """The text with an entry at the end of a table in braces, or more rules in the one that is there."""
    for one in _apart(value[1:-1]):
        key, found = _key_and_value(one)
        if key == (pattern,):
            return _in_array(text, found, ", ".join(map(_quoted, rules)))
    last = value[-2]
    written = f" {entry(pattern, rules)} " if last.text == "{" else f", {entry(pattern, rules)}"
    return text[: last.end] + written + text[last.end :]


def _apart(tokens: list[_Token]) -> Iterator[list[_Token]]:
    """The entries of a table in braces."""
    depth = 0
    one: list[_Token] = []
    for token in tokens:
        depth += _deeper(token)
        if token.text == "," and depth == 0:
            yield one
            one = []
        else:
            one.append(token)
    if one:
        yield one


def _deeper(token: _Token) -> int:
    return 1 if token.text in ("[", "{") else -1 if token.text in ("]", "}") else 0


def _statements(text: str) -> Iterator[_Statement]:
    """Every statement in the order of the text."""
    tokens = [_Token(found[0], found.start(), found.end()) for found in TOKEN.finditer(text)]
    line: list[_Token] = []
    depth = 0
    table: Path = ()
    for token in [*tokens, _Token("\n", len(text), len(text))]:
        if token.text == "\n" and depth == 0 and line:
            if line[0].text == "[":
                table = _path([one for one in line if one.text not in ("[", "]")])
                yield _Statement(table, (), line[0].start, [], token.end)
            else:
                key, value = _key_and_value(line)
                yield _Statement(table, key, line[0].start, value, token.end)
            line = []
        elif token.text != "\n" and not token.text.startswith("#"):
            line.append(token)
            depth += _deeper(token) if line[0].text != "[" else 0


def _key_and_value(tokens: list[_Token]) -> tuple[Path, list[_Token]]:
    equals = next(place for place, one in enumerate(tokens) if one.text == "=")
    return _path(tokens[:equals]), tokens[equals + 1 :]


def _path(tokens: list[_Token]) -> Path:
    return tuple(key_of(["=", *(one.text for one in reversed(tokens))], "="))


def _quoted(text: str) -> str:
    return dumps(text, ensure_ascii=False)
