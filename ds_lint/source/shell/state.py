"""What the shell has at one moment: variables, positional parameters, functions, the current folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ds_lint.source.shell.syntax import ShellCommand
    from ds_lint.source.shell.unknowns import Unknowns

    Array = dict[int | str, str]
    Value = str | Array

_LONGEST = 20_000  # characters of values that are compared word by word
_WORDS = re.compile(r"\s+|\S+")
# Variables that bash or the login sets on every machine, so that no default is ever taken.
PROVIDED = frozenset({
    "BASH", "BASHPID", "BASH_SOURCE", "BASH_VERSION", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS",
    "HOME", "HOSTNAME", "HOSTTYPE", "LANG", "LINENO", "LOGNAME", "MACHTYPE", "OLDPWD", "OSTYPE", "PATH", "PIPESTATUS",
    "PPID", "PWD", "RANDOM", "SECONDS", "SHELL", "SHLVL", "SRANDOM", "TERM", "UID", "USER",
})  # fmt: skip


class Function(NamedTuple):
    """A function of the shell, and the file that defines it."""

    body: ShellCommand
    path: str


class State:
    """A shell at one moment of a script.

    ``positional`` is None if the words that the script is called with are unknown. ``ended`` says why nothing after
    this moment runs: ``exit``, ``return``, ``break`` or ``continue``. ``given`` are the lines that are left of its
    input, the next one last, if that is known; ``unset`` are variables that the script has unset. If it
    ``exports_all``, each assignment exports, after ``set -a``.
    """

    __slots__ = (
        "cwd",
        "ended",
        "exported",
        "exports_all",
        "functions",
        "given",
        "positional",
        "unset",
        "variables",
    )

    def __init__(self, cwd: str) -> None:
        self.variables: dict[str, Value] = {}
        self.positional: list[str] | None = None
        self.functions: dict[str, Function] = {}
        self.exported: frozenset[str] = frozenset()
        self.cwd = cwd
        self.ended: str | None = None
        self.given: list[str] | None = None  # one list for all copies, as all read the same input
        self.unset: frozenset[str] = frozenset()
        self.exports_all = False

    def copy(self) -> State:
        """A shell that goes its own way from here, such as a subshell or a branch."""
        other = State(self.cwd)
        other.variables = {
            name: value if isinstance(value, str) else dict(value) for name, value in self.variables.items()
        }
        other.positional = None if self.positional is None else list(self.positional)
        other.functions = dict(self.functions)
        other.exported = self.exported
        other.ended = self.ended
        other.given = self.given
        other.unset = self.unset
        other.exports_all = self.exports_all
        return other

    def take(self, other: State) -> None:
        """Become another one."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def text(self, name: str) -> str | None:
        """The value of a variable as ``$NAME`` gives it; None if nothing sets it."""
        value = self.variables.get(name)
        return value.get(0, "") if isinstance(value, dict) else value


def merged(one: State, other: State, unknowns: Unknowns) -> State:
    """The state after a branch or without it: what differs is unknown."""
    if one.ended is not None:
        return other
    if other.ended is not None:
        return one
    result = one.copy()
    for name in {*one.variables, *other.variables}:
        values = one.variables.get(name), other.variables.get(name)
        if values[0] != values[1]:
            result.variables[name] = _alike(*values, unknowns.mark(name))
    if one.positional != other.positional:
        result.positional = None
    result.functions = {**other.functions, **one.functions}
    result.exported = one.exported | other.exported
    result.unset = one.unset & other.unset
    if one.cwd != other.cwd:
        result.cwd = unknowns.mark("PWD")
    return result


def _alike(one: Value | None, other: Value | None, mark: str) -> Value:
    """What two values have in common, with a mark for the words between."""
    if isinstance(one, str) and isinstance(other, str) and len(one) + len(other) < _LONGEST:
        left, right = _WORDS.findall(one), _WORDS.findall(other)
        start, end = _common(left, right)
        longer = max(left, right, key=len)[start:]
        between = longer[: len(longer) - end]
        if len(between) == abs(len(left) - len(right)):  # which one of them has in addition, apart from the others
            before, after = between[0] if between[0].isspace() else "", between[-1] if between[-1].isspace() else ""
            mark = f"{before if start else ''}{mark}{after if end else ''}"
        return "".join(left[:start]) + mark + "".join(left[len(left) - end :])
    if isinstance(one, dict) and isinstance(other, dict) and all(isinstance(key, int) for key in (*one, *other)):
        left, right = list(one.values()), list(other.values())
        start, end = _common(left, right)
        return dict(enumerate([*left[:start], mark, *left[len(left) - end :]]))
    return mark


def _common(one: list[str], other: list[str]) -> tuple[int, int]:
    """How many parts two texts have in common at their beginning, and how many of the others at their end."""
    most, start, end = min(len(one), len(other)), 0, 0
    while start < most and one[start] == other[start]:
        start += 1
    while end < most - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return start, end
