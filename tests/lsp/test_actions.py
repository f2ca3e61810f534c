"""Quick fixes, and what they make of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_same_findings import offset_of

from ds_lint.fixes.application import edited
from ds_lint.lsp.actions import differences

BROKEN = """{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_cliping": 1.0, "title": "😋 中",
  "zero-optimization": {"stage": 3, "overlap_com": true},
  "bf16": {"enabled": true, "loss_scale": 0},
}
"""
WHOLE = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}


def ask(client, name, place=WHOLE, **context):
    return client.request(
        "textDocument/codeAction",
        textDocument={"uri": client.uri(name)},
        range=place,
        context={"diagnostics": [], **context},
    )


def applied(client, name, text, action):
    ((uri, edits),) = action["edit"]["changes"].items()
    assert uri == client.uri(name)
    for edit in sorted(edits, key=lambda edit: offset_of(text, edit["range"]["start"]), reverse=True):
        start, end = (offset_of(text, edit["range"][side]) for side in ("start", "end"))
        text = text[:start] + edit["newText"] + text[end:]
    return text


def at(line, character):
    position = {"line": line, "character": character}
    return {"start": position, "end": position}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_fix_all_is_what_the_command_line_does(client, run, tmp_path, newline):
    text = BROKEN.replace("\n", newline)
    path = tmp_path / "ds_config.json"
    path.write_bytes(text.encode())
    client.open("ds_config.json", text)
    (action,) = ask(client, "ds_config.json", only=["source.fixAll"])
    assert action["kind"] == "source.fixAll.ds-lint"
    run("check", "--fix", "ds_config.json")
    assert applied(client, "ds_config.json", text, action) == path.read_bytes().decode() != text


def test_every_quick_fix_ends_its_finding(client):
    client.open("ds_config.json", BROKEN)
    before = client.diagnostics("ds_config.json")
    found = [one for one in ask(client, "ds_config.json", only=["quickfix"]) if one.get("diagnostics")]
    assert len(found) >= 3
    for action in found:
        (diagnostic,) = action["diagnostics"]
        assert diagnostic in before
        client.change("ds_config.json", applied(client, "ds_config.json", BROKEN, action))
        after = [one["message"] for one in client.diagnostics("ds_config.json")]
        assert diagnostic["message"] not in after
        assert len(after) < len(before)


def test_a_safe_fix_is_preferred_and_an_unsafe_one_is_marked(client):
    client.open("ds_config.json", BROKEN)
    safe, *_ = ask(client, "ds_config.json", at(2, 4))
    assert safe["title"] == "Rename `gradient_cliping` to `gradient_clipping`"
    assert safe["isPreferred"] is True
    unsafe, *_ = ask(client, "ds_config.json", at(2, 28))
    assert unsafe["title"] == "Delete `title` (unsafe: needs your decision)"
    assert "isPreferred" not in unsafe


def test_only_the_place_of_the_mistake_is_edited(client):
    client.open("ds_config.json", BROKEN)
    action, *_ = ask(client, "ds_config.json", at(2, 4))
    ((edit,),) = action["edit"]["changes"].values()
    assert edit == {"range": at(2, 16), "newText": "p"}


def test_all_can_be_fixed_where_one_can(client):
    client.open("ds_config.json", BROKEN)
    titles = [one["title"] for one in ask(client, "ds_config.json", at(2, 4))]
    assert titles[1].startswith("Fix all auto-fixable problems (")
    assert ask(client, "ds_config.json", at(1, 4)) == []


def test_nothing_is_offered_for_a_clean_text(client):
    client.open("ds_config.json", '{"train_batch_size": 8, "bf16": {"enabled": true}}')
    assert ask(client, "ds_config.json", only=["quickfix", "source"]) == []


@pytest.mark.parametrize("language", ["jsonc", "json5", "hjson"])
def test_a_comment_suppresses_a_finding_where_deepspeed_alone_reads_the_file(start, language):
    client = start().initialize(options={"stack": "deepspeed"})
    client.open("ds_config.json", BROKEN.replace("},\n}", "}\n}"), language)
    before = client.diagnostics("ds_config.json")
    (action,) = [one for one in ask(client, "ds_config.json", at(2, 4)) if one["title"] == "Ignore unknown-key here"]
    text = applied(client, "ds_config.json", BROKEN.replace("},\n}", "}\n}"), action)
    assert '\n  // ds-lint: ignore[unknown-key]\n  "gradient_cliping"' in text
    client.change("ds_config.json", text)
    after = client.diagnostics("ds_config.json")
    assert {one["message"] for one in after} < {one["message"] for one in before}


@pytest.mark.parametrize(
    ("language", "options"),
    [("jsonc", {}), ("jsonc", {"stack": "trainer"}), ("json", {"stack": "deepspeed"}),
     ("jsonc", {"stack": "deepspeed", "deepspeedVersion": "0.7.0"})],
)  # fmt: skip
def test_no_comment_is_offered_that_a_library_would_reject(start, language, options):
    client = start().initialize(options=options)
    client.open("ds_config.json", BROKEN, language)
    assert not [one for one in ask(client, "ds_config.json") if one["title"].startswith("Ignore")]


@given(st.text("ab\r\n", max_size=12), st.text("ab\r\n", max_size=12))
def test_differences_make_one_text_of_another(before, after):
    assert edited(before, differences(before, after)) == after
    for edit in differences(before, after):
        for place in (edit.span.start, edit.span.end):
            assert before[place - 1 : place + 1] != "\r\n" or place == 0


def test_the_settings_say_what_may_be_fixed(client, tmp_path):
    settings = tmp_path / "ds-lint.toml"
    settings.write_text('unfixable = ["unknown-key"]\n')
    client.open("ds_config.json", BROKEN)
    found = [one["title"] for one in ask(client, "ds_config.json")]
    assert "Delete `bf16.loss_scale`" in found
    assert not any("gradient_cliping" in title or "`title`" in title for title in found)
    (action,) = ask(client, "ds_config.json", only=["source.fixAll"])
    assert "gradient_cliping" in applied(client, "ds_config.json", BROKEN, action)
    settings.write_text("unsafe-fixes = true\n")
    client.change("ds_config.json", BROKEN + " ")
    client.diagnostics("ds_config.json")
    (action,) = ask(client, "ds_config.json", only=["source.fixAll"])
    assert '"title"' not in applied(client, "ds_config.json", BROKEN + " ", action)
