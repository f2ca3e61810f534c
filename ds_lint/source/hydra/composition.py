"""A config as Hydra composes it: the files of the list of defaults merged, overrides of the command line over them."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.source.hydra.defaults import DefaultsReader
from ds_lint.source.hydra.merging import AbsentKeyError, merged, overridden, packed
from ds_lint.source.hydra.places import NotComposedError, SourceTexts
from ds_lint.source.tree import Node, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.document import Document
    from ds_lint.source.hydra.files import ConfigFile, ConfigFolders
    from ds_lint.source.hydra.overrides import Override
    from ds_lint.source.tree import KeyPath

_OF_HYDRA = ("hydra",)


class Composed(NamedTuple):
    """A config with the files that it comes from, each with the keys under which it is merged.

    ``absent`` are the overrides of keys that it does not have.
    """

    root: Node
    texts: SourceTexts
    files: tuple[tuple[Document, KeyPath], ...]
    absent: tuple[AbsentKeyError, ...] = ()


def compose(folders: ConfigFolders, name: str, overrides: list[Override]) -> Composed:
    """The config of this name with these overrides; raises NotComposedError if it is not known."""
    own = [one for one in overrides if one.key.split(".")[0].split("/")[0] not in _OF_HYDRA]
    reader = DefaultsReader(folders, own)
    root = Node("object", Span(0, 0))
    files: list[tuple[Document, KeyPath]] = []
    for part in reader.files(name):
        file = folders.file(part.name)
        if file is None:
            raise NotComposedError(f"{part.name} is not found")
        root = merged(root, packed(file.root, part.package))
        files.append((file.document, tuple(part.package.split(".")) if part.package else ()))
    if root.at(("hydra", "searchpath")) is not None:
        raise NotComposedError("Hydra looks in further folders")
    root = Node("object", root.span, None, [one for one in root.members if one.key not in _OF_HYDRA])
    absent: list[AbsentKeyError] = []
    for one in reader.of_values:
        if one.is_sweep:
            raise NotComposedError(f"{one.word} has several values")
        try:
            root = overridden(root, one)
        except AbsentKeyError as error:
            absent.append(error)
    return Composed(root, folders.texts, tuple(files), tuple(absent))


def merge_files(files: list[ConfigFile], texts: SourceTexts, overrides: list[Override]) -> Composed:
    """The same of files that a script merges with OmegaConf, with the words of the command line over them."""
    root = Node("object", Span(0, 0))
    for file in files:
        defaults = file.document.root.member("defaults") if file.document.root is not None else None
        if defaults is not None:
            raise NotComposedError("a list of defaults means nothing to OmegaConf")
        root = merged(root, file.root)
    for one in overrides:
        root = overridden(root, one)
    return Composed(root, texts, tuple((file.document, ()) for file in files))
