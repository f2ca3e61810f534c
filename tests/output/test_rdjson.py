"""The format of reviewdog, by the words of its ``proto/rdf/reviewdog.proto``."""

from __future__ import annotations

import json

import pytest

from ds_lint.diagnostics.finding import Edit, Fix
from ds_lint.output import renderer
from ds_lint.output.terminal import Terminal
from ds_lint.source.tree import Span


@pytest.fixture
def diagnostic(report, file, finding):
    """What a finding about a part of a text becomes."""

    def diagnostic(text, span, **changes):
        rendered = renderer("rdjson")(report(file(text, finding(span, **changes))), Terminal())
        result = json.loads(rendered)
        assert result.keys() == {"source", "diagnostics"}
        (found,) = result["diagnostics"]
        return found

    return diagnostic


def applied(text, suggestion):
    """The text with a suggestion, as reviewdog applies it: lines and bytes."""
    lines = text.encode("utf-8", "surrogateescape").splitlines(keepends=True)

    def offset(position):
        return sum(map(len, lines[: position["line"] - 1])) + position["column"] - 1

    data = b"".join(lines)
    start, end = offset(suggestion["range"]["start"]), offset(suggestion["range"]["end"])
    changed = data[:start] + suggestion["text"].encode() + data[end:]
    return changed.decode("utf-8", "surrogateescape")


def test_a_finding(diagnostic, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = diagnostic('{\n  "gradient_cliping": 1\n}', Span(4, 22), severity="warning", help="Write it right.")
    assert found == {
        "message": "DeepSpeed knows no such key. Write it right.",
        "location": {
            "path": f"{tmp_path}/config.json",
            "range": {"start": {"line": 2, "column": 3}, "end": {"line": 2, "column": 21}},
        },
        "severity": "WARNING",
        "code": {"value": "DS101", "url": "https://ds-lint.readthedocs.io/en/latest/rules/DS101-unknown-key/"},
    }


def test_columns_are_bytes_of_utf8(diagnostic):
    text = '{"梯😀": 1, "\udcff": 2, "x": 3}'
    start = text.index('"x"')
    place = diagnostic(text, Span(start, start + 3))["location"]["range"]
    assert place["start"] == {"line": 1, "column": len(text[:start].encode("utf-8", "surrogateescape")) + 1}
    assert place["end"]["column"] == place["start"]["column"] + 3


def test_a_suggestion_has_all_edits_of_a_fix(diagnostic):
    text = '{\r\n  "梯": 1,\r\n  "lr": 1,\r\n  "params": {}\r\n}'
    delete, write = text.index('"lr": 1'), text.index("{}")
    fix = Fix("Move `lr`", "safe", [Edit(Span(write, write + 2), '{"lr": 1}'), Edit(Span(delete, delete + 8), "")])
    (suggestion,) = diagnostic(text, Span(delete, delete + 4), fix=fix)["suggestions"]
    assert applied(text, suggestion) == text.replace('"lr": 1,', "").replace("{}", '{"lr": 1}')


def test_no_suggestion_has_a_secret_between_its_edits(diagnostic):
    text = '{"a": 1, "note": "https://me:pa55word@host/", "b": 2}'
    edits = [Edit(Span(text.index("1"), text.index("1") + 1), "3"), Edit(Span(text.index("2}"), len(text) - 1), "4")]
    assert "suggestions" not in diagnostic(text, Span(1, 4), fix=Fix("Change both", "safe", edits))


def test_every_suggestion_of_an_example_is_the_fix(run, tmp_path):
    text = '{\n  "train_micro_batch_size_per_gpu": 1,\n  /* größe 😀 */ "gradient_cliping": 1.0\n}\n'
    (tmp_path / "ds.json").write_text(text, encoding="utf-8")
    report = json.loads(run("check", "ds.json", "--stack", "deepspeed", "--output-format", "rdjson").stdout)
    (suggestion,) = (one["suggestions"][0] for one in report["diagnostics"] if "suggestions" in one)
    assert run("check", "ds.json", "--stack", "deepspeed", "--fix-only").returncode == 0
    assert (tmp_path / "ds.json").read_text(encoding="utf-8") == applied(text, suggestion)


def test_what_would_not_be_fixed_is_no_suggestion(run, tmp_path):
    text = '{"gradient_cliping": 0.5, "train_micro_batch_size_per_gpu": 4, "zero-optimization": {"stage": 3}}'
    (tmp_path / "ds.json").write_text(text, encoding="utf-8")
    assert "(safe, not applied: it would cause DS302)" in run("check", "ds.json", "--stack", "deepspeed").stdout
    report = json.loads(run("check", "ds.json", "--stack", "deepspeed", "--output-format", "rdjson").stdout)
    assert ["suggestions" in one for one in report["diagnostics"]] == [True, False]
