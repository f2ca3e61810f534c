"""Whether a file that is named is a config, where its ending does not tell: its text does.

A text in braces is a config, and so is what hjson reads without braces if it has keys of DeepSpeed. YAML is what
``accelerate launch`` or a framework reads, or a config that should have been JSON.
"""

from __future__ import annotations

import re

from ds_lint.source import recognition
from ds_lint.source.languages import IN_YAML

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.document import Document
    from ds_lint.source.languages import Language

_INTERPRETER = re.compile(rb"#![^\n]*\b(?:(bash|dash|ksh|sh|zsh)|python[\d.]*)\b")


def interpreted_as(data: bytes) -> Language | None:
    """The language of a script, by its first line."""
    if data[:2] != b"#!" or (match := _INTERPRETER.match(data)) is None:
        return None
    return "shell" if match[1] else "python"


def is_config(document: Document, language: Language) -> bool:
    """Whether a text is a DeepSpeed config, in its own language or in another."""
    root = document.root
    if not document.is_utf8:
        return language == "json" or recognition.may_be_config(document.text.encode(errors="replace"))
    if recognition.is_config(document) and (_has_braces(document) or _lacks_braces(document)):
        return True
    if language == "yaml":
        return _is_config_in_yaml(document) or (_has_braces(document) and recognition.may_be_named(document))
    if root is None:
        return not document.text.strip("\ufeff \t\r\n") or _is_config_in_yaml(document)
    if _has_braces(document):
        return True
    if root.kind == "array":
        return not any(issue.kind == "stray-text" for issue in document.issues)
    return _lacks_braces(document) and (recognition.is_mostly_config(root) or _is_config_in_yaml(document))


def _has_braces(document: Document) -> bool:
    """Whether a text begins with the brace of a config, and not with something else that has one further down."""
    root = document.root
    if root is None or root.kind != "object" or _lacks_braces(document):
        return False
    return not any(one.kind == "stray-text" and one.span.start < root.span.start for one in document.issues)


def _lacks_braces(document: Document) -> bool:
    return any(issue.kind in ("no-braces", "unopened") for issue in document.issues)


def _is_config_in_yaml(document: Document) -> bool:
    """Whether YAML, which no library reads as a config, has the keys of one."""
    if len(document.text) > IN_YAML or not recognition.may_be_config(document.text.encode(errors="replace")):
        return False
    from ds_lint.source import yaml

    root = yaml.parse(document.text, document.path).root
    return bool(recognition.telling_keys(root))
