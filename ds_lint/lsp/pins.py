"""The open files that pin releases: the configs below them, and what changes a pin to a release without a defect."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from lsprotocol import types

from ds_lint.knowledge.advisories import is_affected, named
from ds_lint.session.reached import MOST_PINNED, pinned
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ds_lint.lsp.documents import OpenDocument
    from ds_lint.session.session import Session

# What a requirement of one library may look like, up to its version: ``deepspeed[ops]==``, ``deepspeed = "^``.
_REQUIREMENT = r"(?<![\w.-]){}(?P<extras>\[[^\]\n]*\])?(?P<sign>\s*(?:[=~<>!]=?=?|=\s*[\"'][\^~<>=]*)\s*)"
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)[^\"'#;\n\s\\]*(?:\s*,\s*[<>=!~]+[^\"'#;\n\s\\]+)*")


def configs_below(path: str, session: Session) -> list[str]:
    """The files with configs whose releases a file pins, no more than ``check`` reads for it."""
    return list(islice(pinned(path, session, lambda _: None), MOST_PINNED))


def actions(
    opened: OpenDocument, context: types.CodeActionContext, fixable: Collection[str] | None
) -> list[types.CodeAction]:
    """A change of the pin for each finding at it that another release does not have, if its rule is fixable."""
    found: list[types.CodeAction] = []
    for diagnostic in context.diagnostics:
        data = diagnostic.data if isinstance(diagnostic.data, dict) else {}
        is_fixable = fixable is None or diagnostic.code in fixable
        if is_fixable and isinstance(id_ := data.get("advisory"), str):
            found += _changes(opened, diagnostic, id_)
    return found


def _changes(opened: OpenDocument, diagnostic: types.Diagnostic, id_: str) -> Iterator[types.CodeAction]:
    record = named(id_)
    span = opened.lines.span(diagnostic.range)
    for library, stretches in record["libraries"].items() if record is not None else ():
        place = _version_of(library, opened.text[span[0] : span[1]])
        fixed = stretches[-1]["fixed"]
        if place is None or fixed is None or not is_affected(library, stretches, place[2]):
            continue
        edit = types.TextEdit(opened.lines.range(Span(span[0] + place[0], span[0] + place[1])), fixed)
        yield types.CodeAction(
            f"Pin {library} {fixed} (unsafe: needs your decision)",
            types.CodeActionKind.QuickFix,
            [diagnostic],
            edit=types.WorkspaceEdit(changes={opened.uri: [edit]}),
        )


def _version_of(library: str, line: str) -> tuple[int, int, str] | None:
    """Where a line has the versions of a library, and the first of them."""
    begin = re.search(_REQUIREMENT.format(re.escape(library)), line, re.IGNORECASE)
    version = _VERSION.match(line, begin.end()) if begin is not None else None
    return (version.start(), version.end(), version[1]) if version is not None else None
