"""The YAML of a config as OmegaConf reads it, with places in the whole text.

Source: ``get_yaml_loader`` in ``omegaconf/_utils.py``: ``1e-5`` is a number, and a date is a string.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ds_lint.source import yaml
from ds_lint.source.hydra.places import NotComposedError, SourceTexts, moved
from ds_lint.source.tree import Member, Node, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.document import Document

_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?(?:[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)"
    r"|\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*"
)
_PACKAGE = re.compile(r"^#[ \t]*@package[ \t]+(\S+)[ \t]*$")


class ConfigFile(NamedTuple):
    """A file of a config: its mapping without the list of defaults, that list, and the package of its header."""

    document: Document
    root: Node
    defaults: list[Node]
    package: str | None


class ConfigFolders:
    """Where Hydra looks for files and groups; ``read`` gives the text of a path, or None, ``has_folder`` a group."""

    def __init__(
        self, folders: list[str], read: Callable[[str], str | None], has_folder: Callable[[str], bool]
    ) -> None:
        self.folders = folders
        self._read = read
        self._has_folder = has_folder
        self.texts = SourceTexts()
        self._known: dict[str, ConfigFile | None] = {}

    def has_group(self, name: str) -> bool:
        """Whether there is a folder of this name."""
        return any(self._has_folder(f"{folder}/{name}" if folder else name) for folder in self.folders)

    def file(self, name: str) -> ConfigFile | None:
        """The file of this name, with or without its ending; None if there is none."""
        if name not in self._known:
            self._known[name] = self._file(name)
        return self._known[name]

    def _file(self, name: str) -> ConfigFile | None:
        ending = "" if name.endswith((".yaml", ".yml")) else ".yaml"
        for folder in self.folders:
            path = f"{folder}/{name}{ending}" if folder else f"{name}{ending}"
            text = self._read(path)
            if text is not None:
                return config_file(text, path, self.texts)
        return None


def config_file(text: str, path: str, texts: SourceTexts) -> ConfigFile:
    """A text as a file of a config; raises NotComposedError if it cannot be read."""
    document = yaml.parse(text, path)
    if document.issues:
        raise NotComposedError(f"{path} cannot be read")
    document.language = "yaml"
    root = document.root
    if root is None or root.kind == "null":
        root = Node("object", Span(0, 0))
    if root.kind != "object":
        raise NotComposedError(f"{path} is not a mapping")
    root = moved(as_omegaconf_reads(root, text), texts.start_of(document))
    defaults = root.get("defaults")
    if defaults is not None and defaults.kind != "array":
        raise NotComposedError(f"the defaults of {path} are not a list")
    members = [one for one in root.members if one.key != "defaults"]
    package = None
    for line in text.split("\n"):
        if line.strip() and not line.startswith("#"):
            break
        if match := _PACKAGE.match(line.rstrip("\r")):
            package = match[1]
    return ConfigFile(
        document, Node("object", root.span, None, members), defaults.items if defaults is not None else [], package
    )


def as_omegaconf_reads(node: Node, text: str) -> Node:
    """A tree of PyYAML with the scalars of OmegaConf; each place of an alias is a tree of its own."""
    if node.kind == "object":
        members = [Member(one.key, one.key_span, as_omegaconf_reads(one.value, text)) for one in node.members]
        names = [one.key for one in members]
        if len(set(names)) != len(names):
            raise NotComposedError("a key is there twice")
        return Node("object", node.span, None, members)
    if node.kind == "array":
        return Node("array", node.span, None, None, [as_omegaconf_reads(one, text) for one in node.items])
    written = text[node.span.start : node.span.end]
    if node.kind == "string" and written == node.value and _FLOAT.fullmatch(written):
        try:
            return Node("float", node.span, float(written.replace("_", "")))
        except ValueError:
            return node
    if node.kind == "other":
        return Node("string", node.span, written)
    return node
