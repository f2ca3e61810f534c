"""Whatever is typed, the server answers."""

from __future__ import annotations

import json
import random
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from lsprotocol import types

from ds_lint.lsp import actions, completion, diagnostics, hover, links
from ds_lint.lsp.documents import OpenDocument
from ds_lint.lsp.lint import lint_text
from ds_lint.session.options import Options
from ds_lint.session.session import Session

BROKEN = '{\n  "zero_optimization": {"stage": 3},\n  "gradient_cliping": 1.0\n}\n'
PIECES = [
    *('"', "{", "}", "[", "]", ",", ":", "//", "/*", "'''", "\r", "\n", "\\", "\ufeff", "\x00", "😋", "\ud800"),
    *("auto", "1e999", "null", "${X}", '"optimizer": {"type": "Adam", "params": {', '"fp16"', "ds-lint: ignore[DS101]"),
]
CONTEXT = Session(Options([], isolated=True)).context("/ds_config.json")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES)), max_size=6), st.floats(0, 1))
@example([(0.8125, 12, "\\")], 1.0)  # a backslash before the end of the line
def test_no_text_is_too_broken_for_an_answer(edits, place):
    opened = OpenDocument(
        types.TextDocumentItem("file:///ds_config.json", "jsonc", 1, BROKEN), "/ds_config.json", "utf-16"
    )
    for start, length, text in edits:
        first = int(start * len(opened.text))
        around = types.Range(opened.lines.position(first), opened.lines.position(first + length))
        opened.change([types.TextDocumentContentChangePartial(around, text)], 2)
    opened.result = lint_text(opened.configs, opened.lines, CONTEXT)
    diagnostics.diagnostics(opened.result, opened.uri)
    position = opened.lines.position(int(place * len(opened.text)))
    hover.hover(opened, CONTEXT, position)
    for item in completion.completion(opened, CONTEXT, position):
        start, end = opened.lines.span(item.text_edit.range)
        assert start <= opened.lines.offset(position) <= end
        assert not set("\r\n") & set(opened.text[start:end])
    list(links.links(opened))
    context = types.CodeActionContext([], only=["quickfix", "source"])
    whole = types.Range(types.Position(0, 0), opened.lines.position(len(opened.text)))
    for action in actions.actions(opened, opened.result, context, whole):
        for edit in action.edit.changes[opened.uri]:
            opened.lines.span(edit.range)


def test_texts_of_client_and_server_stay_the_same(client):
    """Random edits in UTF-16, of which the tests keep their own copy."""
    chance = random.Random(6)
    text = BROKEN
    client.open("ds_config.json", text)
    for _ in range(60):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice([0, 0, 0, 1, 3]))
        if "\r\n" in (text[start - 1 : start + 1], text[end - 1 : end + 1]):
            continue  # no position of the protocol
        new = chance.choice(['"', "x", "\r\n", "\n", "\r", "😋", "中", "\u2028", "{", "}", ","])
        client.change("ds_config.json", ({"start": _position(text, start), "end": _position(text, end)}, new))
        text = text[:start] + new + text[end:]
    edited = client.diagnostics("ds_config.json")
    client.change("ds_config.json", text)
    assert client.diagnostics("ds_config.json") == edited


def _position(text, offset):
    before = text[:offset]
    start = max((found.end() for found in re.finditer("\r\n|\r(?!\n)|\n", before)), default=0)
    line = len(re.findall("\r\n|\r|\n", before))
    return {"line": line, "character": len(before[start:].encode("utf-16-le")) // 2}


def test_after_fast_typing_the_last_text_is_linted(client):
    client.open("ds_config.json", BROKEN)
    client.diagnostics("ds_config.json")
    for number in range(400):
        client.change("ds_config.json", BROKEN.replace("1.0", str(number)))
    found = client.diagnostics("ds_config.json")
    assert [one["code"] for one in found if one["code"] == "DS101"] == ["DS101"]


def test_a_huge_text_is_linted_beside_others(start):
    client = start().initialize()
    keys = {f"key_{number}": {"stage": number, "more": "x" * 2_500} for number in range(2_000)}
    text = json.dumps({"zero_optimization": {"stage": 3, **keys}}, indent=1)
    assert len(text) > 5_000_000
    client.open("huge.json", text)
    client.open("ds_config.json", BROKEN)
    assert client.diagnostics("ds_config.json")
    client.change("huge.json", ({"start": {"line": 1, "character": 1}, "end": {"line": 1, "character": 1}}, " "))
    assert client.at("textDocument/hover", "ds_config.json", 2, 6)
    assert client.at("textDocument/completion", "huge.json", 2, 6) is None
    found = client.diagnostics("huge.json")
    assert len(found) == 1001
    assert found[-1]["message"].endswith("findings; the editor shows 1000 of them, ds-lint check all")
    assert client.end() == 0


def test_deep_nesting_is_a_finding(client):
    client.open("ds_config.json", '{"zero_optimization": ' * 20_000)
    assert client.diagnostics("ds_config.json")
    client.at("textDocument/hover", "ds_config.json", 0, 90_000)
    client.at("textDocument/completion", "ds_config.json", 0, 90_000)


def test_requests_about_texts_that_are_not_open_have_no_answer(client):
    assert client.at("textDocument/hover", "nowhere.json", 0, 0) is None
    assert client.at("textDocument/completion", "nowhere.json", 0, 0) is None
    assert client.request("ds-lint/target", uri="file:///nowhere.json") == {
        "uri": "file:///nowhere.json",
        "config": False,
    }
    client.notify("textDocument/didChange", textDocument={"uri": "file:///nowhere.json", "version": 2},
                  contentChanges=[{"text": ""}])  # fmt: skip
    client.notify("textDocument/didClose", textDocument={"uri": "file:///nowhere.json"})
    client.request("ds-lint/target", uri="")
    assert not client.logged()


def test_a_request_that_is_cancelled_or_unknown_is_answered_all_the_same(client):
    client.open("ds_config.json", BROKEN)
    number = client.start_request("textDocument/documentLink", {"textDocument": {"uri": client.uri("ds_config.json")}})
    client.notify("$/cancelRequest", id=number)
    client.answer(number)
    client.notify("ds-lint/nothing")
    client.request("ds-lint/target", uri="")
