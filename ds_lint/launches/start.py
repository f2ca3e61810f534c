"""A command that starts something, and what is known beside its words."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from ds_lint.frameworks.record import Framework
    from ds_lint.launches.options import Parsed, SortedFlags
    from ds_lint.launches.word import UnknownWord, Word
    from ds_lint.source.slurm import Allocation

    # Gives the text of a file of the project, or None.
    ReadFile: TypeAlias = Callable[[str], str | None]


class Start(NamedTuple):
    """A command with its place: ``environment`` are exported variables, ``cwd`` a folder within the project.

    ``words`` are those of the command with ``--option=$VALUE`` as two, and ``details`` tells of the unknown ones.
    ``around`` is the command that it runs within, such as ``srun bash -c``, the outermost of several, and ``set_in``
    are the other files that set some of the variables.
    """

    path: str
    line: int
    command: list[Word]
    words: list[Word]
    details: list[UnknownWord | None]
    environment: dict[str, Word]
    cwd: str | None
    redirections: tuple[str, ...] = ()
    around: Outer | None = None
    cut_off: tuple[Word, ...] = ()
    set_in: tuple[tuple[str, str], ...] = ()


class Outer(NamedTuple):
    """The words of ``srun`` or ``mpirun`` around a launcher; ``details`` tells of the unknown ones.

    ``early`` are unknown variables of a text for a shell that the shell outside expands: ``srun bash -c "$NAME"``.
    """

    words: list[Word]
    details: list[UnknownWord | None]
    early: tuple[str, ...] = ()


NO_OUTER = Outer([], [])


class LauncherCall(NamedTuple):
    """A launcher as a command calls it.

    ``options`` are its own, and ``flags`` those of what it starts; ``framework`` is the one whose program it is, and
    ``outer`` the command of ``srun`` or ``mpirun`` around it.
    """

    options: Parsed
    flags: SortedFlags
    framework: Framework | None
    outer: Outer
    allocation: Allocation
    start: Start
    read: ReadFile

    def text_of(self, file: str) -> str | None:
        """The text of a file that the command names; None if it is not there."""
        cwd = self.start.cwd
        return self.read(posixpath.normpath(posixpath.join(cwd, file))) if cwd is not None else None
