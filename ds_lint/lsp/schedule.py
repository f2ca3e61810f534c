"""When each open text has its turn to be linted, and where: on the loop that answers, or beside it."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ds_lint.lsp import recognition
from ds_lint.lsp.documents import HUGE, LARGE
from ds_lint.lsp.launches import OpenLaunches
from ds_lint.lsp.lint import lint_file, lint_text
from ds_lint.lsp.pins import configs_below
from ds_lint.targets.files import states_requirements

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from lsprotocol import types

    from ds_lint.lsp.documents import LintResult, OpenDocument, OpenDocuments
    from ds_lint.lsp.project import Projects
    from ds_lint.session.context import LintContext

    Result = TypeVar("Result")

_LONGEST_REST = 1.0  # seconds between two lint runs of a text that takes long
_MOST_NAMED = 20  # configs that are not open, linted because an open script launches them


class UnparsedError(Exception):
    """A module does not parse, and what was found before goes on to count."""


class Listener(Protocol):
    """Who hears what comes of linting, on the loop."""

    def publish(self, uri: str, result: LintResult | None, version: int | None) -> None:
        """A version of a text has been linted; no result where there is nothing to lint any more."""

    def show_elsewhere(self, path: str, result: LintResult | None) -> None:
        """The findings in a config may have places in other texts that are open."""

    def facts_changed(self) -> None:
        """Other launches than before tell of the texts."""

    def complain(self, message: str) -> None:
        """The user should know of this."""

    def report_server_error(self, error: BaseException, source: type[BaseException]) -> None:
        """A text could not be linted because of a bug in ds-lint."""


class Schedule:
    """The linting of the open texts, each when it has changed and has rested."""

    def __init__(self, documents: OpenDocuments, projects: Projects, listener: Listener) -> None:
        self._documents = documents
        self._projects = projects
        self._listener = listener
        self._waiting: dict[str, asyncio.TimerHandle] = {}  # by address, for the typing to pause
        self._aside = ThreadPoolExecutor(max_workers=1)  # for texts that take long
        self._launches = OpenLaunches(documents, projects, self.aside, self._launches_found, self._failed)
        self._named: dict[str, set[str]] = {}  # by root, configs that are not open, linted for the texts that are

    def opened(self, item: types.TextDocumentItem) -> None:
        """Lint a text that was opened."""
        opened = self._documents.open(item)
        self._lint_soon(opened, reload=True)
        self._launches.look_up([opened.whole_path])
        self._look_up_pinned(opened)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        """Lint a text that has changed, when the typing pauses."""
        opened = self._documents.get(params.text_document.uri)
        if opened is not None:
            opened.change(params.content_changes, params.text_document.version)
            self._lint_soon(opened)
            if not opened.is_plain_config:
                self._launches.look_up([opened.whole_path])

    def closed(self, uri: str) -> None:
        """Forget a text and its diagnostics."""
        self._stop_waiting(uri)
        opened = self._documents.close(uri)
        if opened is not None:
            self._listener.publish(uri, None, None)
            self._listener.show_elsewhere(opened.whole_path, None)
            self._launches.look_up([opened.whole_path])

    def lint_all(self) -> None:
        """Lint every text again, because something else than the text has changed."""
        for opened in self._documents:
            opened.result = None
            self._lint_soon(opened, reload=True)
            self._look_up_pinned(opened)
        self._launches.look_up([opened.whole_path for opened in self._documents], again=True)

    def lint_again(self, opened: OpenDocument) -> None:
        """Lint a text again whose runs have changed."""
        opened.result = None
        self._lint_soon(opened)

    def root_of(self, path: str) -> str | None:
        """The repository that a text is in."""
        return self._launches.root_of(path)

    def current(self, opened: OpenDocument) -> LintResult | None:
        """The result of a text as it is now, made at once if that is quick; None where there is none."""
        if opened.current is None and len(opened.text) <= LARGE:
            self._stop_waiting(opened.uri)
            self._lint(opened)
        return opened.current

    def config_at(self, uri: str) -> OpenDocument | None:
        """The open text at an address, if it is a config that is to be linted.

        Not the file of a notebook, in whose JSON there is nothing to hover over or to complete.
        """
        opened = self._documents.get(uri)
        if (
            opened is None
            or opened.written_in == "notebook"
            or len(opened.text) > HUGE
            or not self._is_config(opened, self._projects.context(opened.path))
        ):
            return None
        return opened

    def context_of(self, opened: OpenDocument) -> LintContext:
        """What a text is linted with, and the launches and recipes that tell of it."""
        material = self._launches.material(opened.whole_path)
        context = self._projects.context(opened.path)
        return context.launched_by(material) if material else context

    def aside(self, act: Callable[[], Result]) -> asyncio.Future[Result]:
        """Do what takes long beside the loop that answers."""
        return asyncio.get_running_loop().run_in_executor(self._aside, act)

    def _lint_soon(self, opened: OpenDocument, *, reload: bool = False) -> None:
        """Lint a text at once, but no more often than leaves as much time for everything else."""
        self._stop_waiting(opened.uri)
        wait = max(0.0, opened.next_time - time.monotonic())
        loop = asyncio.get_running_loop()
        self._waiting[opened.uri] = loop.call_later(wait, partial(self._lint, opened, reload=reload))

    def _stop_waiting(self, uri: str) -> None:
        handle = self._waiting.pop(uri, None)
        if handle is not None:
            handle.cancel()

    def _lint(self, opened: OpenDocument, *, reload: bool = False) -> None:
        """Lint a text as it is now, and have it heard what was found."""
        self._waiting.pop(opened.uri, None)
        begun = time.monotonic()
        try:
            context = self._context(opened, reload=reload)
            if len(opened.text) > LARGE:
                self._lint_aside(opened, context)
                return
            if self._is_config(opened, context) and not opened.is_unparsed:  # the editor moves what was found before
                self._take(opened, lint_text(opened.configs, opened.lines, context, opened.verdicts))
        except Exception as error:  # noqa: BLE001 - a text that cannot be linted must not end the server
            self._listener.report_server_error(error, type(error))
        _let_rest(opened, begun)

    def _lint_aside(self, opened: OpenDocument, context: LintContext) -> None:
        """The same beside the loop, which alone reads projects and takes results; too late ones are dropped."""
        lines, begun, verdicts = opened.lines, time.monotonic(), opened.verdicts
        if self._is_excluded(opened):
            return

        def lint() -> LintResult | None:
            is_wanted = opened.lines is lines and _is_recognised(opened, context)
            if is_wanted and opened.is_unparsed:
                raise UnparsedError
            return lint_text(opened.configs, lines, context, verdicts) if is_wanted else None

        def done(future: asyncio.Future[LintResult | None]) -> None:
            _let_rest(opened, begun)
            error = future.exception()
            if isinstance(error, UnparsedError):
                return  # the editor moves what was found before
            if error is not None:
                self._listener.report_server_error(error, type(error))
            elif opened.lines is lines and self._documents.get(opened.uri) is opened:
                self._take(opened, future.result())

        self.aside(lint).add_done_callback(done)

    def _context(self, opened: OpenDocument, *, reload: bool) -> LintContext:
        """On what terms a text is linted, with what its launches tell."""
        opened.material = self._launches.material(opened.whole_path)
        context = self._projects.context(opened.path, reload=reload)
        return context.launched_by(opened.material) if opened.material else context

    def _launches_found(self, root: str) -> None:
        """Lint the open texts again that are launched otherwise than before, and the other configs that they launch."""
        here = [opened for opened in self._documents if self._launches.root_of(opened.whole_path) == root]
        paths = {opened.whole_path for opened in here}
        others = [opened for opened in here if opened.material != self._launches.material(opened.whole_path)]
        if others:
            self._listener.facts_changed()
        for opened in here:
            if opened in others:
                self._lint_soon(opened)
            else:
                self._listener.show_elsewhere(opened.whole_path, opened.result)
        named = self._launches.named_beside(root, paths)
        for path in self._named.get(root, set()) - named - paths:
            self._listener.show_elsewhere(path, None)
        self._named[root] = named
        for path in sorted(named)[:_MOST_NAMED]:
            if not self._projects.excludes(path):
                self._lint_file(path)

    def _look_up_pinned(self, opened: OpenDocument) -> None:
        """Lint the configs whose releases an open file pins: what they reach of defects is shown at the pins."""
        if not states_requirements(opened.path):
            return
        session = self._projects.session(opened.whole_path)

        def done(future: asyncio.Future[list[str]]) -> None:
            if (error := future.exception()) is not None:
                self._failed(error)
                return
            for path in map(os.path.abspath, future.result()):
                if self._documents.get(opened.uri) is opened and not self._projects.excludes(path):
                    self._lint_file(path)

        self.aside(partial(configs_below, opened.whole_path, session)).add_done_callback(done)

    def _lint_file(self, path: str) -> None:
        """Lint a config that is not open."""
        context = self._projects.context(path).launched_by(self._launches.material(path))
        linting = self.aside(partial(lint_file, path, context, self._documents.encoding))
        linting.add_done_callback(partial(self._take_file, path))

    def _take_file(self, path: str, future: asyncio.Future[LintResult | None]) -> None:
        """Have it heard what was found in a config that is not open."""
        error = future.exception()
        if error is not None:
            self._failed(error)
        elif not any(opened.whole_path == path for opened in self._documents):
            self._listener.show_elsewhere(path, future.result())

    def _failed(self, error: BaseException) -> None:
        self._listener.report_server_error(error, type(error))

    def _take(self, opened: OpenDocument, result: LintResult | None) -> None:
        opened.result = result
        if result is not None and result.complaint:
            self._listener.complain(result.complaint)
        self._listener.publish(opened.uri, result, opened.version)
        self._listener.show_elsewhere(opened.whole_path, result)

    def _is_config(self, opened: OpenDocument, context: LintContext) -> bool:
        """Whether a text is a config that is not excluded."""
        return not self._is_excluded(opened) and _is_recognised(opened, context)

    def _is_excluded(self, opened: OpenDocument) -> bool:
        """Whether a text is excluded; its findings are then removed."""
        if not self._projects.excludes(opened.path):
            return False
        if opened.is_config:
            opened.is_config = False
            self._take(opened, None)
        return True


def _is_recognised(opened: OpenDocument, context: LintContext) -> bool:
    """Whether a text is a config; one stays a config while it is open."""
    if not opened.is_config:
        opened.is_config = recognition.is_config(opened, context.settings)
    return opened.is_config


def _let_rest(opened: OpenDocument, begun: float) -> None:
    """Keep a text from being linted again for as long as it took; what is typed meanwhile is linted together."""
    now = time.monotonic()
    opened.next_time = now + min(now - begun, _LONGEST_REST)
