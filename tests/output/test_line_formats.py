"""Formats that are lines: of pylint, and grouped by file."""

from __future__ import annotations

import re

from ds_lint.output.grouped import render as grouped
from ds_lint.output.pylint import render as pylint
from ds_lint.output.terminal import Terminal
from ds_lint.source.tree import Span

TEXT = '{\n  "gradient_cliping": 1,\n' + "\n" * 8 + '  "b": 2\n}'
# As the warnings plugin of Jenkins reads what pylint prints.
OF_PYLINT = re.compile(r"^(?P<path>[^:]*):(?P<line>\d+): \[(?P<code>\w+)\] (?P<message>.*)$")


def test_pylint_has_a_line_for_each_finding_and_no_other(report, file, finding):
    texts = [pylint(report(file(TEXT, finding(Span(4, 22), help="Write it right."))), Terminal()), ""]
    assert texts[0] == "config.json:2: [DS101] DeepSpeed knows no such key. Write it right.\n"
    assert OF_PYLINT.match(texts[0])["line"] == "2"
    assert pylint(report(file(TEXT)), Terminal()) == ""


def test_pylint_does_not_break_lines(report, file, finding):
    text = pylint(report(file(TEXT, finding(Span(4, 22), message="one\ntwo"), path="a\nb.json")), Terminal())
    assert text == "a<U+000A>b.json:2: [DS101] one<U+000A>two.\n"


def test_grouped_has_a_block_for_each_file(report, file, finding):
    last = TEXT.index('"b"')
    files = [
        file(TEXT, finding(Span(4, 22)), finding(Span(last, last + 3), severity="warning"), path="a.json"),
        file(TEXT, path="clean.json"),
        file(TEXT, finding(Span(4, 22)), path="b.json"),
    ]
    assert grouped(report(*files), Terminal()).splitlines()[:8] == [
        "a.json:",
        "  2:3  DS101 [error] DeepSpeed knows no such key (ignored)",
        "  11:3 DS101 [warning] DeepSpeed knows no such key (ignored)",
        "",
        "b.json:",
        "  2:3 DS101 [error] DeepSpeed knows no such key (ignored)",
        "",
        "2 errors, 1 warning in 2 of 3 files",
    ]
