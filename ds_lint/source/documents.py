"""The documents of a file's bytes, and of a dict."""

from __future__ import annotations

from ds_lint.source import json as json_source
from ds_lint.source.languages import IN_YAML, JSON, language_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ds_lint.source.document import Document
    from ds_lint.source.languages import Language

_ACCELERATES = ("distributed_type", "compute_environment")  # keys of what ``accelerate launch`` reads


def from_bytes(data: bytes, path: str) -> Document:
    """The document of a file that is a config, whatever is wrong with its bytes."""
    text, issue = json_source.decode(data)
    if issue is None:
        return from_text(text, path)
    document = json_source.parse(text, path)
    document.issues.insert(0, issue)
    return document


def from_text(text: str, path: str) -> Document:
    """The document of a text that is a config: DeepSpeed's, or Accelerate's, or a recipe of a framework."""
    document = json_source.parse(text, path)
    root = document.root
    if root is not None and root.get("deepspeed") is not None:
        from ds_lint.source import recognition  # no DeepSpeed config has the key

        if recognition.as_recipe(document):
            return document
    if not path.endswith(".json") and _may_be_yaml(document):
        from ds_lint.source import yaml  # which no DeepSpeed config is

        if found := [one for one in yaml.read(text, path) if not one.is_inline]:
            return found[0]
    return document


def _may_be_yaml(document: Document) -> bool:
    """Whether a text may be for ``accelerate launch``, or a recipe: without braces, or in braces by its keys."""
    if document.root is not None and any(document.root.get(name) is not None for name in _ACCELERATES):
        return True
    return any(issue.kind in ("no-braces", "stray-text") for issue in document.issues)


def configs_in(data: bytes, path: str) -> list[Document]:
    """The configs in a file that is named: JSON is one, whatever is in it, and another language is searched."""
    if path.endswith(JSON):
        document = from_bytes(data, path)
        return (_is_around(document) and _inline([document])) or [document]
    language = language_of(path)
    if language not in ("json", "yaml"):
        return within(data, path, language)
    if language == "yaml" and (inside := [one for one in within(data, path, language) if one.is_inline]):
        from ds_lint.source import inline

        if inline.is_meant_as_part(inside):
            return inside
    from ds_lint.source import named

    if language == "json" and (other := named.interpreted_as(data)) is not None:
        return within(data, path, other)
    document = from_bytes(data, path)
    return [document] if document.kind != "deepspeed" or named.is_config(document, language) else []


def configs_found_in(data: bytes, path: str) -> list[Document]:
    """The configs in a file that is found: the same, as long as something tells that they are configs."""
    from ds_lint.source import recognition

    language = language_of(path)
    may_be_recipe = language in ("json", "yaml") and recognition.may_be_recipe(data)
    if not (may_be_recipe or recognition.may_be_config(data)):
        return []
    if language == "yaml":
        return within(data, path, language)
    found = configs_in(data, path)
    if language != "json":
        return found
    configs = [one for one in found if one.is_inline or one.kind != "deepspeed" or recognition.is_config(one)]
    return configs or _inline(found)


def _is_around(document: Document) -> bool:
    """Whether a JSON that is named is hardly a config itself, and may have one inside."""
    root = document.root
    if root is None or document.kind != "deepspeed" or document.issues or "zero_optimi" not in document.text:
        return False
    return root.kind != "object" or not any("batch_size" in one.key or "optimi" in one.key for one in root.members)


def _inline(found: list[Document]) -> list[Document]:
    """The configs that are mappings inside of a JSON file that is none."""
    if len(found) != 1 or found[0].root is None or len(found[0].text) > IN_YAML:
        return []
    from ds_lint.source import inline

    return inline.configs(found[0], found[0].comments)


def configs_of(text: str, path: str, language: Language) -> list[Document]:
    """The configs in a text of a language."""
    return [from_text(text, path)] if language == "json" else _reader(language)(text, path)


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


def unparsed(data: bytes, path: str, *, is_named: bool) -> list[Document]:
    """A module that Python does not parse, or a notebook with such cells, as a document without a config.

    A module that is not named is one only if it looks like it has a config.
    """
    language = language_of(path)
    if language not in ("python", "notebook"):
        return []
    from ds_lint.source.recognition import looks_like_python, may_be_config

    if not (may_be_config(data) or (is_named and language == "python")):
        return []
    text = data.decode(errors="replace")
    if language == "python" and not is_named and not looks_like_python(text):
        return []
    document = _unparsed(text, path, language)
    return [] if document is None else [document]


def _unparsed(text: str, path: str, language: Language) -> Document | None:
    from importlib import import_module

    read: Callable[[str, str], Document | None] = import_module(f"ds_lint.source.{language}").unparsed
    return read(text, path)


def again(document: Document, text: str) -> Document | None:
    """The same config in a changed text of its file; None if the file no longer has the same configs."""
    if document.command is not None:
        return None  # what its flags are is not read here
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
    if document.command is not None:
        return None
    if document.is_of_names:
        from ds_lint.source import absent_name  # few files have names that lead nowhere

        return absent_name.again(document, file_text)
    if document.is_inline and document.language == "json":
        inside = _inline([json_source.parse(file_text, document.path)])
        return inside[document.index] if document.index < len(inside) else None
    if document.language == "json":
        changed = json_source.parse(file_text, document.path)
        changed.kind, changed.is_dict = document.kind, document.is_dict  # of a recipe too
        return changed
    if document.is_unparsed:
        return _unparsed(file_text, document.path, document.language)
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
