"""The server: what a client sends, and who answers it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from contextlib import suppress
from functools import partial
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams, JsonRpcParseError
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from ds_lint import __version__
from ds_lint.addresses import SITE
from ds_lint.diagnostics.report import page_url
from ds_lint.knowledge import advisories
from ds_lint.knowledge.advisory_words import title
from ds_lint.knowledge.keys import knowledge
from ds_lint.launches.files import ENDINGS
from ds_lint.linter.engine import every_rule
from ds_lint.linter.lint import lint
from ds_lint.linter.selection import find
from ds_lint.lsp import actions, completion, configuration, hover, lenses, links, notebooks, pins
from ds_lint.lsp.documents import LARGE, MANY, OpenDocuments
from ds_lint.lsp.framing import BoundedInput
from ds_lint.lsp.project import Projects
from ds_lint.lsp.protocol import Protocol, RefusedMessage
from ds_lint.lsp.schedule import Schedule
from ds_lint.lsp.shown import Shown
from ds_lint.lsp.target import target_of
from ds_lint.lsp.text_runs import CANCEL_RUN, RUN_CONFIG, RUN_LAUNCH, TextRuns
from ds_lint.rule_pages import pages
from ds_lint.rule_pages.advisories import page as advisory_page
from ds_lint.semantics.basis import Basis
from ds_lint.settings.nearest import NAMES as SETTINGS_FILES
from ds_lint.source import documents
from ds_lint.targets.files import PATTERNS, states_requirements

if TYPE_CHECKING:
    from pygls.progress import Progress

    from ds_lint.lsp.documents import LintResult

TARGET = "ds-lint/target"
EXPLAIN = "ds-lint/explain"
FINDINGS_IN_HOVER = "findingsInHover"  # of the initializationOptions: false where the client shows them itself
MAY_LAUNCH = "mayLaunch"  # of the initializationOptions: false while the user does not trust the folder
SCRIPTS = tuple(f"*{ending}" for ending in ENDINGS)  # which may launch something, or are recipes
_WATCH_PARENT = 5.0  # seconds between two looks whether the client is still there


class Server(LanguageServer):
    """A language server for one client."""

    protocol: Protocol

    def __init__(self) -> None:
        super().__init__(
            "ds-lint",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=notebooks.SELECTOR,
            protocol_cls=Protocol,
        )
        self.documents = OpenDocuments()
        self._shown = Shown(self.documents, self.send_diagnostics)
        self.has_shut_down = False
        self._shows_runs = True
        self.findings_in_hover = True
        self.projects = Projects(self.complain)
        self.schedule = Schedule(self.documents, self.projects, self)
        self.notebooks = notebooks.OpenNotebooks(
            self.documents, self.projects, self.send_diagnostics, self.report_server_error
        )
        self.runs = TextRuns(self.documents, self.schedule, self, self._progress)
        self._complaints: set[str] = set()

    def _progress(self) -> Progress | None:
        """What shows progress in the client; None if it does not show any."""
        window = self.client_capabilities.window
        return self.work_done_progress if window is not None and window.work_done_progress else None

    def publish(self, uri: str, result: LintResult | None, version: int | None) -> None:
        """Send what was found in a text; nothing, where there is nothing to lint any more."""
        self._shown.publish(uri, result, version)

    def show_elsewhere(self, path: str, result: LintResult | None) -> None:
        """Send what was found in a config for the other texts that it has places in."""
        self._shown.show_elsewhere(path, result)

    def show_at_launches(self, uri: str, found: list[types.Diagnostic]) -> None:
        """Send what runs of launches in a text have found, for their lines."""
        self._shown.show_at_launches(uri, found)

    def send_diagnostics(self, uri: str, found: list[types.Diagnostic], version: int | None) -> None:
        """Tell the client what was found in a text, or in the cell of a notebook."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    def lint_all(self) -> None:
        """Lint everything that is open again, because something else than its text has changed."""
        self.schedule.lint_all()
        self.notebooks.lint_all()
        self.facts_changed()

    def configure(self, values: Any) -> None:
        """Take the client's settings, and lint by them."""
        if not isinstance(values, dict):
            return
        for complaint in configuration.complaints(values):
            self.complain(complaint)
        self.projects.configure(configuration.options_of(values, self.documents.directory))
        self._shows_runs = values.get(configuration.RUN_LENSES) is not False
        self.runs.forget_all()
        self.lint_all()

    def facts_changed(self) -> None:
        """Have the client ask for the lenses again, which depend on more than the text."""
        workspace = self.client_capabilities.workspace
        lens = workspace.code_lens if workspace is not None and any(self.documents) else None
        if lens is not None and lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def complain(self, message: str) -> None:
        """Show a message, once."""
        if message not in self._complaints:
            self._complaints.add(message)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, f"ds-lint: {message}"))

    def show_error(self, message: str) -> None:
        """Show why a command of the user is not done."""
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"ds-lint: {message}"))

    def log(self, message: str) -> None:
        """Write a message to the client's log."""
        self.window_log_message(types.LogMessageParams(types.MessageType.Info, f"ds-lint: {message}"))

    def read_settings_again(self) -> None:
        """Lint all texts by the files as they are now; what is still wrong with them is worth another message."""
        self._complaints.clear()
        self.lint_all()

    def report_server_error(self, error: BaseException, source: Any) -> None:
        """Write an internal error to the client's log; it is of no use in a message to the user."""
        if isinstance(error, JsonRpcException) and not isinstance(error, JsonRpcInternalError):
            return  # a mistake of the client, which gets the error as its answer
        if source is JsonRpcException and isinstance(error, (ValueError, RecursionError)):  # of the text of a message
            self.protocol.refuse(RefusedMessage(JsonRpcParseError(f"a message cannot be parsed: {error}")))
            return
        data = getattr(error, "data", None)
        trace = "".join([*(data["traceback"] if isinstance(data, dict) else ()), *format_exception(error)])
        message = f"{trace}ds-lint: internal error; please report it with the text that caused it"
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))

    def lenses(self, uri: str) -> list[types.CodeLens]:
        """The lenses of a text: memory, and runs if the client can run commands and the user wants them."""
        opened = self.schedule.config_at(uri)
        found = lenses.lenses(opened, self.schedule.context_of(opened)) if opened is not None else []
        workspace = self.client_capabilities.workspace
        can_run = workspace is not None and workspace.execute_command is not None
        if sys.platform == "win32" or not (can_run and self._shows_runs):
            return found
        return [*found, *self.runs.lenses(uri)]


server = Server()


def serve() -> int:
    """Answer one client on standard input and output until it says that it goes; the exit status."""
    gc.enable()
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # what a client should know goes to its log
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        sys.stdout = sys.stderr  # whatever else is printed must not come between the answers
        server.start_io(BoundedInput(sys.stdin.buffer), answers)  # type: ignore[arg-type]  # it needs no more
    server.runs.close()
    return 0 if server.has_shut_down else 1


@server.feature(types.INITIALIZE)
def _initialize(ls: Server, params: types.InitializeParams) -> None:
    folders = [to_fs_path(folder.uri) for folder in params.workspace_folders or ()]
    root = folders[0] if folders else to_fs_path(params.root_uri) if params.root_uri else params.root_path
    with suppress(OSError, TypeError):  # paths in messages begin there, and so may a project
        os.chdir(root)  # type: ignore[arg-type]
    ls.documents.directory = os.getcwd()
    ls.documents.encoding = str(getattr(encoding := ls.workspace.position_encoding, "value", encoding))
    ls.configure(params.initialization_options)
    if isinstance(params.initialization_options, dict):
        ls.findings_in_hover = params.initialization_options.get(FINDINGS_IN_HOVER) is not False
        ls.runs.may_launch = params.initialization_options.get(MAY_LAUNCH) is not False
    if params.process_id is not None and os.name == "posix":
        _watch(ls, params.process_id)


def _watch(ls: Server, process: int) -> None:
    """End when the client has silently ended, which its pipes do not show if another process keeps them open."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        os._exit(1)
    except OSError:
        pass  # it exists, and belongs to another user
    asyncio.get_running_loop().call_later(_WATCH_PARENT, _watch, ls, process)


def _warm_up() -> None:
    """Load what every text needs, all rules before any thread asks for them; it stays, which spares the collector."""
    every_rule()
    lint(documents.from_bytes(b'{"zero_optimization": {"stag": 3,}}', ""), Basis(knowledge()))
    gc.collect()
    gc.freeze()


@server.feature(types.INITIALIZED)
async def _initialized(ls: Server, _params: types.InitializedParams) -> None:
    _warm_up()
    workspace = ls.client_capabilities.workspace
    if workspace is None:
        return
    watching = workspace.did_change_watched_files
    if watching is not None and watching.dynamic_registration:
        patterns = dict.fromkeys((*SETTINGS_FILES, *PATTERNS, *SCRIPTS))
        watchers = [types.FileSystemWatcher(f"**/{pattern}") for pattern in patterns]
        options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
        registration = types.Registration("ds-lint-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
        await ls.client_register_capability_async(types.RegistrationParams([registration]))
    await _ask_for_configuration(ls)


async def _ask_for_configuration(ls: Server) -> bool:
    """Ask the client for its settings; whether it can be asked."""
    workspace = ls.client_capabilities.workspace
    if workspace is None or not workspace.configuration:
        return False
    item = types.ConfigurationItem(section=configuration.SECTION)
    answer = await ls.workspace_configuration_async(types.ConfigurationParams([item]))
    if answer and isinstance(answer[0], dict):
        ls.configure(answer[0])
    return True


@server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
async def _configuration_changed(ls: Server, params: types.DidChangeConfigurationParams) -> None:
    if await _ask_for_configuration(ls):
        return
    settings = params.settings
    if isinstance(settings, dict):
        ls.configure(settings.get(configuration.SECTION, settings))


@server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
def _files_changed(ls: Server, _params: types.DidChangeWatchedFilesParams) -> None:
    ls.read_settings_again()


@server.feature(types.TEXT_DOCUMENT_DID_SAVE)
def _saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
    opened = ls.documents.get(params.text_document.uri)
    if opened is not None:
        opened.saved()
    ls.lint_all()


@server.feature(types.SHUTDOWN)
def _shut_down(ls: Server, _params: None) -> None:
    ls.has_shut_down = True


@server.feature(types.TEXT_DOCUMENT_HOVER)
def _hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    opened = ls.schedule.config_at(params.text_document.uri)
    if opened is None:
        return None
    ls.schedule.current(opened)
    context = ls.projects.context(opened.path)
    return hover.hover(opened, context, params.position, has_findings=ls.findings_in_hover)


@server.feature(
    types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=['"', ":"], resolve_provider=True)
)
def _completion(ls: Server, params: types.CompletionParams) -> types.CompletionList | None:
    opened = ls.schedule.config_at(params.text_document.uri)
    if opened is None:
        return None
    items = completion.completion(opened, ls.projects.context(opened.path), params.position)
    return types.CompletionList(is_incomplete=False, items=items)


@server.feature(types.COMPLETION_ITEM_RESOLVE)
def _resolve(ls: Server, item: types.CompletionItem) -> types.CompletionItem:
    uri = item.data.get("uri") if isinstance(item.data, dict) else None
    opened = ls.documents.get(uri) if isinstance(uri, str) else None
    return completion.resolved(item, ls.projects.context(opened.path)) if opened is not None else item


@server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[*actions.KINDS]))
async def _code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    opened = ls.schedule.config_at(params.text_document.uri)
    result = ls.schedule.current(opened) if opened is not None else None
    if opened is None or result is None:
        other = ls.documents.get(params.text_document.uri)
        if other is None or not states_requirements(other.path):
            return []
        return pins.actions(other, params.context, ls.projects.context(other.path).fixable)
    find_actions = partial(actions.actions, opened, result, params.context, params.range)
    if len(result.found) <= MANY and len(opened.text) <= LARGE:
        return find_actions()
    found = await ls.schedule.aside(find_actions)
    return found if opened.current is result else []  # typed at meanwhile: the places are others


@server.feature(types.TEXT_DOCUMENT_DOCUMENT_LINK)
def _links(ls: Server, params: types.DocumentLinkParams) -> list[types.DocumentLink]:
    opened = ls.schedule.config_at(params.text_document.uri)
    return list(links.links(opened)) if opened is not None else []


@server.feature(types.TEXT_DOCUMENT_CODE_LENS)
def _lenses(ls: Server, params: types.CodeLensParams) -> list[types.CodeLens]:
    return ls.lenses(params.text_document.uri)


@server.command(RUN_CONFIG)
def _run_config(ls: Server, uri: str, index: int) -> None:
    ls.runs.start_config(uri, index)


@server.command(RUN_LAUNCH)
def _run_launch(ls: Server, uri: str, line: int) -> None:
    ls.runs.start_launch(uri, line)


@server.command(CANCEL_RUN)
def _cancel_run(ls: Server, kind: str, uri: str, place: int) -> None:
    ls.runs.cancel(kind, uri, place)


@server.feature(TARGET)
def _target(ls: Server, params: Any) -> dict[str, object]:
    uri = _uri_of(params)
    opened = ls.documents.get(uri)
    if opened is None:
        return {"uri": uri, "config": False}
    is_config = ls.schedule.config_at(uri) is not None
    return target_of(opened, ls.projects.context(opened.path), ls.schedule.current(opened) if is_config else None)


@server.feature(EXPLAIN)
def _explain(params: Any) -> dict[str, str] | None:
    name = getattr(params, "rule", None)
    if not isinstance(name, str):
        raise JsonRpcInvalidParams(f"{EXPLAIN} takes the code or the name of a rule as `rule`")
    if (advisory := advisories.named(name)) is not None:
        url = f"{SITE}advisories/{advisory['id']}/"
        return {"code": advisory["id"], "name": title(advisory), "url": url, "markdown": advisory_page(advisory)}
    rule = find(name)
    if rule is None:
        return None
    return {"code": rule.code, "name": rule.name, "url": page_url(rule), "markdown": pages.page(rule)}


def _uri_of(params: Any) -> str:
    """The address that a request of our own is about, given alone or as a text document."""
    document = getattr(params, "textDocument", None)
    uri = getattr(document if document is not None else params, "uri", None)
    if not isinstance(uri, str):
        raise JsonRpcInvalidParams(f"{TARGET} takes the address of a text as `uri`")
    return uri
