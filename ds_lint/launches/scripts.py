"""The launches of a text in the language of a shell, wherever it stands: a script, a recipe, a step of a workflow."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.container import of_command
from ds_lint.launches.invocation import launch
from ds_lint.launches.launch import Launch
from ds_lint.launches.launchers import by_module, by_program
from ds_lint.launches.start import Outer, Start
from ds_lint.launches.word import UnknownWord
from ds_lint.source.project_texts import ProjectTexts
from ds_lint.source.shell.interpreter import follow
from ds_lint.source.shell.runners import PARALLEL, SHELLS, called_script
from ds_lint.source.shell.unknowns import around_marks, is_known
from ds_lint.source.slurm import allocation, with_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ds_lint.launches.container import Container
    from ds_lint.launches.word import Word
    from ds_lint.source.notebook_cells import Notebook
    from ds_lint.source.shell.interpreter import Around
    from ds_lint.source.shell.unknowns import StandIns, Unknowns
    from ds_lint.source.slurm import Allocation

_CALLS = re.compile(r"\.(?:sh|bash|slurm|sbatch)\b|\.py\b.*deepspeed")
_SHORT = 3  # letters of a name that other words may have in them
_WRITES = re.compile(r">|\btee\b")
_MARKS = re.compile(
    "|".join(
        rf"\b{name}\b" if len(name) <= _SHORT else re.escape(name) for name in ("python", *by_program(), *by_module())
    )
)


class WrittenConfig(NamedTuple):
    """A file that a script writes, as a path within the project, and the lines of the script that do.

    ``written_at`` is the line at which it does, if these lines, such as a dict, stand elsewhere. ``is_whole`` says that
    the lines are the text of the file, and ``is_added`` that they go to its end.
    """

    place: str
    line: int
    end_line: int
    written_at: int | None = None
    is_whole: bool = False
    is_added: bool = False

    @property
    def since(self) -> int:
        """The line behind which the file is there."""
        return self.line if self.written_at is None else self.written_at


class Launches(NamedTuple):
    """The launches of one file. ``misread`` are lines that the parser does not understand.

    ``written`` are the files that a shell script or a notebook writes itself. The lines are those of the cells of the
    ``notebook``, if it is one.
    """

    launches: list[Launch]
    misread: list[int]
    written: tuple[WrittenConfig, ...] = ()
    notebook: Notebook | None = None

    def within(self, container: Container) -> Launches:
        """The same in a container."""
        return self._replace(launches=[one.within(container) for one in self.launches])

    def moved(self, lines: int, path: str) -> Launches:
        """The same for a text that starts so many lines further down its file, which may call others."""
        moved = [one._replace(line=one.line + (lines if one.path == path else 0)) for one in self.launches]
        written = [one._replace(line=one.line + lines, end_line=one.end_line + lines) for one in self.written]
        return Launches(moved, [line + lines for line in self.misread], tuple(written))


NO_LAUNCHES = Launches([], [])


def may_launch(text: str) -> bool:
    """Whether a text has the word of a launcher, or a script that it may call; else it launches nothing."""
    return _MARKS.search(text) is not None or _CALLS.search(text) is not None


def joined(parts: list[Launches]) -> Launches:
    """The launches of the parts of a file."""
    return Launches([one for part in parts for one in part.launches], [line for part in parts for line in part.misread])


def launches_in(
    text: str,
    path: str,
    read: Callable[[str], str | None],
    *,
    variables: dict[str, str | None] | None = None,
    stand_ins: StandIns | None = None,
    may_write: bool = False,
) -> Launches:
    """The launches of a script.

    ``read`` gives the text of another file of the project, or None. ``variables`` are in the environment;
    ``stand_ins`` are in the text for what another language computes. A script that launches nothing is read all the
    same if it ``may_write`` files for others.
    """
    if not may_launch(text) and not (may_write and _WRITES.search(text)):
        return NO_LAUNCHES
    job = allocation(text)
    followed = follow(text, path, read, {**job.variables, **(variables or {})}, stand_ins, may_launch)
    found = list[Launch]()
    for started in followed.started:
        cwd = followed.unknowns.path(started.cwd)
        named = [_of_project(word, followed.unknowns, read, cwd) for word in started.words]
        command = _known(named)
        environment = {name: value if is_known(value) else None for name, value in started.environment.items()}
        names = [unknown.name for word in named for unknown in followed.unknowns.of(word)]
        words, details = _parted(named, followed.unknowns)
        start = Start(
            started.path,
            started.line,
            command,
            words,
            details,
            environment,
            cwd,
            started.redirections,
            _outer(started.around, followed.unknowns),
            tuple(_known(started.cut_off)),
            started.set_in,
        )
        one = launch(start, list(dict.fromkeys(names)), _job(job, started.around), read)
        if one is not None:
            around = next((words for words, _ in started.around if _parallel(words) is not None), ())
            commands = (command, *(_known(words) for words, _ in started.around))
            container = next(filter(None, map(of_command, commands)), None)
            found.append(one._replace(around=tuple(_known(around))).within(container))
    written = [
        WrittenConfig(posixpath.normpath(posixpath.join(cwd, one.name)), one.line, one.end_line)
        for one in followed.written
        if one.path == path and is_known(one.name) and (cwd := followed.unknowns.path(one.cwd)) is not None
    ]
    return Launches(found, followed.misread, tuple(written))


def _known(words: Sequence[str]) -> list[Word]:
    """Words, with None for each that is not known."""
    return [word if is_known(word) else None for word in words]


def _of_project(word: str, unknowns: Unknowns, read: Callable[[str], str | None], cwd: str | None) -> str:
    """A word as the path of the file that it names from the folder of the script, as in ``$(dirname "$0")/ds.json``.

    It stays as it is if the project does not have exactly that file.
    """
    if is_known(word) or not isinstance(read, ProjectTexts):
        return word
    option, sign, value = word.partition("=") if word.startswith("-") else ("", "", word)
    path = unknowns.path(value) if is_known(option) else None
    place = posixpath.normpath(path) if path is not None else None
    if place is None or read.place(place) != place:
        return word
    return option + sign + (posixpath.relpath(place, cwd) if cwd else place)


def _outer(around: Sequence[Around], unknowns: Unknowns) -> Outer | None:
    """The command of ``srun`` or ``mpirun`` that a command runs within, up to the shell or script that it starts."""
    for words in (one.words for one in reversed(around)):
        begin = _parallel(words)
        if begin is not None:
            end = called_script(list(words[begin:])) or len(words)
            shell = (at for at, word in enumerate(words) if posixpath.basename(word) in SHELLS)
            end = min(next(shell, len(words)), begin + end)
            handed = (detail for detail in _parted(list(words[end:]), unknowns)[1] if detail is not None)
            whole = " ".join(words[end:])  # in which a name may also be written, for the shell within
            expanded = tuple(name for detail in handed for name in detail.names if name not in whole)
            return Outer(*_parted(list(words[begin:end]), unknowns), expanded)
    return None


def _parallel(words: Sequence[str]) -> int | None:
    """Where ``srun`` or ``mpirun`` is in a command; None if it is not."""
    return next((at for at, word in enumerate(words) if posixpath.basename(word) in PARALLEL), None)


def _job(job: Allocation, around: Sequence[Around]) -> Allocation:
    """The job that a command is in: that of its script, or one that the script submits."""
    for words, text in around:
        if posixpath.basename(words[0]) == "sbatch":
            job = with_options(allocation(text), words[1:])
    return job


def _parted(words: list[str], unknowns: Unknowns) -> tuple[list[Word], list[UnknownWord | None]]:
    """The words of a command with ``--option=$VALUE`` as two of them, and what is known of the unknown ones."""
    found: list[tuple[Word, UnknownWord | None]] = []
    for word in words:
        if is_known(word):
            found.append((word, None))
            continue
        start, end = around_marks(word)
        unknown = UnknownWord(tuple(dict.fromkeys(part.name for part in unknowns.of(word))), start, end)
        pair = unknown.cut()
        found += [(None, unknown)] if pair is None else [(pair[0], None), (None, pair[1])]
    return [word for word, _ in found], [detail for _, detail in found]
