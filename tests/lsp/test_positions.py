from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from ds_lint.lsp.positions import Lines
from ds_lint.source.tree import Span

TEXTS = st.text(alphabet="ab 中😋\ud83d\r\n\x0b\x85\u2028é\t", max_size=30)
ENCODINGS = st.sampled_from(["utf-8", "utf-16", "utf-32"])


@pytest.mark.parametrize(
    ("encoding", "character"), [("utf-8", 11), ("utf-16", 5), ("utf-32", 4)], ids=["utf-8", "utf-16", "utf-32"]
)
def test_columns_count_the_units_that_were_agreed_on(encoding, character):
    lines = Lines('{}\n中é"😋"', encoding)
    position = lines.position(len('{}\n中é"😋'))
    assert position == types.Position(1, character - (encoding == "utf-8"))
    assert lines.offset(position) == len('{}\n中é"😋')


def test_lines_end_where_the_protocol_says_and_nowhere_else():
    lines = Lines("a\r\nb\rc\nd\x0be\u2028f")
    assert [lines.position(place).line for place in (0, 3, 5, 7, 9, 11)] == [0, 1, 2, 3, 3, 3]


def test_what_lies_behind_a_line_is_its_end():
    lines = Lines("ab\r\ncd")
    assert lines.offset(types.Position(0, 99)) == 2
    assert lines.offset(types.Position(1, 99)) == 6
    assert lines.offset(types.Position(99, 0)) == 6


@given(TEXTS, ENCODINGS, st.integers(0, 30))
def test_every_place_has_one_position(text, encoding, place):
    lines = Lines(text, encoding)
    place = min(place, len(text))
    if text[place - 1 : place + 1] == "\r\n" or "\ud83d" in text:
        return  # between the two characters of a line end there is no position
    assert lines.offset(lines.position(place)) == place


@given(TEXTS, ENCODINGS, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), TEXTS), max_size=4))
def test_the_lines_of_an_edited_text_are_those_of_the_text(text, encoding, edits):
    lines = Lines(text, encoding)
    for start, length, new in edits:
        lines.position(len(lines.text))  # all lines are found
        start = min(start, len(lines.text))  # noqa: PLW2901
        lines = lines.replaced(start, min(start + length, len(lines.text)), new)
    for place in range(len(lines.text) + 1):
        assert lines.range(Span(place, place)) == Lines(lines.text, encoding).range(Span(place, place))


def test_a_mark_that_the_client_does_not_have_is_not_counted():
    lines = Lines("\ufeff{}\n{}", hidden=1)
    assert lines.offset(types.Position(0, 0)) == 1
    assert lines.position(0) == lines.position(1) == types.Position(0, 0)
    assert lines.range(Span(1, 6)) == types.Range(types.Position(0, 0), types.Position(1, 2))
    edited = lines.replaced(1, 2, "[")
    assert (edited.text, edited.position(2)) == ("\ufeff[}\n{}", types.Position(0, 1))
