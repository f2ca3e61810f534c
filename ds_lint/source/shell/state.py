"""What the shell has at one moment: variables, positional parameters, functions, the current folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ds_lint.source.shell.syntax import ShellCommand
    from ds_lint.source.shell.unknowns import Unknowns

    Array = dict[int | str, str]
    Value = str | Array

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
    this moment runs: ``exit``, ``return``, ``break`` or ``continue``. ``set_in`` are the files that set variables,
    and with ``exports_all`` each variable that is set is exported.
    """

    __slots__ = ("cwd", "ended", "exported", "exports_all", "functions", "positional", "set_in", "variables")

    def __init__(self, cwd: str) -> None:
        self.variables: dict[str, Value] = {}
        self.set_in: dict[str, str] = {}
        self.positional: list[str] | None = None
        self.functions: dict[str, Function] = {}
        self.exported: frozenset[str] = frozenset()
        self.exports_all = False
        self.cwd = cwd
        self.ended: str | None = None

    def copy(self) -> State:
        """A shell that goes its own way from here, such as a subshell or a branch."""
        other = State(self.cwd)
        other.variables = {
            name: value if isinstance(value, str) else dict(value) for name, value in self.variables.items()
        }
        other.set_in = dict(self.set_in)
        other.positional = None if self.positional is None else list(self.positional)
        other.functions = dict(self.functions)
        other.exported, other.exports_all = self.exported, self.exports_all
        other.ended = self.ended
        return other

    def take(self, other: State) -> None:
        """Become another one."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def note_set(self, name: str, path: str) -> None:
        """Note that a file sets a variable."""
        self.set_in[name] = path
        if self.exports_all:
            self.exported |= {name}

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
        if one.variables.get(name) != other.variables.get(name):
            result.variables[name] = unknowns.mark(name)
    if one.positional != other.positional:
        result.positional = None
    result.functions = {**other.functions, **one.functions}
    result.set_in = {**other.set_in, **one.set_in}
    result.exported = one.exported | other.exported
    if one.cwd != other.cwd:
        result.cwd = unknowns.mark("PWD")
    return result
