"""The launches of a project: what starts training in its scripts, and with which words."""

from __future__ import annotations

import os
import re
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from ds_lint.launches import files as kinds
from ds_lint.launches.flag_config import MARKS
from ds_lint.launches.scripts import may_launch
from ds_lint.project.discovery import candidates
from ds_lint.project.globs import relative
from ds_lint.project.references import located
from ds_lint.source.files import ON_DISK
from ds_lint.source.notebook_cells import shown_line
from ds_lint.source.project_texts import ProjectTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ds_lint.launches.launch import Launch
    from ds_lint.launches.notebook_kernel import NotebookReading
    from ds_lint.launches.scripts import WrittenConfig
    from ds_lint.project.discovery import LeavesOut
    from ds_lint.source.files import Files
    from ds_lint.source.notebook_cells import Notebook

_Result = TypeVar("_Result")
_MOST_BYTES = 500_000  # of a script; the longest of 500 public ones has 30,000
_YAML = (".yml", ".yaml")
NOTEBOOK = ".ipynb"
_FEW_NAMES = 50  # which are looked for one by one
_NAME = re.compile(rb"[\w.\-]+")
SUBMITTED = "#SBATCH"  # which a script has that is meant to be submitted by itself, whatever calls it
_TAKE_RECIPES = (b"parse_json_file", b"parse_yaml_file")  # which name the file that names the config
_NAMES_CONFIG = b"deepspeed"  # which a YAML has that names a DeepSpeed config


class LaunchFile(NamedTuple):
    """A file that launches training, with its path in the project; ``misread`` are lines that the parser rejects.

    ``written`` are the files that it writes itself. Of a ``notebook`` the text is that of its cells.
    """

    path: str
    text: str
    launches: list[Launch]
    misread: list[int]
    written: tuple[WrittenConfig, ...] = ()
    notebook: Notebook | None = None

    def place(self, line: int) -> str:
        """A line in words, in a notebook with the cell: ``run.sh:3``, ``train.ipynb:cell 2:3``."""
        return f"{self.path}:{shown_line(line, self.notebook)}"

    def place_of(self, launch: Launch) -> str:
        """The place of a launch, which may be in a file that this one sources."""
        return self.place(launch.line) if launch.path == self.path else f"{launch.path}:{launch.line}"


class UnlessItFails(Protocol):
    """Does work on a file; None if ds-lint itself fails on it, which must not hide what is found in other files."""

    def __call__(self, work: Callable[[], _Result], path: str, /) -> _Result | None:
        """The result of the work."""


def at_once(work: Callable[[], _Result], _path: str) -> _Result:
    """Work of which a failure ends the run."""
    return work()


class Naming(NamedTuple):
    """The files that name a config: scripts, and YAML that may be recipes."""

    scripts: list[str]
    yamls: list[str]


def launch_files(
    directory: str,
    on_error: Callable[[OSError], None],
    *,
    leaves_out: LeavesOut,
    respects_gitignore: bool = False,
    includes_documentation: bool = False,
    unless_it_fails: UnlessItFails = at_once,
) -> Iterator[LaunchFile]:
    """The files below a directory that launch training, and the guides that show how, if they are wanted."""
    files = []
    wants = _may_show_launches if includes_documentation else may_be_script
    for path in _below(directory, on_error, wants, leaves_out, respects_gitignore=respects_gitignore):
        found = unless_it_fails(lambda: read_launches(path, directory), path)  # noqa: B023 - called at once
        if found is not None:
            files.append(found)
    return as_called(files)


def as_called(files: list[LaunchFile]) -> Iterator[LaunchFile]:
    """The files without the launches of scripts that another one calls, which are there as it calls them."""
    called = {launch.path for file in files for launch in file.launches if launch.path != file.path}
    for file in files:
        is_called = file.path in called and SUBMITTED not in file.text
        kept = [one for one in file.launches if one.path != file.path] if is_called else file.launches
        if kept or file.misread:
            yield file._replace(launches=kept)


def scripts_below(directory: str, most: int, *, leaves_out: LeavesOut, respects_gitignore: bool = False) -> list[str]:
    """So many of the scripts below a directory, without Python and notebooks, which hardly ever launch anything."""
    found = _below(directory, lambda _: None, _is_script, leaves_out, respects_gitignore=respects_gitignore)
    return list(islice(found, most))


def scripts_with_flags(directory: str, leaves_out: LeavesOut, respects_gitignore: bool) -> Iterator[str]:
    """The scripts and notebooks below a directory of which a command may make a DeepSpeed config of its flags."""
    found = _below(
        directory,
        lambda _: None,
        may_be_script,
        leaves_out,
        respects_gitignore=respects_gitignore,
    )
    for path in found:
        if may_have_flags(path):
            yield path


def may_have_flags(path: str) -> bool:
    """Whether a command of a script or a notebook may make a DeepSpeed config of its flags."""
    if path.endswith(".py") or not may_be_script(path):
        return False
    data = data_of(path)
    return data is not None and any(mark in data for mark in MARKS)


def modules_naming(
    directory: str, names: Iterable[str], most: int, *, leaves_out: LeavesOut, respects_gitignore: bool = False
) -> Iterator[str]:
    """The modules and notebooks below a directory with the word of DeepSpeed that have one of these, or parse files."""
    sought = {os.fsencode(name) for name in names}
    found = _below(directory, lambda _: None, _is_module, leaves_out, respects_gitignore=respects_gitignore)
    for path in islice(found, most) if sought else ():
        data = data_of(path, ON_DISK)
        if data is None:
            continue
        if (_has(data, sought) and _NAMES_CONFIG in data.lower()) or any(call in data for call in _TAKE_RECIPES):
            yield path


def _is_module(name: str) -> bool:
    return name.endswith((".py", NOTEBOOK))


def naming(paths: Iterable[str], names: Iterable[str], files: Files = ON_DISK) -> Naming:
    """Which of these files have one of these words, or the name of a YAML that has one."""
    sought = {os.fsencode(name) for name in names}
    yamls: list[str] = []
    scripts: list[tuple[str, bytes]] = []
    for path in paths:
        data = data_of(path, files)
        if data is None:
            continue
        if path.endswith(_YAML) and kinds.kind_of(path, data) is None:
            if _NAMES_CONFIG in data and _has(data, sought):
                yamls.append(path)
        else:
            scripts.append((path, data))
    sought.update(os.fsencode(os.path.basename(path)) for path in yamls)
    found = [path for path, data in scripts if _has(data, sought)]
    called = {os.fsencode(os.path.basename(path)) for path in found if path.endswith(kinds.SHELL)}
    if called:  # by others, which may export what counts there
        found = [path for path, data in scripts if _has(data, sought) or _has(data, called)]
    return Naming(found, yamls)


def _has(data: bytes, names: set[bytes]) -> bool:
    if len(names) <= _FEW_NAMES:
        return any(name in data for name in names)
    return not names.isdisjoint(_NAME.findall(data))


def read_launches(path: str, directory: str, files: Files = ON_DISK) -> LaunchFile | None:
    """The launches in one file of a project; None if it has none."""
    data = data_of(path, files)
    kind = kinds.kind_of(path, data) if data is not None else None
    if data is None or kind is None:
        return None
    place = relative(path, directory)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if not may_launch(text):
        return None
    found = kinds.launches(text, place, kind, _reader(place, directory, files))
    if not (found.launches or found.misread):
        return None
    whole = text if found.notebook is None else found.notebook.text
    return LaunchFile(place, whole, found.launches, found.misread, found.written, found.notebook)


def read_notebook(path: str, directory: str, files: Files = ON_DISK) -> NotebookReading | None:
    """What a notebook of a project does; None for any other file."""
    text = text_of(path, files)
    if text is None or not path.endswith(NOTEBOOK):
        return None
    from ds_lint.launches.notebook import reading  # few projects have one

    place = relative(path, directory)
    return reading(text.replace("\r\n", "\n"), place, _reader(place, directory, files))


def text_of(path: str, files: Files = ON_DISK) -> str | None:
    """The text of a script; None if it cannot be read."""
    data = data_of(path, files)
    return None if data is None else data.decode("utf-8", "replace")


def data_of(path: str, files: Files = ON_DISK) -> bytes | None:
    """The bytes of a script; None if it cannot be read."""
    try:
        return files.bytes_of(path, _MOST_BYTES)
    except OSError:
        return None


def _below(
    directory: str,
    on_error: Callable[[OSError], None],
    wants: Callable[[str], bool],
    leaves_out: LeavesOut,
    *,
    respects_gitignore: bool,
) -> Iterator[str]:
    """The files below a directory, and the workflows, which are hidden and so not searched."""
    workflows = os.path.join(directory, ".github", "workflows")
    return chain.from_iterable(
        candidates(start, on_error, leaves_out=leaves_out, respects_gitignore=respects_gitignore, wants=wants)
        for start in (directory, workflows)
        if start is directory or os.path.isdir(workflows)
    )


def _is_script(name: str) -> bool:
    return may_be_script(name) and not name.endswith((".py", NOTEBOOK))


def _may_show_launches(name: str) -> bool:
    return may_be_script(name) or name.lower().endswith(kinds.DOCUMENTATION)


def may_be_script(name: str) -> bool:
    """Whether a file may launch something, by its name."""
    lower = name.lower()
    if lower in kinds.FILES_OF_TASKS:
        return True
    return lower.endswith(kinds.ENDINGS) or "." not in name or lower.startswith(("dockerfile", "containerfile"))


def _reader(script: str, directory: str, files: Files) -> ProjectTexts:
    """What reads the files that a script names in the project."""

    def path_of(name: str) -> str | None:
        path = located(name, script, root=directory, is_there=files.has)
        return None if os.path.isabs(name) else path

    def text(name: str) -> str | None:
        path = path_of(name)
        return None if path is None else text_of(path, files)

    def place(name: str) -> str | None:
        path = path_of(name)
        return None if path is None else relative(path, directory)

    return ProjectTexts(place, text)
