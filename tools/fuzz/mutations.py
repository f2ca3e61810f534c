"""How an input is broken: by character, by word, by line, by value, and with pieces of other inputs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    Mutation = Callable[[random.Random, str, Sequence[str]], str]

# What programs stumble over: numbers that are none or too large, digits that int() does not take, other types.
VALUES = (
    "0", "-1", "-0.0", "1.5", "1e400", "-1e400", "NaN", "Infinity", "1e-400", "9" * 20, "9" * 400, "9" * 4400, "²", "٣",
    "1_000", "0x10", "08", "true", "null", "None", '"8"', '"auto"', '""', "[]", "{}", "[[]]", '{"a": 1}', '[1, "a"]',
    "10**10**8", '"a" * 10**9', "1 << 10**9", "[0] * 10**9", "1 // 0", "1 % 0", "2 ** -1", "-True", "1e308 * 10",
    "~1.5", "f'{x}'", "b'a'", "...", "lambda: 0", "*a", "&a [*a]", "!!float .inf", ".nan", "12:30:45", "2001-01-01",
    "1:2", "'''", '"\\ud800"', "\x00", "\ufeff", "😋", "\u2028", "\r", "\x1b[31m", "$X", "${X:-8}", "$((1/0))", "$(a)",
    "`a`", '"$@"', "${#X}", "${X//a/b}", "${X[@]}", "$((2**63))", "$((10**1000))", "{1..100000000}", "{a,b}", "@", "=",
    "cpu", "nvme", "Adam", "1MB", "80GB", "-8GB", "gpu:a100:9", "0,1,2,", ":", "a:b:c", "../..", "/", "~", "C:\\x",
)  # fmt: skip
_WORD = re.compile(r"\w+|\S")
_VALUE = re.compile(r"""(?<=[:=\s])(?:-?\d[\w.+-]*|"[^"\n]*"|'[^'\n]*'|\w+|[\[{][^\n\]}]*[\]}])(?=[\s,)\]};]|$)""")
_MARKS = (
    *tuple("\"'{}[]():,=#\\\n\t $`&|<>*-%!@;~^."),
    "//",
    "/*",
    "*/",
    "'''",
    '"""',
    "```",
    "<<EOF",
    "${",
    "$((",
    "%%",
)
_MOST = 20_000  # characters: a longer text takes longer, and shows little more


def mutated(chance: random.Random, text: str, others: Sequence[str]) -> str:
    """The text with one to four changes."""
    for _ in range(chance.choice((1, 1, 2, 3, 4))):
        text = chance.choice(_MUTATIONS)(chance, text, others)
    return text[:_MOST]


def _place(chance: random.Random, text: str) -> int:
    return chance.randrange(len(text) + 1)


def _delete(chance: random.Random, text: str, _others: Sequence[str]) -> str:
    start = _place(chance, text)
    return text[:start] + text[start + chance.choice((1, 1, 2, 5, 40)) :]


def _insert(chance: random.Random, text: str, _others: Sequence[str]) -> str:
    start = _place(chance, text)
    return text[:start] + chance.choice((chance.choice(_MARKS), chance.choice(VALUES))) + text[start:]


def _value(chance: random.Random, text: str, _others: Sequence[str]) -> str:
    found = list(_VALUE.finditer(text))
    if not found:
        return _insert(chance, text, _others)
    one = chance.choice(found)
    return text[: one.start()] + chance.choice(VALUES) + text[one.end() :]


def _word(chance: random.Random, text: str, others: Sequence[str]) -> str:
    found = list(_WORD.finditer(text))
    if not found:
        return _insert(chance, text, others)
    one = chance.choice(found)
    words = _WORD.findall(chance.choice(others)) if others and chance.random() < 0.5 else [each[0] for each in found]
    return text[: one.start()] + (chance.choice(words) if words else "") + text[one.end() :]


def _lines(chance: random.Random, text: str, _others: Sequence[str]) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    how = chance.randrange(4)
    if how == 0:
        del lines[first]
    elif how == 1:
        lines.insert(second, lines[first])
    elif how == 2:
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines[first] = chance.choice(("  ", "\t", "- ", "# ", "    ")) + lines[first]
    return "".join(lines)


def _repeat(chance: random.Random, text: str, _others: Sequence[str]) -> str:
    start = _place(chance, text)
    piece = text[start : start + chance.choice((1, 3, 10, 60))]
    return text[:start] + piece * chance.choice((2, 3, 20, 150)) + text[start:]


def _splice(chance: random.Random, text: str, others: Sequence[str]) -> str:
    if not others:
        return text
    other = chance.choice(others)
    start = _place(chance, other)
    piece = other[start : start + chance.choice((5, 30, 200))]
    place = _place(chance, text)
    return text[:place] + piece + text[place + chance.choice((0, len(piece))) :]


def _cut(chance: random.Random, text: str, _others: Sequence[str]) -> str:
    place = _place(chance, text)
    return text[:place] if chance.random() < 0.7 else text[place:]


_MUTATIONS: tuple[Mutation, ...] = (
    _delete, _insert, _insert, _value, _value, _value, _value, _word, _word, _lines, _lines, _repeat, _splice, _cut,
)  # fmt: skip


def smaller(text: str, fails: Callable[[str], bool]) -> str:
    """A text that fails in the same way and has no piece that can be left out, within a number of tries."""
    size, tries = max(len(text) // 2, 1), 0
    while tries < 400:
        start, changed = 0, False
        while start < len(text) and tries < 400:
            tries += 1
            shorter = text[:start] + text[start + size :]
            if fails(shorter):
                text, changed = shorter, True
            else:
                start += size
        if size == 1 and not changed:
            break
        size = max(size // 2, 1)
    return text
