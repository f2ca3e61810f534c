"""The script that FSDP shards a model in, as a document that a report is about."""

from __future__ import annotations

import os

from ds_lint.source import documents
from ds_lint.source.document import Document
from ds_lint.source.files import bytes_of
from ds_lint.source.tree import Node, Span


def script_at(path: str, unknown: str) -> Document:
    """The script at a path; ``unknown`` names it if it has no file, as a notebook or ``python -c``.

    A script that wraps its model elsewhere, or by training arguments, has no call of FSDP: the report is about its
    beginning.
    """
    shown = os.path.relpath(path) if path else unknown
    try:
        data = bytes_of(path) if path else b""
    except OSError:
        data = b""
    found = documents.configs_in(data, shown) if data else []
    own = next((one for one in found if one.kind == "FSDP"), None)
    if own is not None:
        return own
    document = Document(shown, data.decode("utf-8", "replace"), Node("missing", Span(0, 0)), [])
    document.language, document.kind = "python", "FSDP"
    document.is_python = document.is_dict = True
    return document
