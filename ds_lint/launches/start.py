"""A command that starts something, and what is known beside its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.frameworks.record import Framework
    from ds_lint.launches.options import Parsed, SortedFlags
    from ds_lint.launches.slurm import Allocation
    from ds_lint.launches.word import UnknownWord, Word


class Around(NamedTuple):
    """What a launch is read with, beside its words: ``read`` gives the text of a file of the project, or None."""

    read: Callable[[str], str | None]
    allocation: Allocation


class Start(NamedTuple):
    """A command with its place: ``environment`` are exported variables, ``cwd`` a folder within the project.

    ``words`` are those of the command with ``--option=$VALUE`` as two, and ``details`` tells of the unknown ones.
    """

    path: str
    line: int
    command: list[Word]
    words: list[Word]
    details: list[UnknownWord | None]
    environment: dict[str, Word]
    cwd: str | None
    redirections: tuple[str, ...] = ()


class LauncherCall(NamedTuple):
    """A launcher as a command calls it.

    ``options`` are its own, and ``flags`` those of what it starts; ``framework`` is the one whose program it is, and
    ``outer`` the command of ``srun`` or ``mpirun`` around it.
    """

    options: Parsed
    flags: SortedFlags
    framework: Framework | None
    outer: list[Word]
    allocation: Allocation
    start: Start
    read: Callable[[str], str | None]
