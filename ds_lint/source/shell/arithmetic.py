"""The value of ``$((...))`` and ``((...))``, in integers of 64 bits as the shell has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Variable = Callable[[str], int | None]

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|\d+#\w+|\d+)|([A-Za-z_]\w*)"
    r"|(\*\*|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!~&|^?:(),]))"
)
_MOST_TOKENS = 400
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<=", ">=", "<", ">"), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip


class _UnknownError(Exception):
    """The value depends on what is not known, or bash rejects the expression."""


def value_of(expression: str, variable: Variable) -> int | None:
    """The value of an expression; None if it is unknown, or if the expression assigns."""
    tokens, position = list[str](), 0
    while position < len(expression.rstrip()):
        match = _TOKEN.match(expression, position)
        if match is None or len(tokens) > _MOST_TOKENS:
            return None
        tokens.append(match[0].strip())
        position = match.end()
    if not tokens:
        return 0
    reader = _Expression(tokens, variable)
    try:
        value = reader.ternary()
    except (_UnknownError, RecursionError):
        return None
    return None if reader.tokens else value


class _Expression:
    """A descent through the levels of precedence. Both sides of ``&&`` and ``?:`` are computed: none assigns."""

    def __init__(self, tokens: list[str], variable: Variable) -> None:
        self.tokens = tokens[::-1]
        self.variable = variable

    def takes(self, *tokens: str) -> str | None:
        if self.tokens and self.tokens[-1] in tokens:
            return self.tokens.pop()
        return None

    def ternary(self) -> int:
        condition = self.binary(0)
        if not self.takes("?"):
            return condition
        one = self.ternary()
        if not self.takes(":"):
            raise _UnknownError
        other = self.ternary()
        return one if condition else other

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.power()
        value = self.binary(level + 1)
        while operator := self.takes(*_LEVELS[level]):
            value = _calculated(operator, value, self.binary(level + 1))
        return value

    def power(self) -> int:
        base = self.unary()
        if not self.takes("**"):
            return base
        exponent = self.power()
        if not 0 <= exponent < 64:
            raise _UnknownError
        return _wrapped(base**exponent)

    def unary(self) -> int:
        operator = self.takes("-", "+", "!", "~")
        if operator is None:
            return self.atom()
        value = self.unary()
        return {"-": _wrapped(-value), "+": value, "!": int(not value), "~": ~value}[operator]

    def atom(self) -> int:
        if self.takes("("):
            value = self.ternary()
            if not self.takes(")"):
                raise _UnknownError
            return value
        token = self.tokens.pop() if self.tokens else ""
        if token[:1].isdigit():
            return _number(token)
        if not (token[:1].isalpha() or token[:1] == "_"):
            raise _UnknownError
        known = self.variable(token)
        if known is None:
            raise _UnknownError
        return known


def _number(token: str) -> int:
    try:
        if "#" in token:
            base, _, digits = token.partition("#")
            return _wrapped(int(digits, int(base)))
        if token[:2] in ("0x", "0X"):
            return _wrapped(int(token, 16))
        return _wrapped(int(token, 8 if token[0] == "0" else 10))
    except ValueError:
        raise _UnknownError from None


def _calculated(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if right == 0:
            raise _UnknownError
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)  # towards zero
        return _wrapped(quotient if operator == "/" else left - quotient * right)
    if operator in ("<<", ">>"):
        return _wrapped(left << (right & 63) if operator == "<<" else left >> (right & 63))
    return _wrapped(int(_OPERATIONS[operator](left, right)))


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "||": lambda left, right: bool(left) or bool(right),
    "&&": lambda left, right: bool(left) and bool(right),
    "|": lambda left, right: left | right,
    "^": lambda left, right: left ^ right,
    "&": lambda left, right: left & right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    ">": lambda left, right: left > right,
    "<=": lambda left, right: left <= right,
    ">=": lambda left, right: left >= right,
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
}


def _wrapped(value: int) -> int:
    """A value in 64 bits with a sign."""
    return (value + 2**63) % 2**64 - 2**63
