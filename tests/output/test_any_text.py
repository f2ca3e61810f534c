"""Whatever a file holds and wherever a span lies, every format renders it, safely and in place."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_lint.diagnostics.finding import EFFECTS, SEVERITIES, Fix, Related
from ds_lint.output import FORMATS, renderer
from ds_lint.output.full import render as full
from ds_lint.output.terminal import Terminal
from ds_lint.output.text import visible, width_of
from ds_lint.source.tree import Span

ANY = st.text(st.characters(codec=None, categories=None) | st.sampled_from(" \t\r\n\ufeff梯\x1b\u0301\ud800"))
LONG = st.builds(str.__mul__, ANY, st.integers(1, 60))


@st.composite
def texts_with_spans(draw, texts=ANY | LONG):
    """A text and three spans in it."""
    text = draw(texts)
    offsets = st.integers(0, len(text))
    return text, [Span(*sorted((draw(offsets), draw(offsets)))) for _ in range(3)]


@pytest.mark.parametrize("name", FORMATS)
@given(
    placed=texts_with_spans(),
    words=ANY,
    severity=st.sampled_from(SEVERITIES),
    effect=st.sampled_from(EFFECTS),
    width=st.none() | st.integers(1, 200),
    colour=st.booleans(),
)
def test_every_format_renders_it(report, file, finding, name, placed, words, severity, effect, width, colour):
    text, (primary, second, third) = placed
    found = finding(
        primary,
        severity=severity,
        effect=effect,
        message=words,
        help=words,
        label=words,
        fix=Fix(words, "safe", []),
        related=[Related(second, words), Related(third, words, "other.json"), Related(third, words, words or "x")],
    )
    rendered = renderer(name)(
        report(file(text, found), file(text, path="other.json")), Terminal(width, colour, "utf-8")
    )
    plain = re.sub(r"\x1b\[[0-9;]+m", "", rendered) if colour else rendered
    assert plain.replace("\n", "").isprintable()
    assert rendered.encode()
    if name == "json":
        assert json.loads(rendered)


@given(texts_with_spans(), st.integers(30, 200))
def test_source_fits_the_terminal(report, file, finding, placed, width):
    text, spans = placed
    found = finding(spans[0], related=[Related(span, "") for span in spans[1:]])
    for row in full(report(file(text, found)), Terminal(width, encoding="utf-8")).split("\n"):
        if re.match(r" *\d* \|", row):
            assert width_of(row) <= width


@given(texts_with_spans(st.text("ab 梯度\x1b\u202e", max_size=30) | st.text("ab 梯\n", max_size=60)))
def test_carets_lie_under_the_span(report, file, finding, placed):
    text, (span, *_) = placed
    inside = text[span.start : span.end]
    if "\n" in inside or not inside.strip():
        return
    rows = full(report(file(text, finding(span))), Terminal(400, encoding="utf-8")).split("\n")
    carets = next(index for index, row in enumerate(rows) if re.fullmatch(r" +\| +\^+", row))
    cells = "".join(c + "\0" * (width_of(c) - 1) for c in rows[carets - 1])  # one element a column
    start, stop = rows[carets].index("^"), len(rows[carets])
    assert cells[start:stop].replace("\0", "") == visible(inside)
