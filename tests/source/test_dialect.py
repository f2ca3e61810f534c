from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from json_texts import ANY
from test_hjson_reader import by_the_package

from ds_lint.source.dialect import ALWAYS, DEPENDS, KINDS, NEVER, hjson_refusal, json_refuses, refused_by
from ds_lint.source.json import decode, parse
from ds_lint.source.limits import MOST_NESTING_HJSON, MOST_NESTING_JSON

# For each kind of issue texts that have no other, so that a refusal of the text is one of the construct. Where what a
# reader does depends on the text, there is one that it reads and one that it refuses.
TEXTS = {
    "bad-escape": ['{"a": "\\x"}', '{"a": "\\\'"}'],
    "bom": ['\ufeff{"a": 1}'],
    "comment": ['{"a": /* b */ 1 // c\n}', "{# d\n}"],
    "control-character": ['{"a": "\t"}', '{"a": "b\nc"}'],
    "deep-nesting": [nesting.join(['{"a":' * depth, "}" * depth]) for nesting in ("1", "[]") for depth in (600, 1000)],
    "duplicate-key": ['{"a": 1, "a": 1}', '{"a": {"b": 1, "b": 2}}'],
    "empty": ["", " \n"],
    "extra-comma": ['{"a": 1,, "b": 2}', "{,}", '{"a": [,1]}'],
    "infinite-number": ['{"a": 1e400}'],
    "long-integer": ['{"a": ' + "1" * 5000 + "}"],
    "missing-colon": ['{"a" 1}', '{"a" = 1}'],
    "missing-comma": ['{"a": 1 "b": 2}', '{"a": 1\n"b": 2}'],
    "missing-key": ['{"a": 1, : 2}', '{"a": 1, {"b": 2}}', '{"a": 1{"b": 2}\n}'],
    "missing-value": ['{"a": }', '{"a":\n"b": 1}'],
    "no-braces": ['"a": 1', '"a": 1, "b": {"c": 2}'],
    "not-a-number": ['{"a": NaN}', '{"a": -Infinity\n}'],
    "not-an-object": ["[]", '"a"', "1", "null"],
    "number-format": ['{"a": 01}', '{"a": .5\n}'],
    "python-literal": ['{"a": True}', '{"a": None\n}'],
    "single-quotes": ["{'a': 'b'}"],
    "stray-text": ['{"a": 1} b', '{"a": 1 b\n}'],
    "template": ['{"a": "${B}"}', '{"a": ${B}}', '{"a": ${B}\n}'],
    "trailing-comma": ['{"a": 1,}', '{"a": [1,]}'],
    "triple-quotes": ["{\"a\": '''b'''}", "{\n\"a\": '''b'''}"],
    "unclosed": ['{"a": 1', '{"a": [1}', '{"a": 1} /* b'],
    "unopened": ['"a": 1}', '"a": {"b": 1}, "c": 2}'],
    "unquoted-key": ["{a: 1}", "{a b: 1}"],
    "unquoted-value": ['{"a": b}', '{"a": b\n}'],
    "unterminated-string": ['{"a": "b}', '{"a: 1}'],
}


def test_there_is_a_text_for_every_kind():
    assert set(TEXTS) | {"not-utf8"} == KINDS


@pytest.mark.parametrize("kind", TEXTS)
def test_the_table_says_who_refuses_a_construct(kind):
    for text in TEXTS[kind]:
        assert {issue.kind for issue in parse(text, "x.json").issues} == {kind}, text
    if kind == "deep-nesting":
        assert MOST_NESTING_HJSON < 600 < MOST_NESTING_JSON < 1000  # the readers' own tests measure these
        return
    refusal = refused_by(kind)
    assert _summary([_json_refuses(text) for text in TEXTS[kind]]) == refusal.json
    hjson = _summary([by_the_package(text)[0] != "read" for text in TEXTS[kind]])
    alone = {("empty", NEVER), ("missing-value", ALWAYS), ("unclosed", ALWAYS)}
    assert hjson == refusal.hjson or (kind, hjson) in alone


def test_what_depends_on_more_than_one_kind():
    assert by_the_package("\ufeff")[0] != "read"
    assert by_the_package('{"a":\n  b: 1\n}') == ("read", "{'a': 'b: 1'}")
    assert by_the_package("0/*:0") == ("read", "{'0/*': 0}")


def test_both_refuse_bytes_that_are_no_utf8():
    text, issue = decode('{"é": 1}'.encode("latin-1"))
    assert issue
    assert (refused_by(issue.kind).json, refused_by(issue.kind).hjson) == (ALWAYS, ALWAYS)
    assert parse(text, "x.json").issues == []


@given(ANY)
@example("{//\r0\n}")  # the comment ends with the carriage return
@settings(max_examples=400, deadline=None)
def test_kinds_that_never_or_always_matter_do_so_together_too(text):
    document = parse(text, "x.json")
    verdicts = {refused_by(issue.kind).hjson for issue in document.issues}
    assert json_refuses(document) == _json_refuses(text)
    if DEPENDS not in verdicts:
        assert (hjson_refusal(document) is not None) == (ALWAYS in verdicts)
        assert (by_the_package(text)[0] != "read") == (ALWAYS in verdicts)


def _json_refuses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def _summary(refused: list[bool]) -> str:
    return DEPENDS if len(set(refused)) > 1 else ALWAYS if refused[0] else NEVER
