"""The report as Markdown, which is shown where strangers write."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ds_lint.output.markdown_report import escaped, limited, render
from ds_lint.output.terminal import Terminal
from ds_lint.source.tree import Span

TEXT = '{\n  "gradient_cliping": 1\n}'


def test_a_table_with_the_worst_first(report, file, finding):
    found = [
        finding(Span(4, 22), severity="info", message="a"),
        finding(Span(4, 22), message="No such key", help="Write `it` right."),
    ]
    head, _, names, _, *rows = render(report(file(TEXT, *found)), Terminal()).splitlines()
    assert head == "### ds-lint: 1 error, 1 info"
    assert names == "| severity | rule | place | finding |"
    page = "https://ds-lint.readthedocs.io/en/latest/rules/DS101-unknown-key/"
    assert rows[:2] == [
        f"| error | [DS101]({page}) unknown-key | `config.json:2:3` | No such key. Write `it` right. |",
        f"| info | [DS101]({page}) unknown-key | `config.json:2:3` | a. |",
    ]
    assert any(line.startswith("Checked against deepspeed 0.18.9") for line in rows)


def test_a_clean_report_has_no_table(report, file):
    assert render(report(file("{}")), Terminal()).startswith("### ds-lint: no findings\n\nconfig.json: no findings.")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b <script> [x](y) *z*", r"a\|b \<script\> \[x\](y) \*z\*"),
        ("unknown key `a|<b>`", r"unknown key <code>a&#124;\<b\></code>"),
        ("one ` alone", r"one \` alone"),
        ("ask @user about #12", "ask @&#8203;user about #&#8203;12"),
        ("`@user`", "`@user`"),
    ],
)
def test_what_is_quoted_does_not_act(text, shown):
    assert escaped(text) == shown


@given(st.text("a`|@#<*[\\_ &"))
def test_no_text_ends_its_cell_or_is_markup(text):
    """By a reader of Markdown that knows the tables of GitHub."""
    page = MarkdownIt("gfm-like", {"linkify": False}).render(f"| a | b |\n|---|---|\n| x{escaped(text)}y | z |\n")
    cells = re.findall("<td>(.*?)</td>", page)
    assert len(cells) == 2
    assert re.sub("</?code>", "", cells[0]).count("<") == 0
    assert cells[1] == "z"


def test_what_there_is_no_room_for_is_counted(report, file, finding):
    whole = report(file(TEXT, *(finding(Span(4, 22), message=f"梯 {number}") for number in range(200))))
    text = limited(whole, 5000)
    assert len(text.encode()) <= 5000
    rows = text.count("| error |")
    assert 10 < rows < 200
    assert f"And {200 - rows} findings more, for which there is no room here.\n" in text
    assert limited(whole, 10**6) == render(whole, Terminal())
