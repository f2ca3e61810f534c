"""When texts are linted, how often, and in which thread the outcome is heard."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from lsprotocol import types

from ds_lint.lsp import schedule
from ds_lint.lsp.documents import LARGE, OpenDocuments
from ds_lint.lsp.lint import lint_text
from ds_lint.lsp.project import Projects
from ds_lint.lsp.schedule import Schedule

BROKEN = '{"gradient_cliping": 1.0, "train_micro_batch_size_per_gpu": 1}'
NO_BASELINE = 'baseline = "missing.json"\n'


class RecordingListener:
    """Keeps what it hears, and in which thread."""

    def __init__(self):
        self.published = []  # version and codes
        self.complaints = []
        self.threads = set()
        self.is_published = asyncio.Event()

    def publish(self, _uri, result, version):
        self.published.append((version, [found.finding.code for found in result.found] if result else []))
        self.threads.add(threading.current_thread())
        self.is_published.set()

    def facts_changed(self):
        """No client shows lenses."""

    def show_elsewhere(self, _path, _result):
        """No other text is open."""

    def complain(self, message):
        self.complaints.append(message)
        self.threads.add(threading.current_thread())

    def report_server_error(self, error, _source):
        raise error


class Desk:
    """One open text, and who lints it."""

    def __init__(self, folder, text=BROKEN):
        self.listener = RecordingListener()
        self.documents = OpenDocuments()
        self.schedule = Schedule(self.documents, Projects(self.listener.complain), self.listener)
        self.uri = Path(folder / "ds_config.json").as_uri()
        self.schedule.opened(types.TextDocumentItem(self.uri, "json", 1, text))

    def type(self, version, text=BROKEN):
        document = types.VersionedTextDocumentIdentifier(version, self.uri)
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.schedule.changed(types.DidChangeTextDocumentParams(document, [whole]))

    async def linted(self):
        """Wait until a result is heard."""
        await asyncio.wait_for(self.listener.is_published.wait(), 20)
        self.listener.is_published.clear()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_fast_typing_is_linted_together(folder):
    async def typing():
        desk = Desk(folder)
        await desk.linted()
        for version in range(2, 400):
            desk.type(version)
        await desk.linted()
        return desk.listener.published

    assert asyncio.run(typing()) == [(1, ["DS101"]), (399, ["DS101"])]


@pytest.mark.parametrize(("took", "rest"), [(0.25, 0.25), (8.0, 1.0)])
def test_a_text_rests_for_as_long_as_linting_it_took_but_a_second_at_most(folder, monkeypatch, took, rest):
    now = 100.0

    def slowly(*arguments):
        nonlocal now
        now += took
        return lint_text(*arguments)

    monkeypatch.setattr(schedule, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(schedule, "lint_text", slowly)

    async def linting():
        desk = Desk(folder)
        desk.schedule.current(opened := desk.documents.get(desk.uri))
        return opened.next_time - now

    assert asyncio.run(linting()) == rest


def test_a_text_is_linted_while_a_large_one_is(folder, monkeypatch):
    may_end = threading.Event()

    def delayed(configs, lines, context, verdicts):
        if len(lines.text) > LARGE:
            may_end.wait(20)
        return lint_text(configs, lines, context, verdicts)

    monkeypatch.setattr(schedule, "lint_text", delayed)

    async def linting():
        large, small = Desk(folder, BROKEN + " " * LARGE), Desk(folder)
        await small.linted()
        assert large.listener.published == []
        may_end.set()
        await large.linted()
        return large.listener.published

    assert asyncio.run(linting()) == [(1, ["DS101"])]


@pytest.mark.parametrize("text", [BROKEN, BROKEN + " " * LARGE], ids=["on the loop", "aside"])
def test_what_is_found_and_what_cannot_be_read_are_heard_on_the_loop(folder, text):
    (folder / "ds-lint.toml").write_text(NO_BASELINE)

    async def linting():
        desk = Desk(folder, text)
        await desk.linted()
        return desk.listener

    listener = asyncio.run(linting())
    assert listener.published == [(1, ["DS101"])]
    assert ["missing.json" in complaint for complaint in listener.complaints] == [True]
    assert listener.threads == {threading.main_thread()}
