"""Which of the files that a launch or a script names are not in the project, and that nothing there creates.

The folder in which a launch starts is not known. A name leads nowhere if no folder from that of the launch up to the
root of the project has it, and no folder with scripts has all that the launch names. What git ignores, what a submodule
has and what any file of the project may make is not missed, nor is a script where the project has no Python at all.
"""

from __future__ import annotations

import posixpath
import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.project.made_files import DOCUMENTATION, SoughtFile, brings_files, has_name, may_make
from ds_lint.source.languages import JSON, YAML

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.launches.named_files import NamedFile
    from ds_lint.project.tree import ProjectTree
    from ds_lint.source.absent_name import Role

_NO_NAME = re.compile(r"[<>{}$*?%\s\\]|://|^~")  # of what is filled in, or lies elsewhere
_STARTING = (".bash", ".ipynb", ".job", ".mk", ".py", ".sbatch", ".sh", ".slurm")
_ENDINGS: dict[Role, tuple[str, ...]] = {
    "config": JSON,
    "script": (".py",),
    "accelerate": YAML,
    "recipe": YAML,
    "hostfile": ("",),
}
_PYTHON = (".py",)
_CLOSE = 0.6  # of difflib's ratio
_BESIDE = 0.05  # more for a file in the folder of the name
_WORD = re.compile(r"[\w.-]+")
_MAKES_FOLDER = re.compile(r"\b(?:mkdir|makedirs|install[ \t]+-d|ln|cp[ \t]+-\w*[ra]|mv)\b[^\n;&|]*")


class AbsentFile(NamedTuple):
    """A file that is not there, and the name that may be meant, "" if there is none."""

    named: NamedFile
    nearest: str


class NamedTogether(NamedTuple):
    """What one launch or script names: ``by`` is the path from the root of the project of the file that has the names.

    ``cwd`` is the folder that the script has changed to. A name that ``is_shipped`` may be one of the files of the
    framework that the launch starts, whose repository it may run in.
    """

    by: str
    cwd: str
    files: Sequence[NamedFile]
    may_be_shipped: bool = False


def absent_files(naming: NamedTogether, tree: ProjectTree) -> Iterator[AbsentFile]:
    """The files that are not in the project."""
    files = [one for one in naming.files if _NO_NAME.search(one.name) is None and not _lies_elsewhere(one.name, tree)]
    folders = [*_folders_above(naming.by), *tree.above]
    bases = [posixpath.normpath(posixpath.join(folder, naming.cwd)) for folder in folders]
    if posixpath.isabs(naming.cwd) or "{{" in naming.by or not any(tree.has(base) for base in bases):
        return
    missing = [one for one in files if not any(tree.has(place) for place in _places(one.name, bases, tree))]
    if not missing or not tree.is_whole or _may_start_elsewhere(files, naming.cwd, tree):
        return
    if missing == files and _is_of_other_project(files, bases, tree):
        return
    if tree.any_text(_calls_among_more, posixpath.basename(naming.by)):
        return
    start = max(bases, key=lambda base: sum(tree.has(posixpath.join(base, one.name)) for one in files))
    for one in missing:
        places = [place for place in _places(one.name, bases, tree) if not place.startswith("..")]
        if places and not _is_made(one, places, naming, tree):
            yield AbsentFile(one, one.meant or _nearest(one, places, start, tree))


def _calls_among_more(path: str, text: str, script: str) -> bool:
    """Whether another file that brings files has the name of a script, which it may start among them."""
    is_other = posixpath.basename(path) != script and not path.endswith(DOCUMENTATION)
    return is_other and script in text and brings_files(text)


def _folders_above(place: str) -> list[str]:
    """The folder of a file and those above it, up to the root."""
    folders = [posixpath.dirname(place)]
    while folders[-1]:
        folders.append(posixpath.dirname(folders[-1]))
    return folders


def _lies_elsewhere(name: str, tree: ProjectTree) -> bool:
    return posixpath.isabs(name) and tree.place_of(name) is None


def _places(name: str, bases: Sequence[str], tree: ProjectTree) -> list[str]:
    """Where a name may lead, from the root of the project."""
    if posixpath.isabs(name):
        return [tree.place_of(name) or name]
    return list(dict.fromkeys(posixpath.normpath(posixpath.join(base, name)) for base in bases))


def _may_start_elsewhere(files: Sequence[NamedFile], cwd: str, tree: ProjectTree) -> bool:
    """Whether a folder that has scripts has all these files, too."""
    names = [one.name for one in files if not posixpath.isabs(one.name)]
    return bool(names) and any(
        all(tree.has(posixpath.normpath(posixpath.join(folder, cwd, name))) for name in names)
        for folder in tree.folders_with(_STARTING)
    )


def _is_of_other_project(files: Sequence[NamedFile], bases: Sequence[str], tree: ProjectTree) -> bool:
    """Whether a launch of which nothing is there starts a script in a folder that the project does not have, either."""
    places = [place for one in files for place in _places(one.name, bases, tree) if not place.startswith("..")]
    has_folder = any(tree.has(posixpath.dirname(place)) for place in places)
    return not has_folder and any(one.role == "script" for one in files)


def _is_made(one: NamedFile, places: Sequence[str], naming: NamedTogether, tree: ProjectTree) -> bool:
    """Whether something may make a file, or bring it."""
    if any(map(tree.comes_from_elsewhere, places)):
        return True
    if one.role == "script" and not tree.folders_with(_PYTHON):
        return True
    folders = {posixpath.dirname(place) for place in places}
    is_in_folder = any(map(tree.has, folders))
    if not is_in_folder and naming.may_be_shipped and not one.meant:
        return True
    name = posixpath.basename(one.name)
    if any(file.startswith(f"{place}.") for place in places for file in tree.files):  # such as hostfile.example
        return True
    folder = posixpath.basename(posixpath.dirname(one.name))
    return (not is_in_folder and tree.any_text(_makes_folder, folder)) or tree.any_text(
        _makes_file, SoughtFile(name, _reader(naming))
    )


def _reader(naming: NamedTogether) -> str:
    """The script that reads what a launch names."""
    return next((posixpath.basename(one.name) for one in naming.files if one.role == "script"), "")


def _makes_folder(_path: str, text: str, folder: str) -> bool:
    return folder in text and any(folder in _WORD.findall(found) for found in _MAKES_FOLDER.findall(text))


def _makes_file(path: str, text: str, sought: SoughtFile) -> bool:
    return has_name(text, sought.name) and may_make(path, text, sought)


def _nearest(one: NamedFile, places: Sequence[str], start: str, tree: ProjectTree) -> str:
    """The file of the project that may be meant, as the launch would name it; "" if none is close."""
    name, folders = posixpath.basename(one.name).lower(), {posixpath.dirname(place) for place in places}
    best, closest = "", _CLOSE
    matcher = SequenceMatcher(None, "", name, autojunk=False)
    for place in tree.files:
        other = posixpath.basename(place).lower()
        if not other.endswith(_ENDINGS[one.role]) or (one.role == "hostfile" and "host" not in other):
            continue
        beside = _BESIDE if posixpath.dirname(place) in folders else 0.0
        matcher.set_seq1(other)
        if min(matcher.real_quick_ratio(), matcher.quick_ratio()) + beside <= closest:
            continue
        ratio = matcher.ratio()
        if ratio >= _CLOSE and ratio + beside > closest:
            best, closest = place, ratio + beside
    return posixpath.relpath(best, start or ".") if best else ""
