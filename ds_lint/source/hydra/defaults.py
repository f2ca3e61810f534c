"""The list of defaults of a config of Hydra: which files are merged, in which order, under which keys.

Sources: ``_create_defaults_tree_impl`` in ``hydra/_internal/defaults_list.py`` and ``hydra/core/default_element.py`` of
Hydra 1.1 and later.
"""

from __future__ import annotations

import re

from ds_lint.record import Record
from ds_lint.source.hydra.places import NotComposedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.hydra.files import ConfigFolders
    from ds_lint.source.hydra.overrides import Override
    from ds_lint.source.tree import Node

SELF = "_self_"
_GLOBAL = "_global_"
_LEGACY = ("_name_", "_group_")
_REFERENCE = re.compile(r"\$\{([\w/@.]+)\}")
_MOST_FILES = 200  # of one config


class MergedFile(Record):
    """A file that is merged, and the keys under which it is."""

    name: str
    package: str


class _GroupChoice(Record):
    """The name that a group has by an override: of the command line, or of a list of defaults."""

    value: str | list[str] | None
    is_used: bool = False


class _Entry(Record):
    """An element of a list of defaults; ``group`` is None for a file by its path."""

    group: str | None
    value: str | list[str] | None
    package: str | None
    is_optional: bool = False
    is_override: bool = False
    base: str = ""  # the group of the file that has the list
    above: str = ""  # the package of that file

    @property
    def is_self(self) -> bool:
        return self.group is None and self.value == SELF

    @property
    def written(self) -> str:
        """The group as it is written, or the folder of the path."""
        if self.group is not None:
            return self.group.removeprefix("/")
        return str(self.value).removeprefix("/").rpartition("/")[0]

    @property
    def group_path(self) -> str:
        is_absolute = (self.group if self.group is not None else str(self.value)).startswith("/")
        return self.written if is_absolute or not self.base else "/".join(filter(None, (self.base, self.written)))

    @property
    def file(self) -> str:
        name = str(self.value) if self.group is not None else str(self.value).rpartition("/")[2]
        return f"{self.group_path}/{name}" if self.group_path else name

    def final_package(self, header: str | None) -> str:
        package = self.package if self.package is not None else header
        if package is None:
            package = self.written.replace("/", ".")
        found = ".".join(filter(None, (self.above, package)))
        place = found.rfind(_GLOBAL)
        return found if place == -1 else found[place + len(_GLOBAL) + 1 :]

    @property
    def key(self) -> str:
        """The group, with the package if that is another than the default."""
        package = self.final_package(None)
        default = self.group_path.replace("/", ".")
        return self.group_path if package == default else f"{self.group_path}@{package or _GLOBAL}"


class DefaultsReader:
    """Expands the lists of defaults of one config, with the overrides of its command line."""

    def __init__(self, folders: ConfigFolders, overrides: list[Override]) -> None:
        self._folders = folders
        self._choices: dict[str, _GroupChoice] = {}
        self._appended: list[_Entry] = []
        self._deleted: dict[str, str | None] = {}
        self._known: dict[str, str | list[str] | None] = {}
        self._merged: set[str] = set()
        self._count = 0
        self.of_values: list[Override] = []  # the overrides that are not of groups
        for one in overrides:
            self._sort(one)

    def _sort(self, one: Override) -> None:
        is_dict = one.value is not None and one.value.kind == "object"
        if is_dict or not self._folders.has_group(one.key):
            if one.package is not None:
                raise NotComposedError(f"{one.word} is of a group that does not exist")
            self.of_values.append(one)
            return
        key = one.key if one.package is None else f"{one.key}@{one.package}"
        if one.how == "delete":
            value = one.value.value if one.value is not None else None
            self._deleted[key] = str(value) if value is not None else None
            return
        if one.is_sweep or one.value is None or one.how == "force-add":
            raise NotComposedError(f"{one.word} has no single value")
        chosen = _chosen(one.value)
        if one.how == "add":
            self._appended.append(_Entry(one.key, chosen, one.package))
        else:
            self._choices[key] = _GroupChoice(chosen)

    def files(self, name: str) -> list[MergedFile]:
        """The files of the config of this name, in the order in which they are merged."""
        found = list(self._expand(_Entry(None, name, None), is_root=True, seen=()))
        for key, choice in self._choices.items():
            if not choice.is_used and not key.startswith("hydra"):
                raise NotComposedError(f"{key} is not in the list of defaults")
        if self._deleted:
            raise NotComposedError("a group that is deleted is not in the list of defaults")
        return found

    def _expand(self, entry: _Entry, seen: tuple[str, ...], *, is_root: bool = False) -> Iterator[MergedFile]:
        self._count += 1
        if self._is_deleted(entry):
            return
        self._know(entry)
        if entry.value is None:
            return
        path = entry.file
        if path.endswith("???") or path in seen or self._count > _MOST_FILES:
            raise NotComposedError(f"{path} is not set, or the list of defaults does not end")
        file = self._folders.file(path)
        if file is None:
            if entry.is_optional:
                return
            raise NotComposedError(f"{path} is not found")
        if entry.group is not None and all(_entry(node).is_override for node in file.defaults):
            if entry.key in self._merged:
                raise NotComposedError(f"{entry.key} is there twice")
            self._merged.add(entry.key)
        package = entry.final_package(_header(file.package, entry.package))
        entries = _entries(file.defaults)
        if is_root:
            entries += self._appended
        for one in entries:
            one.base, one.above = entry.group_path, package
            if one.is_override and one.group is not None:
                self._choices.setdefault(one.key, _GroupChoice(one.value))
        yield from self._children(entries, MergedFile(path, package), (*seen, path))

    def _children(self, entries: list[_Entry], own: MergedFile, seen: tuple[str, ...]) -> Iterator[MergedFile]:
        """The files of the elements of a list; the overrides of later ones count for those before them."""
        parts: list[list[MergedFile]] = []
        deferred: list[tuple[int, _Entry]] = []
        for one in reversed(entries):
            if one.is_self:
                parts.append([own])
                continue
            if one.is_override:
                parts.append([])
                continue
            if one.group is not None and (choice := self._choices.get(one.key)) is not None:
                one.value, choice.is_used = choice.value, True
            if isinstance(one.value, list):
                found: list[MergedFile] = []
                for item in reversed(one.value):
                    inner = _Entry(None, f"{one.group}/{item}", one.package, one.is_optional)
                    inner.base, inner.above = one.base, one.above
                    found = [*self._expand(inner, seen), *found]
                parts.append(found)
            elif isinstance(one.value, str) and "${" in one.value:
                deferred.append((len(parts), one))
                parts.append([])
            else:
                parts.append(list(self._expand(one, seen)))
        for at, one in deferred:
            one.value = _REFERENCE.sub(self._referred, str(one.value))
            if "${" in one.value:
                raise NotComposedError("a name in the list of defaults is not known")
            parts[at] = list(self._expand(one, seen))
        for part in reversed(parts):
            yield from part

    def _is_deleted(self, entry: _Entry) -> bool:
        if entry.group is None or entry.key not in self._deleted:
            return False
        name = self._deleted[entry.key]
        if name is not None and name != entry.value:
            return False
        del self._deleted[entry.key]
        return True

    def _know(self, entry: _Entry) -> None:
        if entry.group is None:
            return
        if self._known.setdefault(entry.key, entry.value) != entry.value:
            raise NotComposedError(f"{entry.key} has several values")

    def _referred(self, match: re.Match[str]) -> str:
        value = self._known.get(match[1])
        return value if isinstance(value, str) else match[0]


def _header(header: str | None, package: str | None) -> str | None:
    """The package of the header of a file, which always counts from the root."""
    if header is not None and header != _GLOBAL and not header.startswith(f"{_GLOBAL}."):
        header = None if header == "_group_" else f"{_GLOBAL}.{header}" if header else _GLOBAL
    if any(word in (header or "") + (package or "") for word in _LEGACY):
        raise NotComposedError("a package has an old keyword")
    return header


def _entries(defaults: list[Node]) -> list[_Entry]:
    """The elements of a list, with the file itself at the end where it is not written."""
    found = [_entry(node) for node in defaults]
    return found if any(one.is_self for one in found) else [*found, _Entry(None, SELF, None)]


def _entry(node: Node) -> _Entry:
    if node.kind == "string":
        path, _, package = str(node.value).partition("@")
        return _Entry(None, path, _package(package) if "@" in str(node.value) else None)
    if node.kind != "object" or len(node.members) != 1:
        raise NotComposedError("an element of a list of defaults has no name")
    member = node.members[0]
    *keywords, group = member.key.split(" ")
    group, sign, package = group.partition("@")
    return _Entry(
        group,
        _chosen(member.value),
        _package(package) if sign else None,
        is_optional="optional" in keywords,
        is_override="override" in keywords,
    )


def _package(text: str) -> str:
    package = text.partition(":")[0]
    return "" if package == "_here_" else package


def _chosen(node: Node) -> str | list[str] | None:
    if node.kind == "null":
        return None
    if node.kind == "array" and all(one.kind == "string" for one in node.items):
        return [str(one.value) for one in node.items]
    if node.kind == "string":
        return str(node.value)
    raise NotComposedError("the name of a config is not known")
