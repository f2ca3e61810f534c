"""The value of ``$((...))`` and ``((...))``, in integers of 64 bits as the shell has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Variable = Callable[[str], int | None]
    Assign = Callable[[str, int], None]

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|\d+#\w+|\d+)|([A-Za-z_]\w*)"
    r"|(\*\*|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!~&|^?:(),]))"
)
_MOST_TOKENS = 400
_ASSIGNING = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<=", ">=", "<", ">"), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip


class _UnknownError(Exception):
    """The value depends on what is not known, or bash rejects the expression."""


def value_of(expression: str, variable: Variable, assign: Assign | None = None) -> int | None:
    """The value of an expression; None if it is unknown, or if it assigns and nothing takes that."""
    tokens, position = list[str](), 0
    while position < len(expression.rstrip()):
        match = _TOKEN.match(expression, position)
        if match is None or len(tokens) > _MOST_TOKENS:
            return None
        tokens.append(match[0].strip())
        position = match.end()
    if not tokens:
        return 0
    reader = _Expression(tokens, variable, assign)
    try:
        value = reader.list()
    except (_UnknownError, RecursionError):
        return None
    return None if reader.tokens else value


class _Expression:
    """A descent through the levels of precedence; what ``&&``, ``||`` and ``?:`` pass over assigns nothing."""

    def __init__(self, tokens: list[str], variable: Variable, assign: Assign | None) -> None:
        self.tokens = tokens[::-1]
        self.variable = variable
        self.assign = assign
        self.passed_over = 0

    def takes(self, *tokens: str) -> str | None:
        if self.tokens and self.tokens[-1] in tokens:
            return self.tokens.pop()
        return None

    def list(self) -> int:
        value = self.assignment()
        while self.takes(","):
            value = self.assignment()
        return value

    def assignment(self) -> int:
        name = self.tokens[-1] if self.tokens else ""
        operator = self.tokens[-2] if len(self.tokens) > 1 else ""
        if not _is_name(name) or operator not in _ASSIGNING:
            return self.ternary()
        del self.tokens[-2:]
        value = self.assignment()
        return self.put(name, value if operator == "=" else _calculated(operator[:-1], self.known(name), value))

    def put(self, name: str, value: int) -> int:
        if self.passed_over:
            return value
        if self.assign is None:
            raise _UnknownError
        self.assign(name, value)
        return value

    def known(self, name: str) -> int:
        value = self.variable(name)
        if value is None:
            if self.passed_over:
                return 0
            raise _UnknownError
        return value

    def ternary(self) -> int:
        condition = self.binary(0)
        if not self.takes("?"):
            return condition
        one = self.if_run(self.assignment, runs=bool(condition))
        if not self.takes(":"):
            raise _UnknownError
        other = self.if_run(self.assignment, runs=not condition)
        return one if condition else other

    def if_run(self, part: Callable[[], int], *, runs: bool) -> int:
        self.passed_over += not runs
        value = part()
        self.passed_over -= not runs
        return value

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.power()
        value = self.binary(level + 1)
        while operator := self.takes(*_LEVELS[level]):
            runs = bool(value) == (operator == "&&") if operator in ("&&", "||") else True
            right = self.if_run(lambda: self.binary(level + 1), runs=runs)
            value = 0 if self.passed_over and operator in ("/", "%") else _calculated(operator, value, right)
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
        operator = self.takes("-", "+", "!", "~", "++", "--")
        if operator is None:
            return self.atom()
        if operator in ("++", "--") and self.tokens and _is_name(self.tokens[-1]):
            name = self.tokens.pop()
            return self.put(name, _wrapped(self.known(name) + (1 if operator == "++" else -1)))
        value = self.unary()
        return {"-": _wrapped(-value), "!": int(not value), "~": ~value}.get(operator, value)

    def atom(self) -> int:
        if self.takes("("):
            value = self.list()
            if not self.takes(")"):
                raise _UnknownError
            return value
        token = self.tokens.pop() if self.tokens else ""
        if token[:1].isdigit():
            return _number(token)
        if not _is_name(token):
            raise _UnknownError
        value = self.known(token)
        if step := self.takes("++", "--"):
            self.put(token, _wrapped(value + (1 if step == "++" else -1)))
        return value


def _is_name(token: str) -> bool:
    return token[:1].isalpha() or token[:1] == "_"


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
