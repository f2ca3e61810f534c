"""The releases that a notebook installs, with ``!pip``, ``%pip`` or in ``%%bash`` cells: the last counts."""

from __future__ import annotations

import os
import posixpath
import re

from ds_lint.source.notebook_format import read_notebook
from ds_lint.source.notebook_magics import cell_magic, magic_lines
from ds_lint.targets import requirements_file
from ds_lint.targets.combination import pins_of
from ds_lint.targets.pin import PinPlace
from ds_lint.targets.text import mentions_a_library, shown, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.notebook_cells import Notebook
    from ds_lint.targets.pin import Pin, Requirement

_INSTALL = re.compile(r"\bpip3?(?:\.exe)?\b[^\n]*\binstall\b")
_ONE_LINE = re.compile(r"\s*pip3?[ \t]+install\b[^\n]*\s*")  # which IPython takes for %pip where it is all of a cell
_PERCENT = re.compile(r"[!%]{1,2}[ \t]*")
# Options of pip whose value is something else than a requirement.
_WITH_VALUE = frozenset({
    "-b", "-C", "-f", "-i", "-t", "--cache-dir", "--config-settings", "--extra-index-url", "--find-links",
    "--global-option", "--implementation", "--index-url", "--log", "--no-binary", "--only-binary", "--platform",
    "--prefix", "--progress-bar", "--proxy", "--python-version", "--report", "--retries", "--root", "--src", "--target",
    "--timeout", "--trusted-host", "--upgrade-strategy",
})  # fmt: skip
_FILES = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")
_UPGRADES = ("-U", "--upgrade")


def pins_in(path: str) -> dict[str, Pin]:
    """The pin of each library that a notebook installs a release of."""
    text = text_of(path)
    if not _INSTALL.search(text) or not (mentions_a_library(text) or "-r" in text):
        return {}
    notebook = read_notebook(text)
    found: dict[str, Pin] = {}
    if notebook is None or not notebook.is_python:
        return found
    for line, script in _scripts(notebook):
        for install, at in _installs(script):
            cell, inside = notebook.cell_line(line + at)
            place = PinPlace(shown(path), within=f"cell {cell}:{inside}")
            requirements = [one for word in _required(install) for one in _of_word(word, place, path)]
            for pin in pins_of(requirements):
                found[pin.library] = pin
            if not set(install).isdisjoint(_UPGRADES):
                for one in requirements:
                    if not (one.specifier or one.is_address):
                        found.pop(one.library, None)
    return found


def _scripts(notebook: Notebook) -> Iterator[tuple[int, str]]:
    """What the cells give to a shell that may install something, each with the line that it starts at."""
    for cell in notebook.cells:
        if not _INSTALL.search(cell.source):
            continue
        magic, first = cell_magic(cell.source), notebook.line_at(cell.start)
        if magic is not None and magic.is_shell:
            yield first + cell.source.count("\n", 0, magic.body), cell.source[magic.body :]
        elif magic is None and _ONE_LINE.fullmatch(cell.source):
            yield first, cell.source
        elif magic is None:
            for line in magic_lines(cell.source):
                yield first + cell.source.count("\n", 0, line.start), _PERCENT.sub("", line.text, count=1)


def _installs(script: str) -> Iterator[tuple[list[str], int]]:
    """The words behind each ``pip install`` of a script, and how many lines below its start that is."""
    from ds_lint.source.shell.interpreter import follow  # which takes a parser of the shell
    from ds_lint.source.shell.unknowns import is_known

    for program in follow(script, "").started:
        names = [posixpath.basename(word) for word in program.words[:5]]
        at = next((number for number, name in enumerate(names) if name in ("pip", "pip3")), None)
        words = program.words[at + 1 :] if at is not None else []
        while words and words[0].startswith("-"):
            words = words[1:]
        if words and words[0] == "install":
            yield [word if is_known(word) else "" for word in words[1:]], program.line - 1


def _required(words: list[str]) -> Iterator[str]:
    """The requirements among the words, and the files of requirements, each as a line of such a file."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word in _WITH_VALUE:
            del left[:1]
        elif word in _FILES:
            yield f"{word} {left.pop(0)}" if left else ""
        elif word.startswith(("-r", "-c", "--requirement=", "--constraint=")) or not word.startswith("-"):
            yield word


def _of_word(word: str, place: PinPlace, path: str) -> Iterator[Requirement]:
    return requirements_file.of_line(word, place, os.path.abspath(path))
