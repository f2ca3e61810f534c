"""Texts for the readers: strategies for JSON and for JSON with something wrong in it, and the collected configs."""

from __future__ import annotations

import json
import os

from hypothesis import strategies as st

from ds_lint.source.tree import Span

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CORPUS = os.environ.get("DS_LINT_CORPUS") or os.path.join(os.path.dirname(ROOT), "shared", "corpus")
CONFIGS = os.path.join(CORPUS, "configs")

_NUMBERS = [
    "0",
    "-0",
    "1",
    "-12",
    "0.5",
    "-0.0",
    "1.0",
    "5e8",
    "1E+2",
    "2e-7",
    "9999999999.0",
    "1e10",
    "1e22",
    "123456789012",
]
_STRINGS = ['""', '"a"', '"auto"', '"é"', r'"\"\\\/\b\f\n\r\t"', r'"\u00e9"', r'"\ud83d\ude00"', r'"\ud800"', '"\x7f "']
_SPACE = st.sampled_from(["", "", " ", "\n", "\r\n", "\t", "\n    "])
_SCALARS = st.sampled_from([*_NUMBERS, *_STRINGS, "true", "false", "null"]) | st.text().map(json.dumps)


def _container(elements):
    """A list of elements as an array's or object's inside, with white space wherever it may be."""
    return st.lists(st.tuples(_SPACE, elements, _SPACE).map("".join), max_size=5).map(",".join)


def _value(inner):
    member = st.tuples(st.integers(0, 10**6), _SPACE, _SPACE, inner).map(lambda m: f'"k{m[0]}"{m[1]}:{m[2]}{m[3]}')
    array = st.tuples(_SPACE, _container(inner)).map(lambda parts: f"[{parts[0]}{parts[1]}]")
    return array | st.tuples(_SPACE, _container(member)).map(lambda parts: f"{{{parts[0]}{parts[1]}}}")


VALUES = st.recursive(_SCALARS, _value, max_leaves=15)
VALID = st.tuples(_SPACE, VALUES | _value(VALUES), _SPACE).map("".join)

_PIECES = st.sampled_from(
    [
        *"{}[]:,\"'\\#/*-+.e01_$<>%=; \n\t\r\f\0\ufeff\u00a0\u0663",
        *(
            '"a"',
            "'b'",
            "'''",
            "'''x\n  y'''",
            '"a": 1',
            "b: ",
            "//",
            "/*",
            "*/",
            "/* c */",
            "# d\n",
            "\r\n",
            "{}",
            "[]",
        ),
        *("1", "0.0", "1.5e3", "1e400", "-1", "01", "true", "null", "True", "None", "NaN", "-Infinity", "foo", "x y"),
        *("\\u12 3", '"\\u-123"', '"\\ud83d\\u12"', "\\'", "${X}", "{{ x }}", "{% if %}", "<x>", '"${Y}"', "0" * 5000),
    ]
)
_CHANGE = st.tuples(st.integers(0, 200), st.integers(0, 4), _PIECES | st.just(""))
_SMALL_CONFIG = """{
  "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
  "betas": [0.9, 0.999],
  "lr": 5e-5, "bucket": 5e8,
  "bf16": {"enabled": true}
}
"""


def _change(text, changes):
    for at, length, piece in changes:
        at = at % (len(text) + 1)  # noqa: PLW2901
        text = text[:at] + piece + text[at + length :]
    return text


CHANGED = st.builds(_change, VALID | st.just(_SMALL_CONFIG), st.lists(_CHANGE, min_size=1, max_size=4))
SOUP = st.lists(_PIECES, max_size=14).map("".join)
ANY = CHANGED | SOUP | SOUP.map(lambda soup: f"{{{soup}\n}}") | st.text(max_size=20)


def marked(text):
    """The text without its marks « and », and the span between them."""
    start = text.index("«")
    end = text.index("»") - 1
    return text.replace("«", "").replace("»", ""), Span(start, end)


def assert_spans_nest(node, text, start=0, end=None):
    """Every span lies in the text, inside that of its parent and after its key."""
    end = len(text) if end is None else end
    assert start <= node.span.start <= node.span.end <= end
    for member in node.members:
        assert node.span.start <= member.key_span.start <= member.key_span.end <= member.value.span.start
        assert_spans_nest(member.value, text, node.span.start, node.span.end)
    for item in node.items:
        assert_spans_nest(item, text, node.span.start, node.span.end)
