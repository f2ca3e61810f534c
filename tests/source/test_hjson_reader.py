from __future__ import annotations

import io
import os
import threading
from collections import Counter

import pytest
from hypothesis import given, settings
from json_texts import ANY, CONFIGS, VALID, assert_spans_nest, marked

from ds_lint.source import hjson, json, tree
from ds_lint.source.limits import MOST_NESTING_HJSON
from ds_lint.source.tree import Node, Span, plain, walk

READ = [
    # text with the value of the first member marked; what is read
    ('{"a": «1»}', {"a": 1}),
    ("{a: «1»\n b: 2}", {"a": 1, "b": 2}),
    ("{\r\n  a: «true» // c\r\n\r\n b: 2 # d\r\n}", {"a": True, "b": 2}),
    ("{a: /* c */ «'b \"c\"'», 'd': 1, }", {"a": 'b "c"', "d": 1}),
    ('{"a": «x y, "b": 1}»\n}', {"a": 'x y, "b": 1}'}),
    ('{"a": «.5,»\n "b": 1}', {"a": ".5,", "b": 1}),
    ('{"a": «True,»\n "b": 1}', {"a": "True,", "b": 1}),
    ("{a: «NaN»\n}", {"a": "NaN"}),
    ("{a: «null», b: 1}", {"a": None, "b": 1}),
    ("{a: «nullify»\n}", {"a": "nullify"}),
    ("{a: «5e8» }", {"a": 500000000}),
    ("{a: «-0.0» }", {"a": 0}),
    ("{a: «0.5» }", {"a": 0.5}),
    ("{a: «1e10» }", {"a": 1e10}),
    ("{a: «9999999999.0» }", {"a": 9999999999}),
    ('{"a": «"x"» "b": 1}', {"a": "x", "b": 1}),
    ('{"a": «[1, 2,]»}', {"a": [1, 2]}),
    ("{\n  a: «'''\n       b\n   'c' \n     '''»\n}", {"a": "  b\n'c' "}),
    ("a: «1»\nb: 2", {"a": 1, "b": 2}),
    ("a:\n  «stage: 2»\nb: 1", {"a": "stage: 2", "b": 1}),
    ("\ufeff{a: «1»}", {"a": 1}),
]

REFUSED = [
    # text with the place of the refusal marked; the exception; its message, or how it begins
    ('{"a": 1, «"a"»: 2}', "ValueError", "Duplicate keys in DeepSpeed config: ['a']"),
    ('{"a": True, "b": 1}«»', "HjsonDecodeError", "Bad key name (eof): line 1 column 20 (char 19)"),
    ('{\r\n"a": 1,«,»}', "HjsonDecodeError", "Found ',' where a key name was expected"),
    ("{a« »b: 1}", "HjsonDecodeError", "Found whitespace in your key name"),
    ('{"a": 1} «x y»', "HjsonDecodeError", "Extra data: line 1 column 10 - line 1 column 13 (char 9 - 12)"),
    ('{"a": «,» "b": 1}', "HjsonDecodeError", "Found a punctuator character"),
    ('{"a" «1»}', "HjsonDecodeError", "Expecting ':' delimiter"),
    ('{"a": "\t«b»"}', "HjsonDecodeError", "Invalid control character 'b' at"),
    ('{"a": "\\«x»"}', "HjsonDecodeError", "Invalid \\X escape sequence 'x'"),
    ('{"a": «"»b}', "HjsonDecodeError", "Unterminated string starting at"),
    ("{a: 1 «/* b}»", "IndexError", "string index out of range"),
    ("{a: «'''»b'''}", "IndexError", "string index out of range"),
    ('{"a": «1e400»}', "OverflowError", "cannot convert float infinity to integer"),
    ('{"a": «' + "1" * 4301 + "»}", "ValueError", "Exceeds the limit (4300 digits) for integer string conversion"),
    ('{"a":' * MOST_NESTING_HJSON + "«[»]", "RecursionError", "maximum recursion depth exceeded"),
    ("\ufeff«»", "HjsonDecodeError", "Bad key name (eof)"),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_reads_what_deepspeed_reads(text, value):
    text, span = marked(text)
    root = hjson.parse(text)
    assert repr(plain(root)) == repr(value)
    assert root.members[0].value.span == span
    assert by_the_package(text) == ("read", repr(value))


@pytest.mark.parametrize(("text", "exception", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_refuses_what_deepspeed_refuses(text, exception, message):
    text, span = marked(text)
    with pytest.raises(hjson.Refused) as caught:
        hjson.parse(text)
    assert (caught.value.exception, caught.value.span) == (exception, span)
    assert str(caught.value).startswith(message)
    assert by_the_package(text)[0] == exception


@pytest.mark.parametrize(("text", "value"), [("", {}), (" \n# c\n", {}), ("[]", []), (" 'a' ", "a"), ("12", 12)])
def test_a_text_without_members_is_read_too(text, value):
    assert plain(hjson.parse(text)) == value
    assert by_the_package(text) == ("read", repr(value))


def test_spans_count_carriage_returns():
    text = "{\r\n  a: b c\r\n\r\n  d: [1\r\n2]\r\n}\r\n"
    root = hjson.parse(text)
    assert [text[member.key_span.start : member.key_span.end] for _, member in walk(root)] == ["a", "d"]
    values = [text[member.value.span.start : member.value.span.end] for _, member in walk(root)]
    assert values == ["b c", "[1\r\n2]"]
    assert root.span == Span(0, len(text) - 2)


@pytest.mark.parametrize("change", [-20, +20])
def test_hjson_nests_as_deep_as_the_constant_says(change):
    """Give or take the calls around it, hence in a thread, where there are few."""
    pytest.importorskip("hjson")
    depth = MOST_NESTING_HJSON + change
    found = []
    thread = threading.Thread(target=lambda: found.append(by_the_package("[" * depth + "]" * depth)[0]))
    thread.start()
    thread.join()
    assert found == ["read" if change < 0 else "RecursionError"]


@given(ANY)
@settings(max_examples=500, deadline=None)
def test_any_text_is_read_or_refused_as_by_the_package(text):
    try:
        root = hjson.parse(text)
    except hjson.Refused as refused:
        assert 0 <= refused.span.start <= refused.span.end <= len(text)
        assert by_the_package(text) == (refused.exception, refused.message)
    else:
        assert by_the_package(text) == ("read", repr(plain(root)))
        assert_spans_nest(root, text)


@given(VALID)
@settings(max_examples=200, deadline=None)
def test_a_clean_text_need_not_be_read_again(text):
    document = json.parse(text, "x.json")
    if {issue.kind for issue in document.issues} <= {"not-an-object"}:
        assert by_the_package(text) == ("read", repr(as_read(document.root)))


def as_read(node: Node) -> object:
    if node.kind == "object":
        return {member.key: as_read(member.value) for member in node.members}
    return [as_read(item) for item in node.items] if node.kind == "array" else tree.as_read(node)


@pytest.mark.skipif(not os.path.isdir(CONFIGS), reason="no collected configs here")
def test_collected_configs_are_read_as_by_the_package():
    for name in sorted(os.listdir(CONFIGS)):
        with open(os.path.join(CONFIGS, name), encoding="utf-8", newline="") as file:
            text = file.read()
        try:
            outcome = "read", repr(plain(hjson.parse(text)))
        except hjson.Refused as refused:
            outcome = refused.exception, refused.message
        assert outcome == by_the_package(text), name


def by_the_package(text: str) -> tuple[str, str]:
    """What ``DeepSpeedConfig`` gets from ``hjson.load`` for a file with this text: a value or an exception."""
    package = pytest.importorskip("hjson")
    try:
        value = package.load(io.StringIO(text, newline=None), object_pairs_hook=without_duplicates)
    except (ValueError, IndexError, OverflowError, RecursionError) as error:
        return type(error).__name__, str(error).replace("(4300)", "(4300 digits)")  # as Python 3.11 puts it
    return "read", repr(value)


def without_duplicates(pairs):
    """What ``deepspeed.runtime.config_utils.dict_raise_error_on_duplicate_keys`` does."""
    twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if twice:
        message = f"Duplicate keys in DeepSpeed config: {twice}"
        raise ValueError(message)
    return dict(pairs)
