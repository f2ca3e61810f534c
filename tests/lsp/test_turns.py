"""When texts are judged, how often, and in which thread the outcome is heard."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from lsprotocol import types

from ds_lint.lsp import schedule
from ds_lint.lsp.documents import LARGE, OpenDocuments
from ds_lint.lsp.lint import judged
from ds_lint.lsp.project import Projects
from ds_lint.lsp.schedule import Schedule

BROKEN = '{"gradient_cliping": 1.0, "train_micro_batch_size_per_gpu": 1}'
NO_BASELINE = 'baseline = "missing.json"\n'


class Hearer:
    """Keeps what it hears, and in which thread."""

    def __init__(self):
        self.published = []  # version and codes
        self.complaints = []
        self.threads = set()
        self.has_heard = asyncio.Event()

    def publish(self, _uri, judgement, version):
        self.published.append((version, [finding.code for finding in judgement.report.findings] if judgement else []))
        self.threads.add(threading.current_thread())
        self.has_heard.set()

    def complain(self, message):
        self.complaints.append(message)
        self.threads.add(threading.current_thread())

    def report_server_error(self, error, _source):
        raise error


class Desk:
    """One open text, and who judges it."""

    def __init__(self, folder, text=BROKEN):
        self.hearer = Hearer()
        self.documents = OpenDocuments()
        self.turns = Schedule(self.documents, Projects(self.hearer.complain), self.hearer)
        self.uri = Path(folder / "ds_config.json").as_uri()
        self.turns.opened(types.TextDocumentItem(self.uri, "json", 1, text))

    def type(self, version, text=BROKEN):
        document = types.VersionedTextDocumentIdentifier(version, self.uri)
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.turns.changed(types.DidChangeTextDocumentParams(document, [whole]))

    async def judged(self):
        """Wait until a judgement is heard."""
        await asyncio.wait_for(self.hearer.has_heard.wait(), 20)
        self.hearer.has_heard.clear()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_fast_typing_is_judged_together(folder):
    async def typing():
        desk = Desk(folder)
        await desk.judged()
        for version in range(2, 400):
            desk.type(version)
        await desk.judged()
        return desk.hearer.published

    assert asyncio.run(typing()) == [(1, ["DS101"]), (399, ["DS101"])]


@pytest.mark.parametrize(("took", "rest"), [(0.25, 0.25), (8.0, 1.0)])
def test_a_text_rests_for_as_long_as_its_judgement_took_but_a_second_at_most(folder, monkeypatch, took, rest):
    now = 100.0

    def slowly(*arguments):
        nonlocal now
        now += took
        return judged(*arguments)

    monkeypatch.setattr(schedule, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(schedule, "judged", slowly)

    async def judging():
        desk = Desk(folder)
        desk.turns.current(opened := desk.documents.get(desk.uri))
        return opened.next_time - now

    assert asyncio.run(judging()) == rest


def test_a_text_is_judged_while_a_large_one_is(folder, monkeypatch):
    may_end = threading.Event()

    def held_back(document, lines, context):
        if len(lines.text) > LARGE:
            may_end.wait(20)
        return judged(document, lines, context)

    monkeypatch.setattr(schedule, "judged", held_back)

    async def judging():
        large, small = Desk(folder, BROKEN + " " * LARGE), Desk(folder)
        await small.judged()
        assert large.hearer.published == []
        may_end.set()
        await large.judged()
        return large.hearer.published

    assert asyncio.run(judging()) == [(1, ["DS101"])]


@pytest.mark.parametrize("text", [BROKEN, BROKEN + " " * LARGE], ids=["on the loop", "aside"])
def test_what_is_found_and_what_cannot_be_read_are_heard_on_the_loop(folder, text):
    (folder / "ds-lint.toml").write_text(NO_BASELINE)

    async def judging():
        desk = Desk(folder, text)
        await desk.judged()
        return desk.hearer

    hearer = asyncio.run(judging())
    assert hearer.published == [(1, ["DS101"])]
    assert ["missing.json" in complaint for complaint in hearer.complaints] == [True]
    assert hearer.threads == {threading.main_thread()}
