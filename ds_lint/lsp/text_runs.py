"""Runs of the configs and launches in open texts: a lens for each, and what came of a run beside the code.

A small run of a config executes nothing of the user's. A launch executes the user's script, so it runs only on a click,
and not if the client says that the user does not trust the folder.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.uris import from_fs_path

from ds_lint.linter.engine import every_rule
from ds_lint.lsp.diagnostics import SEVERITIES, SOURCE, InFile
from ds_lint.lsp.documents import whole_path
from ds_lint.lsp.launch_lines import LaunchWork, launches_of
from ds_lint.lsp.runs import CONFIG, LAUNCH, Run, RunQueue, Subject
from ds_lint.lsp.warm_pool import ConfigWork, WarmPool
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pygls.progress import Progress

    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.launches.launch import Launch
    from ds_lint.lsp.documents import OpenDocument, OpenDocuments
    from ds_lint.lsp.schedule import Schedule
    from ds_lint.source.document import Document

RUN_CONFIG, RUN_LAUNCH, CANCEL_RUN = "ds-lint.runConfig", "ds-lint.runLaunch", "ds-lint.cancelRun"
_TITLES = {CONFIG: "Run a few training steps", LAUNCH: "Run a few steps of this launch"}
_ACTIVE = "Running a few training steps (click to cancel)"


class Client(Protocol):
    """Who shows what comes of runs."""

    def facts_changed(self) -> None:
        """The lenses have changed."""

    def show_error(self, message: str) -> None:
        """A run that the user starts is not possible."""

    def log(self, message: str) -> None:
        """For those who look for details."""

    def show_at_launches(self, uri: str, found: list[types.Diagnostic]) -> None:
        """Show what runs of launches in a text have found."""

    def report_server_error(self, error: BaseException, source: type[BaseException]) -> None:
        """A run ended by a bug of ds-lint."""


class TextRuns:
    """The runs of open texts; ``may_launch`` says that the user trusts the scripts of the folder."""

    def __init__(
        self,
        documents: OpenDocuments,
        schedule: Schedule,
        client: Client,
        progress: Callable[[], Progress | None],
    ) -> None:
        self._documents = documents
        self._schedule = schedule
        self._client = client
        self._pool = WarmPool()
        self.runs = RunQueue(self, progress, self._pool.close)
        self.may_launch = True

    def lenses(self, uri: str) -> Iterator[types.CodeLens]:
        """A lens above each config and each launch of a text."""
        opened = self._documents.get(uri)
        if opened is None or not hasattr(os, "fork"):
            return
        for document in self._configs(opened):
            assert document.root is not None  # noqa: S101 - see _configs
            start = document.root.span.start
            place = InFile(opened.lines, document).range(Span(start, start))
            yield self._lens(Subject(CONFIG, uri, document.index), RUN_CONFIG, place)
        for launch in self._launches(opened):
            line = launch.line - 1
            yield self._lens(Subject(LAUNCH, uri, line), RUN_LAUNCH, _start_of(line))

    def start_config(self, uri: str, index: int) -> None:
        """Train with a config of an open text for a few steps."""
        opened = self._opened(uri)
        document = next((one for one in self._configs(opened) if one.index == index), None)
        if document is None:
            raise JsonRpcInvalidParams(f"{uri} has no config {index} to run")
        work = ConfigWork(self._pool, document, self._schedule.context_of(opened))
        self.runs.start(Subject(CONFIG, uri, index), f"Training with {os.path.basename(opened.path)}", work)

    def start_launch(self, uri: str, line: int) -> None:
        """Run a launch of an open text for a few steps."""
        if not self.may_launch:
            raise JsonRpcInvalidParams("a launch runs only in a folder that the user trusts")
        opened = self._opened(uri)
        launch = next((one for one in self._launches(opened) if one.line - 1 == line), None)
        if launch is None:
            raise JsonRpcInvalidParams(f"{uri} has no launch at line {line} that can be run")
        title = f"Running {os.path.basename(opened.path)}:{launch.line}"
        self.runs.start(Subject(LAUNCH, uri, line), title, LaunchWork(launch, self._project(opened)))

    def cancel(self, kind: str, uri: str, place: int) -> None:
        """End a run that the user does not want any more."""
        self.runs.cancel(Subject(kind, uri, place))

    def text_changed(self, uri: str) -> None:
        """Forget the runs that a text takes part in: it is another now, or closed."""
        opened = self._documents.get(uri)
        for subject in list(opened.runs) if opened is not None else ():
            self.runs.cancel(subject)
        self.runs.cancel_all(uri)

    def forget_all(self) -> None:
        """Forget all runs: the facts or settings are others now."""
        for opened in self._documents:
            self.text_changed(opened.uri)

    def close(self) -> None:
        """End everything."""
        self._pool.interrupt()
        self.runs.close()

    def run_changed(self, run: Run) -> None:
        """Show what a run shows now; nothing of it once it is forgotten."""
        answer = run.answer if self.runs.get(run.subject) is run else None
        for opened in self._documents:
            found = list(_of_text(opened, run, answer.verdicts)) if answer is not None else []
            if found or run.subject in opened.runs:
                opened.runs.pop(run.subject, None)
                if found:
                    opened.runs[run.subject] = found
                self._schedule.lint_again(opened)
        if run.subject.kind == LAUNCH:
            self._show_at_launches(run.subject.uri)
        if answer is not None:
            for log in answer.logs:
                self._client.log(f"output of the libraries in the run: {log}")
            if answer.error:
                self._client.show_error(answer.headline)
        self._client.facts_changed()

    def report_server_error(self, error: BaseException, source: type[BaseException]) -> None:
        """A run ended by a bug of ds-lint."""
        self._client.report_server_error(error, source)

    def _lens(self, subject: Subject, command: str, place: types.Range) -> types.CodeLens:
        run = self.runs.get(subject)
        if run is not None and run.is_active:
            return types.CodeLens(place, types.Command(_ACTIVE, CANCEL_RUN, arguments=[*subject]))
        title = _TITLES[subject.kind] if run is None or run.answer is None else run.answer.headline
        return types.CodeLens(place, types.Command(title, command, arguments=[subject.uri, subject.place]))

    def _configs(self, opened: OpenDocument) -> list[Document]:
        """The configs of a text that can be trained with."""
        if self._schedule.config_at(opened.uri) is None:
            return []
        return [one for one in opened.configs if one.root is not None and one.named is None and one.kind != "recipe"]

    def _launches(self, opened: OpenDocument) -> list[Launch]:
        return launches_of(opened, self._documents, self._project(opened)) if self.may_launch else []

    def _project(self, opened: OpenDocument) -> str:
        return self._schedule.root_of(opened.whole_path) or os.path.dirname(opened.whole_path)

    def _opened(self, uri: str) -> OpenDocument:
        opened = self._documents.get(uri)
        if opened is None:
            raise JsonRpcInvalidParams(f"{uri} is not open")
        return opened

    def _show_at_launches(self, uri: str) -> None:
        """Show what the newest runs of the launches of a text have found, each at its line."""
        self._client.show_at_launches(uri, [one for run in self.runs.of(uri) for one in _at_launch(run)])


def _of_text(opened: OpenDocument, run: Run, verdicts: list[Verdict]) -> Iterator[tuple[int, Verdict]]:
    """The verdicts on the configs of a text, each with the index of its config."""
    if run.subject.kind == CONFIG:
        if opened.uri == run.subject.uri:
            yield from ((run.subject.place, verdict) for verdict in verdicts)
        return
    for verdict in verdicts:
        if len(opened.configs) == 1 and whole_path(verdict.path) == opened.whole_path:
            yield 0, verdict


def _start_of(line: int) -> types.Range:
    return types.Range(types.Position(line, 0), types.Position(line, 0))


def _at_launch(run: Run) -> Iterator[types.Diagnostic]:
    """The findings of the run of a launch, at its line."""
    if run.subject.kind != LAUNCH or run.answer is None:
        return
    of_runs = {rule.code for rule in every_rule() if rule.kind == "run"}
    for finding in run.answer.findings:
        if finding["code"] in of_runs:
            yield types.Diagnostic(
                range=types.Range(types.Position(run.subject.place, 0), types.Position(run.subject.place + 1, 0)),
                message=f"{finding['message']}\n{finding['help']}" if finding["help"] else finding["message"],
                severity=SEVERITIES[finding["severity"]],
                code=finding["code"],
                code_description=types.CodeDescription(href=finding["url"]),
                source=SOURCE,
                related_information=_place_in_config(finding),
            )


def _place_in_config(finding: dict[str, Any]) -> list[types.DiagnosticRelatedInformation] | None:
    """The key that a finding is about; None if its config is in no file."""
    address = from_fs_path(os.path.abspath(finding["path"])) if os.path.isfile(finding["path"]) else None
    if address is None:
        return None
    place = types.Location(address, _start_of(finding["span"]["start"]["line"] - 1))
    return [types.DiagnosticRelatedInformation(place, finding["key"] or "the config")]
