"""Which open texts are DeepSpeed configs: by content, by the settings, or by file name.

A name alone is believed only while the content says nothing else: an empty file, or one whose keys DeepSpeed knows.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ds_lint.knowledge import keys
from ds_lint.source import recognition
from ds_lint.source.languages import LANGUAGES

if TYPE_CHECKING:
    from ds_lint.lsp.documents import OpenDocument
    from ds_lint.settings.record import ConfigEntry, Settings
    from ds_lint.source.tree import Node

_ENDINGS = (".json", ".hjson", ".jsonc", ".json5", *LANGUAGES)
_LANGUAGES = ("json", "jsonc", "json5", "hjson", "markdown", "python", "shellscript", "yaml")
NAME_OF_A_CONFIG = re.compile(
    r"ds[-_.]?(?:config|stage|zero|z[0-3])|deep[-_]?speed|(?:^|[^a-z])zero[-_]?[0-3]", re.IGNORECASE
)
_WILDCARDS = "*?["


def may_be_config(opened: OpenDocument) -> bool:
    """Whether the text is in a language that a config may be written in."""
    return opened.language in _LANGUAGES or opened.path.lower().endswith(_ENDINGS)


def is_config(opened: OpenDocument, settings: Settings) -> bool:
    """Whether the text is a config; called once for each text."""
    if any(_names(entry, opened.path) for entry in settings.configs):
        return True
    if not may_be_config(opened):
        return False
    data = opened.text.encode(errors="replace")
    may_be_recipe = opened.written_in in ("json", "yaml") and recognition.may_be_recipe(data)
    may_be = may_be_recipe or recognition.may_be_config(data)
    if opened.written_in != "json":
        return may_be and bool(opened.configs)
    (document,) = opened.configs
    if may_be and (document.kind != "deepspeed" or recognition.is_config(document)):
        return True
    return NAME_OF_A_CONFIG.search(os.path.basename(opened.path)) is not None and _says_nothing_else(document.root)


def _names(entry: ConfigEntry, path: str) -> bool:
    """Whether the pattern of an entry means this one file, and not whatever lies in a folder."""
    from ds_lint.project.globs import matches, relative

    pattern = entry.pattern
    is_one = not any(sign in pattern for sign in _WILDCARDS)
    is_same = os.path.basename(pattern) == os.path.basename(path)
    return is_one and is_same and matches(relative(path, entry.directory), pattern)


def _says_nothing_else(root: Node | None) -> bool:
    """Whether nothing, or nothing complete, or at least one key of DeepSpeed's is in a text."""
    if root is None:
        return True
    if root.kind != "object":
        return False
    written = [member for member in root.members if member.value.kind != "missing"]
    if not written:
        return True
    from ds_lint.knowledge.suggestions import sibling

    top = keys.knowledge().root
    return any(top.child(member.key) is not None or sibling(member.key, top) is not None for member in written)
