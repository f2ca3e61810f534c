"""The document of a file's bytes, and of a dict."""

from __future__ import annotations

from ds_lint.source import json as json_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ds_lint.source.document import Document


def from_bytes(data: bytes, path: str) -> Document:
    """The document of a file's bytes, whatever is wrong with them."""
    text, issue = json_source.decode(data)
    document = json_source.parse(text, path)
    if issue is not None:
        document.issues.insert(0, issue)
    return document


def from_dict(config: Mapping[str, Any]) -> Document:
    """The document of a dict, as JSON would write it, so that findings about it have a place."""
    from json import dumps

    text = dumps(dict(config), indent=2, default=lambda value: type(value).__name__)
    document = json_source.parse(text, "<dict>")
    document.issues = [issue for issue in document.issues if issue.kind == "template"]  # a dict has no syntax
    document.is_dict = True
    return document
