"""The concise format: one line a finding."""

from __future__ import annotations

from ds_lint.output.concise import render
from ds_lint.output.terminal import Terminal
from ds_lint.source.tree import Span

LINTED = "Checked against deepspeed 0.18.9, transformers 5.12.0, accelerate 1.12.0; stack trainer\n"


def test_one_line_a_finding_and_the_summary(report, file, finding, span):
    text = '{\n  "a": 1,\n  "b": 2\n}'
    second = finding(span(text, '"b"'), severity="warning", code="DS207", effect="risk", message="may be slow")
    files = [file(text, second, finding(span(text, '"a"'))), file("{}", path="clean.json")]
    assert render(report(*files), Terminal()) == (
        "config.json:2:3: DS101 [error] DeepSpeed knows no such key (ignored)\n"
        "config.json:3:3: DS207 [warning] may be slow (risk)\n"
        "1 error, 1 warning in 1 of 2 files\n" + LINTED + "For details: ds-lint explain DS101\n"
    )


def test_a_clean_file_has_only_the_summary(report, file):
    assert render(report(file("{}")), Terminal()) == "config.json: no findings. " + LINTED


def test_a_record_stays_one_line_whatever_it_holds(report, file, finding):
    found = finding(Span(0, 1), message="a\nb\x1b[0m " + "word " * 40)
    first, second = render(report(file("{}", found, path="a\nb.json")), Terminal(width=40)).split("\n")[:2]
    assert first.startswith("a<U+000A>b.json:1:1: DS101 [error] a<U+000A>b<U+001B>[0m word word")
    assert second == "1 error in a<U+000A>b.json"


def test_colours(report, file, finding):
    line = render(report(file("{}", finding(Span(0, 1)))), Terminal(colour=True)).split("\n")[0]
    assert line == (
        "\x1b[1mconfig.json\x1b[0m:1:1: \x1b[1;31mDS101 [error]\x1b[0m DeepSpeed knows no such key (ignored)"
    )


def test_what_a_run_has_confirmed(report, file, finding):
    found = finding(Span(0, 1))
    found.confirmed = "nothing has read it"
    line = render(report(file("{}", found)), Terminal()).split("\n")[0]
    assert line.endswith("DeepSpeed knows no such key (ignored; a run confirms it)")
