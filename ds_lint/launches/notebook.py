"""What a notebook starts and writes beside its Python, in which folder and with which variables of the environment.

The cells run from the first to the last, as in a module. A command sees what ``%cd``, ``%env``, ``os.chdir`` and
``os.environ`` set before it.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from ds_lint.launches.launchers import by_module, by_program
from ds_lint.launches.notebook_kernel import NotebookReading, environment_at, in_home
from ds_lint.launches.notebook_python import EnvironmentChange, FileWrite, FolderChange, ProgramStart, steps
from ds_lint.launches.python import StartedCommand, commands
from ds_lint.launches.scripts import NO_LAUNCHES, Launches, WrittenConfig, launches_in
from ds_lint.source.notebook_format import read_notebook
from ds_lint.source.notebook_magics import cell_magic, magic_lines, parsed_python, python_of
from ds_lint.source.shell.unknowns import StandIns

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.launches.launch import Launch
    from ds_lint.launches.notebook_python import PythonSteps
    from ds_lint.source.notebook_cells import Cell, Notebook

_VALUE = re.compile(r"\{([A-Za-z_][\w.\[\]'\"]*)\}")
_VARIABLE = re.compile(r"(?<![\\$])\$([A-Za-z_]\w*)")
_OF_SHELL = re.compile(r"\$\{(\w+)")  # which is an error in Python's eyes, so that IPython fills in nothing
_LINE_MAGIC = re.compile(r"(!{1,2}|%)[ \t]*(\w*)[ \t]*(.*)", re.DOTALL)
_SHELL_MAGICS = ("sx", "system", "sh")
_PROGRAMS = ("pip", "pip3", "python", "conda")  # magics that are programs, too
# What the first command of a cell is that is a script of the shell without a magic.
_COMMANDS = frozenset({
    "bash", "cat", "cd", "conda", "cp", "echo", "export", "find", "git", "ls", "mkdir", "mv", "pip", "pip3", "python",
    "python3", "rm", "sbatch", "sh", "source", "unzip", "wget", "curl", *by_program(), *by_module(),
})  # fmt: skip
_ONE_FOLDER = re.compile(r"\s*cd[ \t]+([^\n;&|]+)\s*")
_FIRST_WORD = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*(?:[A-Za-z_]\w*=\S*[ \t]+)*([\w./-]+)(?=\s)")


def launches(text: str, path: str, read: Callable[[str], str | None]) -> Launches:
    """The launches of the code cells; their lines are those of the text that all cells make."""
    found = reading(text, path, read)
    return NO_LAUNCHES if found is None else Launches(found.launches, found.misread, found.written, found.notebook)


def reading(text: str, path: str, read: Callable[[str], str | None]) -> NotebookReading | None:
    """What a notebook in Python does; None for any other text."""
    notebook = read_notebook(text)
    if notebook is None or not notebook.is_python:
        return None
    python = python_of(notebook)
    return _CellReader(notebook, path, python, steps(python), read).read_cells()


class _CellReader:
    def __init__(
        self, notebook: Notebook, path: str, python: str, does: PythonSteps, read: Callable[[str], str | None]
    ) -> None:
        self.notebook = notebook
        self.path = path
        self.python = python
        self.does = does
        self.commands = commands(python, path)
        self.of_project = read
        self.cwd: str | None = "."
        self.changes: list[EnvironmentChange] = []
        self.written: list[WrittenConfig] = []
        self.texts: dict[str, str] = {}  # of files that cells write, by their paths
        self.launches: list[Launch] = []
        self.misread: list[int] = []

    def read_cells(self) -> NotebookReading:
        for cell in self.notebook.cells:
            self.read_cell(cell)
        changes = tuple(sorted(self.changes, key=lambda change: change.line))
        return NotebookReading(self.notebook, self.python, self.launches, self.misread, tuple(self.written), changes)

    def read_cell(self, cell: Cell) -> None:
        magic = cell_magic(cell.source)
        if magic is not None and magic.is_shell:
            self.shell(cell.source[magic.body :], self.line(cell.start + magic.body), is_python=magic.name != "bash")
        elif magic is not None and magic.writes is not None:
            self.write(magic.writes, cell, magic.body, is_added=magic.is_added)
        elif magic is None and (folder := _ONE_FOLDER.fullmatch(cell.source)) is not None:
            self.change_folder(folder[1], self.line(cell.start))  # as %cd
        elif magic is None and (parsed_python(cell.source) is not None or not _is_shell(cell.source)):
            self.python_cell(cell)
        elif magic is None:
            self.shell(cell.source, self.line(cell.start), is_python=False)

    def python_cell(self, cell: Cell) -> None:
        first, last = self.line(cell.start), self.line(cell.start + len(cell.source))
        lines = [(self.line(cell.start + one.start), one.text) for one in magic_lines(cell.source)]
        here = [step for step in self.does.steps if first <= step.line <= last]
        started = [(one.line, one) for one in self.commands if first <= one.line <= last]
        for line, step in sorted([*lines, *((step.line, step) for step in here), *started], key=lambda one: one[0]):
            if isinstance(step, str):
                self.magic(step, line)
            elif isinstance(step, EnvironmentChange):
                self.changes.append(step)
            elif isinstance(step, FolderChange):
                self.go(step.folder)
            elif isinstance(step, FileWrite):
                place = self.place(step.name)
                if place is not None:
                    found = WrittenConfig(place, step.value_line, step.value_end_line, line)
                    self.written.append(found._replace(is_whole=step.text is not None))
                    self.texts.pop(place, None)
                    if step.text is not None:
                        self.texts[place] = step.text
            elif isinstance(step, StartedCommand):
                self.shell(step.script, line, is_python=False, stand_ins=step.stand_ins)
            elif isinstance(step, ProgramStart):
                self.shell(step.command, line, is_python=False)

    def magic(self, text: str, line: int) -> None:
        """A line with ``!`` or ``%``."""
        match = _LINE_MAGIC.match(text)
        assert match is not None  # noqa: S101 - it begins with one of them
        sign, name, rest = match.groups()
        if sign != "%":
            self.shell(text[len(sign) :], line)
        elif name in _SHELL_MAGICS:
            self.shell(rest, line)
        elif name in _PROGRAMS:
            self.shell(f"{name} {rest}", line)
        elif name == "cd":
            self.change_folder(rest, line)
        elif name in ("env", "set_env"):
            variable, sign, value = rest.partition("=" if "=" in rest else " ")
            if sign and variable.strip().isidentifier():
                self.changes.append(EnvironmentChange(line, variable.strip(), self.filled(value.strip(), line)))
        elif name == "run":  # in the process of the notebook, of which nothing is known then
            self.shell(f"python {rest}", line)
            self.changes.append(EnvironmentChange(line, None, None))

    def change_folder(self, rest: str, line: int) -> None:
        """What is behind ``%cd``: options and a path, all of it, for which a comment is a part of the name."""
        folder = " ".join(word for word in rest.split() if word not in ("-q", "-b")).strip("'\"")
        if "#" not in folder:
            self.go(self.filled(folder, line))

    def filled(self, text: str, line: int) -> str | None:
        """A text with the values that IPython puts into it; None if one of them is not known."""
        if "$" in text or "{" in text:
            text = _VALUE.sub(lambda value: self.does.constant(value[1], line) or value[0], text)
        return None if "$" in text or "{" in text else text

    def shell(self, text: str, line: int, *, is_python: bool = True, stand_ins: StandIns | None = None) -> None:
        """The launches of a script that starts at a line; IPython fills in its ``{values}`` unless a magic gets it."""
        stand_ins = stand_ins or StandIns()
        if is_python and not any(not self.does.has(name) for name in _OF_SHELL.findall(text)):
            text = _VALUE.sub(lambda value: self.does.constant(value[1], line) or stand_ins.add(value[1]), text)
            text = _VARIABLE.sub(lambda name: self.variable(name, line, stand_ins), text)
        found = launches_in(
            text, self.path, self.text_at, variables=self.at(line), stand_ins=stand_ins, may_write=True
        ).moved(line - 1, self.path)
        for one in found.launches:
            self.launches.append(one._replace(cwd=self.place(one.cwd) if one.cwd is not None else None))
        self.misread += found.misread
        for file in found.written:
            if (place := self.place(file.place)) is not None:
                self.written.append(file._replace(place=place))

    def variable(self, name: re.Match[str], line: int, stand_ins: StandIns) -> str:
        """What IPython puts in the place of ``$name``, which the shell gets as it is if Python has no such name."""
        if not self.does.has(name[1]):
            return name[0]
        return self.does.constant(name[1], line) or stand_ins.add(name[1])

    def at(self, line: int) -> dict[str, str | None]:
        """The variables that a command at a line finds in its environment."""
        return environment_at(line, self.changes).variables

    def write(self, name: str, cell: Cell, body: int, *, is_added: bool) -> None:
        """A cell that becomes a file."""
        filled = self.filled(name, self.line(cell.start))
        place = self.place(filled) if filled is not None else None
        if place is None:
            return
        first, last = self.line(cell.start + body), self.line(cell.start + len(cell.source))
        self.written.append(WrittenConfig(place, first, last, is_whole=True, is_added=is_added))
        before = self.texts.get(place, "") if is_added else ""
        self.texts[place] = before + cell.source[body:] + "\n"

    def text_at(self, name: str) -> str | None:
        """The text of a file of the project, or of one that a cell has written."""
        place = self.place(name)
        if place is None:
            return None
        return self.texts[place] if place in self.texts else self.of_project(place)

    def go(self, folder: str | None) -> None:
        """The folder that the notebook goes to."""
        self.cwd = None if folder is None or folder.startswith("~") else self.place(folder)

    def place(self, name: str) -> str | None:
        """A path as one from where the notebook starts; None if the folder is not known."""
        if posixpath.isabs(name):
            return posixpath.normpath(in_home(name))
        return None if self.cwd is None else posixpath.normpath(posixpath.join(self.cwd, name))

    def line(self, offset: int) -> int:
        """The line of a place in the text of all cells."""
        return self.notebook.line_at(offset)


def _is_shell(source: str) -> bool:
    """Whether a cell that Python does not parse is a script of the shell, by its first command."""
    match = _FIRST_WORD.match(source)
    return match is not None and posixpath.basename(match[1]) in _COMMANDS
