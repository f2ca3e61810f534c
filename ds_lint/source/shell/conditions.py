"""Whether ``[ ... ]`` and ``[[ ... ]]`` hold: True, False, or None where it depends on what is not known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.source.shell import patterns, scanning
from ds_lint.source.shell.unknowns import is_known

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.shell.state import State
    from ds_lint.source.shell.words import WordExpander

_INTEGER = re.compile(r"\s*[-+]?[0-9]{1,18}\s*")  # that 64 bits hold
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}
_STRINGS = {"=", "==", "!=", "<", ">", "=~"}
_MOST_WORDS = 200
_LONGEST_FOUND = 300
_CLASSES = re.compile(r"\[:(\w+):\]")
_OF_CLASS = {"alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "digit": "0-9", "lower": "a-z", "space": r"\s", "upper": "A-Z"}
# Escapes, groups that are repeated and two repetitions one behind the other: they mean something else, or take long.
_OF_ANOTHER_KIND = re.compile(r"\\[A-Za-z0-9<>`']|\)[*+?{]|\(\?|[*+?}][*+?{]|(?:[*+].*){4}|\$.")


def holds(text: str, state: State, words: WordExpander, *, is_called: bool = True) -> bool | None:
    """Whether a test holds, given with its brackets; if not ``is_called`` with words, in a script without any."""
    is_extended = text.startswith("[[")
    inside = text[2:-2] if is_extended else text[1:-1]
    raw = scanning.raw_words(inside)
    if is_extended:
        operands = [part for word in raw for part in _with_brackets_apart(word)]
    else:
        operands = [field for word in raw for field in words.fields(word, state)]
    return holds_words(operands, state, words, is_extended=is_extended, is_called=is_called)


def holds_words(
    operands: list[str], state: State, words: WordExpander, *, is_extended: bool = False, is_called: bool = True
) -> bool | None:
    """Whether a test of these words holds."""
    if len(operands) > _MOST_WORDS:
        return None
    test = _Test(operands[::-1], state, words, is_extended=is_extended, is_called=is_called)
    value = test.either()
    return None if test.left or test.is_broken else value


def both(one: bool | None, other: bool | None) -> bool | None:
    """``one && other`` where either may be unknown."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def negated(value: bool | None) -> bool | None:
    """``! value``."""
    return None if value is None else not value


def _with_brackets_apart(word: str) -> list[str]:
    """``(`` and ``)`` of an extended test as words of their own; a regular expression keeps them."""
    parts, closing = [], 0
    while word.startswith("("):
        parts.append("(")
        word = word[1:]
    while word.endswith(")") and word.count("(") < word.count(")"):
        closing += 1
        word = word[:-1]
    return [*parts, *([word] if word else []), *[")"] * closing]


class _Test:
    """A descent over the words of a test. ``left`` are those that are not read yet, the next one last."""

    def __init__(
        self, left: list[str], state: State, words: WordExpander, *, is_extended: bool, is_called: bool
    ) -> None:
        self.is_called = is_called
        self.left = left
        self.state = state
        self.words = words
        self.is_extended = is_extended
        self.is_broken = False

    def takes(self, *tokens: str) -> bool:
        if self.left and self.left[-1] in tokens:
            self.left.pop()
            return True
        return False

    def either(self) -> bool | None:
        value = self.all()
        while self.takes("||" if self.is_extended else "-o"):
            value = negated(both(negated(value), negated(self.all())))
        return value

    def all(self) -> bool | None:
        value = self.one()
        while self.takes("&&" if self.is_extended else "-a"):
            value = both(value, self.one())
        return value

    def one(self) -> bool | None:
        if len(self.left) > 1 and self.takes("!"):
            return negated(self.one())
        if len(self.left) > 2 and self.takes("(", r"\("):
            inside = self.either()
            self.is_broken |= not self.takes(")", r"\)")
            return inside
        if not self.left:
            return False if not self.is_extended else None
        first = self.left.pop()
        if self.left and (self.left[-1] in _STRINGS or self.left[-1] in _COMPARISONS):
            operator = self.left.pop()
            if not self.left:
                self.is_broken = True
                return None
            return self.compared(first, operator, self.left.pop())
        if re.fullmatch("-[a-zA-Z]", first) and self.left and self.left[-1] not in ("-a", "-o", "&&", "||", ")"):
            return self.unary(first, self.left.pop())
        value = self.value(first)
        return bool(value) if is_known(value) else self.non_empty(value)

    def unary(self, operator: str, word: str) -> bool | None:
        if operator == "-v":
            name, _, index = word.rstrip("]").partition("[")
            array = self.state.variables.get(name)
            if index and isinstance(array, dict):
                return self.value(index) in {str(key) for key in array}
            return True if word in self.state.variables else False if word in self.state.unset else None
        value = self.value(word)
        if operator in ("-z", "-n"):
            is_set = bool(value) if is_known(value) else self.non_empty(value)
            return is_set if operator == "-n" else negated(is_set)
        return None  # about a file

    def non_empty(self, value: str) -> bool | None:
        """Whether a text is certainly not empty though a part of it is unknown."""
        return True if any(is_known(char) for char in value) else None

    def compared(self, left: str, operator: str, right: str) -> bool | None:
        one, other = self.value(left), self.value(right)
        if not (is_known(one) and is_known(other)):
            return None
        if operator in _COMPARISONS:
            if self.is_extended:  # both sides are arithmetic
                values = self.words.number(one, self.state), self.words.number(other, self.state)
                return None if None in values else _COMPARISONS[operator](values[0] or 0, values[1] or 0)
            if not (_INTEGER.fullmatch(one) and _INTEGER.fullmatch(other)):
                return None
            return _COMPARISONS[operator](int(one), int(other))
        if not self.is_called and operator in _STRINGS and (one or other):
            return None  # it chooses by words that the user gives
        if operator in ("=", "==", "!="):
            is_literal = not self.is_extended or right[:1] in "'\""
            equal = one == other if is_literal else patterns.matches(one[:2000], other)
            return equal if operator != "!=" else not equal
        if operator in ("<", ">"):
            return one < other if operator == "<" else one > other
        return self.is_found(one, re.escape(other) if right[:1] in "'\"" else other)

    def is_found(self, text: str, expression: str) -> bool | None:
        """Whether a text has what a regular expression means, if Python's mean the same and end soon."""
        expression = _CLASSES.sub(lambda match: _OF_CLASS.get(match[1], match[0]), expression)
        if "[:" in expression or _OF_ANOTHER_KIND.search(expression) or len(text) + len(expression) > _LONGEST_FOUND:
            return None
        try:
            match = re.search(
                expression.replace("$", r"\Z") if expression.endswith("$") else expression, text, re.DOTALL
            )
        except re.error:
            return None
        if match is not None:
            self.state.variables["BASH_REMATCH"] = dict(
                enumerate([match[0], *(group or "" for group in match.groups())])
            )
        return match is not None

    def value(self, word: str) -> str:
        value = self.words.text(word, self.state) if self.is_extended else word
        return value if self.is_called else self.words.unknowns.without_call(value)
