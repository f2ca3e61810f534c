"""What the client is shown of each text: its own findings, and those of configs that have a place in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.uris import from_fs_path

from ds_lint.lsp.diagnostics import InFile, diagnostic, diagnostics, text_of
from ds_lint.lsp.documents import Found, whole_path
from ds_lint.lsp.positions import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.lsp.documents import LintResult, OpenDocument, OpenDocuments

    Send = Callable[[str, list[types.Diagnostic], int | None], None]


class Shown:
    """The diagnostics of all texts; ``send`` tells them the client."""

    def __init__(self, documents: OpenDocuments, send: Send) -> None:
        self._documents = documents
        self._send = send
        self._own: dict[str, list[types.Diagnostic]] = {}  # by address
        self._placed: set[str] = set()  # configs with findings that have places in other files
        self._of_launches: dict[str, list[types.Diagnostic]] = {}  # by address of the text that launches
        self._of_others: dict[str, dict[str, list[types.Diagnostic]]] = {}  # by address, and path of the config

    def publish(self, uri: str, result: LintResult | None, version: int | None) -> None:
        """Show what was found in a text; nothing, where there is nothing to lint any more."""
        had_any = bool(self._all(uri))
        if result is not None:
            self._own[uri] = diagnostics(result, uri)
        else:
            self._own.pop(uri, None)
        if self._documents.get(uri) is None:
            self._of_others.pop(uri, None)
        if result is not None or had_any:
            self._send(uri, self._all(uri), version)

    def show_at_launches(self, uri: str, found: list[types.Diagnostic]) -> None:
        """Show what runs of the launches in a text have found, there."""
        if found != self._of_launches.pop(uri, []):
            if found:
                self._of_launches[uri] = found
            opened = self._documents.get(uri)
            self._send(uri, self._all(uri), opened.version if opened is not None else None)
        elif found:
            self._of_launches[uri] = found

    def show_elsewhere(self, path: str, result: LintResult | None) -> None:
        """Show the findings in the config at a whole path in the other open texts that they have places in."""
        wholes = {
            whole_path(related.path)
            for finding, _ in (result.found if result is not None else ())
            for related in finding.related
            if related.path is not None
        }
        if not wholes and path not in self._placed:
            return
        (self._placed.add if wholes else self._placed.discard)(path)
        for opened in self._documents:
            found = list(_placed_in(opened, path, result)) if result is not None and opened.whole_path in wholes else []
            others = self._of_others.setdefault(opened.uri, {})
            if found != others.get(path, []):
                others[path] = found
                self._send(opened.uri, self._all(opened.uri), opened.version)

    def _all(self, uri: str) -> list[types.Diagnostic]:
        found = [*self._own.get(uri, ()), *self._of_launches.get(uri, ())]
        for others in self._of_others.get(uri, {}).values():
            found += others
        return found


def _placed_in(opened: OpenDocument, path: str, result: LintResult) -> Iterator[types.Diagnostic]:
    """The findings of a config that have a place in another text, there."""
    whole = opened.whole_path
    if whole == path:
        return
    for finding, report in result.found:
        uri = from_fs_path(os.path.abspath(report.document.path)) or ""
        for related in finding.related:
            text = text_of(report, related.path) if related.path is not None else None
            if text is None or whole_path(str(related.path)) != whole:
                continue
            shown = diagnostic(Found(finding, report), InFile(result.lines, report.document), uri, 0)
            place = types.Location(uri, shown.range)
            shown.related_information = [types.DiagnosticRelatedInformation(place, finding.label or "in the config")]
            shown.range = Lines(text, result.lines.encoding).range(related.span)
            shown.data = {name: value for name, value in (shown.data or {}).items() if name != "finding"}
            yield shown
            break
