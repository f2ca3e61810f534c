"""What git ignores in a folder that is searched, as ``git check-ignore --no-index`` says it, without running git.

The patterns are those of the ``.gitignore`` files from the root of the repository down, of ``.git/info/exclude``, and
of the file that ``core.excludesFile`` names. Outside a repository nothing is ignored.
"""

from __future__ import annotations

import os

from ds_lint.project.globs import Glob
from ds_lint.record import Record, field
from ds_lint.source.files import bytes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    OnError = Callable[[OSError], None]

NAME = ".gitignore"
_REPOSITORY = ".git"  # a folder; in a submodule or another worktree a file that names one
_BYTES = "latin-1"  # git compares bytes: one character for each


class IgnoreFile:
    """The patterns of one file. The last that means a path decides."""

    __slots__ = ("_by_name", "_others")

    def __init__(self, data: bytes) -> None:
        self._by_name: dict[str, list[tuple[int, bool, Glob]]] = {}  # most patterns are plain names
        self._others: list[tuple[int, bool, Glob]] = []
        for number, line in enumerate(_lines(data)):
            pattern = Glob(line.removeprefix("!"))
            same = self._others if pattern.name is None else self._by_name.setdefault(pattern.name, [])
            same.append((number, not line.startswith("!"), pattern))

    def says(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether a path from the folder of the file is ignored; None if no pattern means it."""
        last, decision = -1, None
        for patterns in (self._by_name.get(path[path.rfind("/") + 1 :], ()), self._others):
            for number, is_ignored, pattern in reversed(patterns):
                if number < last:
                    break
                if pattern.means(path, is_folder=is_folder):
                    last, decision = number, is_ignored
                    break
        return decision


class IgnoredIn(Record):
    """What is ignored in one folder. ``place`` is its path in the repository, with a slash at the end."""

    _place: str
    _files: tuple[
        tuple[IgnoreFile, int], ...
    ]  # the first that says something decides; with the length of the path of its folder

    def ignores(self, name: str, *, is_folder: bool) -> bool:
        """Whether git ignores a name in the folder."""
        path = self._place + _as_bytes(name)
        for file, start in self._files:
            if (decision := file.says(path[start:], is_folder=is_folder)) is not None:
                return decision
        return False

    def below(self, name: str) -> IgnoredIn:
        """The patterns for a folder of this one, without those of its own ``.gitignore``."""
        return IgnoredIn(f"{self._place}{_as_bytes(name)}/", self._files)

    def by(self, file: IgnoreFile) -> IgnoredIn:
        """The same with the ``.gitignore`` of the folder itself."""
        return IgnoredIn(self._place, ((file, len(self._place)), *self._files))


class Ignored(Record):
    """What is ignored in each folder of a search, which enters a folder before those in it."""

    _root: str
    _on_error: OnError
    _entered: dict[str, IgnoredIn | None] = field(factory=dict)

    def entering(self, here: str, names: Collection[str]) -> IgnoredIn | None:
        """What is ignored in a folder that has these names; None if the folder is in no repository."""
        found: IgnoredIn | None
        if _REPOSITORY in names:
            found = _at_root(here)
        elif here == self._root:
            found = self._above(here)
        else:
            above = self._entered[os.path.dirname(here)]
            found = above.below(os.path.basename(here)) if above is not None else None
        if NAME in names and found is not None and (file := self._read(here)) is not None:
            found = found.by(file)
        self._entered[os.path.dirname(os.path.join(here, ""))] = found  # without slashes at the end
        return found

    def _above(self, directory: str) -> IgnoredIn | None:
        """The patterns for the folder that is searched, without those of its own; None if it is in no repository."""
        folders = [os.path.realpath(directory)]
        while not os.path.lexists(os.path.join(folders[-1], _REPOSITORY)):
            parent = os.path.dirname(folders[-1])
            if parent == folders[-1]:
                return None
            folders.append(parent)
        found = _at_root(folders[-1])
        for here, below in zip(reversed(folders), [*reversed(folders)][1:], strict=False):
            if (file := self._read(here)) is not None:
                found = found.by(file)
            found = found.below(os.path.basename(below))
        return found

    def _read(self, here: str) -> IgnoreFile | None:
        path = os.path.join(here, NAME)
        if os.path.islink(path) or not os.path.isfile(path):  # as git, which follows no link to one
            return None
        try:
            return IgnoreFile(bytes_of(path))
        except OSError as error:
            self._on_error(error)
            return None


def _at_root(root: str) -> IgnoredIn:
    """The patterns for a whole repository: first those of this clone, then those of the user."""
    folder = _folder_of(os.path.join(root, _REPOSITORY))
    paths = [os.path.join(folder, "info", "exclude"), _of_the_user(os.path.join(folder, "config"))]
    return IgnoredIn("", tuple((IgnoreFile(_content(path)), 0) for path in paths if os.path.isfile(path)))


def _folder_of(repository: str) -> str:
    """The folder of git that all worktrees of a repository share."""
    if not os.path.isdir(repository):
        named = _content(repository).removeprefix(b"gitdir:").strip()
        repository = os.path.join(os.path.dirname(repository), os.fsdecode(named))
    common = _content(os.path.join(repository, "commondir")).strip()
    return os.path.join(repository, os.fsdecode(common)) if common else repository


def _of_the_user(config: str) -> str:
    """The file with the user's own patterns, which a configuration of git may name."""
    folder = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join("~", ".config"), "git")
    named = os.path.join(folder, "ignore")
    for path in (os.path.join(folder, "config"), os.path.join("~", ".gitconfig"), config):
        named = _excludes_file(_content(os.path.expanduser(path))) or named
    return os.path.expanduser(named)


def _excludes_file(config: bytes) -> str | None:
    """What a configuration of git says about ``core.excludesFile``."""
    section, found = "", None
    for line in map(str.strip, config.decode(errors="surrogateescape").splitlines()):
        if line.startswith("["):  # a setting may be behind it
            section, _, line = line[1:].partition("]")  # noqa: PLW2901 - the rest of it
        name, _, value = line.partition("=")
        if section.lower() == "core" and name.strip().lower() == "excludesfile":
            found = _value(value.strip())
    return found


def _value(text: str) -> str:
    """A value of a configuration of git without quotes, backslashes, and a comment behind it."""
    value, is_quoted = "", False
    characters = iter(text)
    for character in characters:
        if character in "#;" and not is_quoted:
            return value.rstrip()
        if character == '"':
            is_quoted = not is_quoted
        else:
            value += next(characters, "") if character == "\\" else character
    return value


def _content(path: str) -> bytes:
    """The content of a file that need not be there."""
    try:
        return bytes_of(path) if os.path.isfile(path) else b""
    except OSError:
        return b""


def _lines(data: bytes) -> Iterator[str]:
    """The lines that have a pattern."""
    for line in data.decode(_BYTES).removeprefix("\u00ef\u00bb\u00bf").split("\n"):
        if line and not line.startswith("#"):
            yield _without_spaces(line.removesuffix("\r").partition("\0")[0])


def _without_spaces(line: str) -> str:
    """The line without the spaces at its end, except one after a backslash."""
    kept = line.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return f"{kept} " if backslashes % 2 and kept != line else kept


def _as_bytes(name: str) -> str:
    return os.fsencode(name).decode(_BYTES)


def ignores(root: str, place: str) -> bool:
    """Whether git ignores a path, by the files below this root; also without a repository, which may come later."""
    ignored = Ignored(root, lambda _: None)
    found = ignored.entering(root, os.listdir(root)) or _by_file(root, IgnoredIn("", ()))
    *folders, last = place.split("/")
    here = root
    for name in folders:
        if found.ignores(name, is_folder=True):
            return True
        here = os.path.join(here, name)
        found = _by_file(here, found.below(name))
    return found.ignores(last, is_folder=False)


def _by_file(here: str, found: IgnoredIn) -> IgnoredIn:
    path = os.path.join(here, NAME)
    return found.by(IgnoreFile(_content(path))) if os.path.isfile(path) else found
