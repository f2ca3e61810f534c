"""Links from keys to what documents them, and from rules in comments to their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from ds_lint import entries
from ds_lint.output.report import page_url
from ds_lint.selection import find
from ds_lint.suppression import suppressions_of
from ds_lint.tree import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.lsp.documents import OpenDocument

_MOST = 2_000


def links(opened: OpenDocument) -> Iterator[types.DocumentLink]:
    """The links of a text, in no order."""
    root = opened.document.root
    if root is not None:
        for number, (path, member) in enumerate(walk(root)):
            if number == _MOST:
                break
            if url := entries.documentation(path).get("url"):
                yield types.DocumentLink(opened.lines.range(member.key_span), url, "What DeepSpeed documents of it")
    for suppression in suppressions_of(opened.document):
        for word in suppression.words:
            if (rule := find(word.text)) is not None:
                yield types.DocumentLink(opened.lines.range(word.span), page_url(rule), f"The page of {rule.name}")
