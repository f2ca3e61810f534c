"""The documents of a file's bytes, and of a dict."""

from __future__ import annotations

from ds_lint.source import json as json_source
from ds_lint.source.languages import language_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ds_lint.source.document import Document, Language


def from_bytes(data: bytes, path: str) -> Document:
    """The document of a file that is a config, whatever is wrong with its bytes."""
    text, issue = json_source.decode(data)
    document = json_source.parse(text, path)
    if document.root is not None and document.root.get("deepspeed") is not None:
        from ds_lint.source import recipes  # no DeepSpeed config has the key

        if issue is None and recipes.as_recipe(document):
            return document
    if issue is None and not path.endswith(".json") and any(one.kind == "no-braces" for one in document.issues):
        from ds_lint.source import yaml  # which no DeepSpeed config is

        if found := yaml.read(text, path):
            return found[0]
    if issue is not None:
        document.issues.insert(0, issue)
    return document


def configs_in(data: bytes, path: str) -> list[Document]:
    """The configs in a file: a file of JSON is one, whatever is in it, and one of another language is searched."""
    language = language_of(path)
    return [from_bytes(data, path)] if language == "json" else within(data, path, language)


def configs_of(text: str, path: str, language: Language) -> list[Document]:
    """The configs in a text of a language."""
    return [json_source.parse(text, path)] if language == "json" else _reader(language)(text, path)


def within(data: bytes, path: str, language: Language) -> list[Document]:
    """The configs in a file of another language; none in bytes that are not UTF-8."""
    from ds_lint.source import recognition  # a config in JSON is read without

    if language == "python" and not recognition.may_be_in_python(data):
        return []
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return []
    return _reader(language)(text, path)


def again(document: Document, text: str) -> Document | None:
    """The same config in a changed text of its file; None if the file no longer has the same configs."""
    if document.notebook is None:
        return within_file(document, text)
    file_text = document.notebook.with_text(text)
    return None if file_text is None else within_file(document, file_text)


def all_again(first: Document, text: str) -> list[Document]:
    """All configs of the file that a config is the first of, in a changed text of it; none if it cannot be read."""
    file_text = text if first.notebook is None else first.notebook.with_text(text)
    return [] if file_text is None else _reader(first.language)(file_text, first.path)


def within_file(document: Document, file_text: str) -> Document | None:
    """The same config in a changed file, which is more than the text of a notebook."""
    if document.language == "json":
        changed = json_source.parse(file_text, document.path)
        changed.kind, changed.is_dict = document.kind, document.is_dict  # of a recipe too
        return changed
    read = _reader(document.language)
    found, before = read(file_text, document.path), read(document.file_text, document.path)
    return found[document.index] if len(found) == len(before) else None


def from_dict(config: Mapping[str, Any]) -> Document:
    """The document of a dict, as JSON would write it, so that findings about it have a place."""
    from json import dumps

    text = dumps(dict(config), indent=2, default=lambda value: type(value).__name__)
    document = json_source.parse(text, "<dict>")
    document.issues = [issue for issue in document.issues if issue.kind == "template"]  # a dict has no syntax
    document.is_dict = True
    return document


def _reader(language: Language) -> Callable[[str, str], list[Document]]:
    """The function that finds the configs in a text of a language: ``read`` of the module with its name."""
    from importlib import import_module

    read: Callable[[str, str], list[Document]] = import_module(f"ds_lint.source.{language}").read
    return read
