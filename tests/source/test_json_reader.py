from __future__ import annotations

import json
import math
import os

import pytest
from hypothesis import given, settings
from json_texts import ANY, CONFIGS, VALID, assert_spans_nest, marked

from ds_lint.source import dialect, tolerant
from ds_lint.source.json import decode, parse
from ds_lint.source.limits import MOST_DIGITS, MOST_NESTING_HJSON
from ds_lint.source.tree import Node, Span, plain, walk

ISSUES = [
    # kind, text with the span of its only issue marked, the value that is read
    ("comment", '{"a": 1, «// c»\n "b": 2}', {"a": 1, "b": 2}),
    ("comment", '{"a": 1, «// c»\r\n "b": 2}', {"a": 1, "b": 2}),
    ("comment", '{"a": 1 «# c»\n, "b": 2}', {"a": 1, "b": 2}),
    ("comment", '{"a": «/* c \n d */» 1}', {"a": 1}),
    ("comment", '{"a": 1}\n«# one\n  // two\n /* three */ /**/»\n', {"a": 1}),
    ("comment", '{"a" «/* c */»: 1}', {"a": 1}),
    ("trailing-comma", '{"a": 1«,»}', {"a": 1}),
    ("trailing-comma", '{"a": [1, 2«,»\n]}', {"a": [1, 2]}),
    ("extra-comma", '{"a": 1,«,» "b": 2}', {"a": 1, "b": 2}),
    ("extra-comma", '{"a": [1,«, ,», 2]}'.replace(",», 2", ",» 2"), {"a": [1, 2]}),
    ("extra-comma", '{«,» "a": 1}', {"a": 1}),
    ("unquoted-key", "{«a»: 1}", {"a": 1}),
    ("unquoted-key", "{«my key» : 1}", {"my key": 1}),
    ("single-quotes", "{«'a'»: 1}", {"a": 1}),
    ("single-quotes", '{"a": «\'b "c" \\n\'»}', {"a": 'b "c" \n'}),
    ("triple-quotes", "{\"a\": «'''\nb 'c'\nd\n'''»}", {"a": "b 'c'\nd"}),
    ("triple-quotes", '{"a": «"""b"""», "c": 1}', {"a": "b", "c": 1}),
    ("unquoted-value", '{"a": «cpu»}', {"a": "cpu"}),
    ("unquoted-value", '{"a": «/local nvme/x», "b": 1}', {"a": "/local nvme/x", "b": 1}),
    ("unquoted-value", '{"a": [«http://x/y»]}', {"a": ["http://x/y"]}),
    ("unquoted-value", '{"type": «SGD»}', {"type": "SGD"}),
    ("missing-comma", '{"a": 1«»\n "b": 2}', {"a": 1, "b": 2}),
    ("missing-comma", '{"a": {"x": 1}«» "b": 2}', {"a": {"x": 1}, "b": 2}),
    ("missing-comma", '{"a": [1«» "b"]}', {"a": [1, "b"]}),
    ("missing-comma", '{"a": 1«;» "b": 2}', {"a": 1, "b": 2}),
    ("missing-colon", '{"a"«» 1}', {"a": 1}),
    ("missing-colon", '{"a" «=» 1}', {"a": 1}),
    ("missing-value", '{"a"«:», "b": 1}', {"a": None, "b": 1}),
    ("missing-value", '{"a"«:»}', {"a": None}),
    ("missing-value", '{«"a"», "b": 1}', {"a": None, "b": 1}),
    ("missing-value", '{"a"«:»\n "b": 1}', {"a": None, "b": 1}),
    ("missing-key", '{«:» 1, "b": 2}', {"b": 2}),
    ("missing-key", '{"a": 1, «{»"b": 2}, "c": 3}', {"a": 1, "b": 2, "c": 3}),
    ("python-literal", '{"a": «True», "b": 1}', {"a": True, "b": 1}),
    ("python-literal", '{"a": [«None»]}', {"a": [None]}),
    ("python-literal", '{"a": «FALSE»}', {"a": False}),
    ("not-a-number", '{"a": «Infinity»}', {"a": math.inf}),
    ("not-a-number", '{"a": «-Infinity»}', {"a": -math.inf}),
    ("infinite-number", '{"a": «-1e999»}', {"a": -math.inf}),
    ("number-format", '{"a": «01»}', {"a": 1}),
    ("number-format", '{"a": «1.»}', {"a": 1.0}),
    ("number-format", '{"a": «.5»}', {"a": 0.5}),
    ("number-format", '{"a": «+1»}', {"a": 1}),
    ("number-format", '{"a": «0x10»}', {"a": 16}),
    ("number-format", '{"a": «500_000_000», "b": 1}', {"a": 500000000, "b": 1}),
    ("number-format", '{"a": «inf»}', {"a": math.inf}),
    ("bad-escape", '{"a": "C:«\\d»ata"}', {"a": "C:\\data"}),
    ("bad-escape", '{"a": "«\\u12»x"}', {"a": "\\u12x"}),
    ("bad-escape", '{"a": "it«\\\'»s"}', {"a": "it's"}),
    ("control-character", '{"a": "x«\t»y"}', {"a": "x\ty"}),
    ("control-character", '{"a": "x«\n»y\nz", "b": 1}', {"a": "x\ny\nz", "b": 1}),
    ("unterminated-string", '{"a": «"x»,\n "b": 1}', {"a": "x", "b": 1}),
    ("unterminated-string", '{«"a»: 1,\n "b": 2}', {"a": 1, "b": 2}),
    ("unterminated-string", '{«"type»: "Adam", "b": 2}', {"type": "Adam", "b": 2}),
    ("unclosed", '{"a": «{»"b": 1', {"a": {"b": 1}}),
    ("unclosed", '{"a": «[»1, 2}', {"a": [1, 2]}),
    ("unclosed", '{"a": «/*» c\n 1}', {"a": 1}),
    ("unopened", '«»"a": 1}', {"a": 1}),
    ("no-braces", '«»"a": 1, "b": {}', {"a": 1, "b": {}}),
    ("stray-text", '{"a": 1} «x y»\n', {"a": 1}),
    ("stray-text", '{"a": 1«]»}', {"a": 1}),
    ("stray-text", '{"a": {"b": 1}«}», "c": 2}', {"a": {"b": 1}, "c": 2}),
    ("stray-text", '{"a": "x"«"», "b": 1}'.replace(", ", ",\n"), {"a": "x", "b": 1}),
    ("stray-text", '{"a": "x" «"y"», "b": 1}', {"a": "x", "b": 1}),
    ("stray-text", '{"a": 1 «foo bar», "b": 1}', {"a": 1, "b": 1}),
    ("stray-text", '{"a": 1, «000», "b": 1}', {"a": 1, "b": 1}),
    ("stray-text", '«config =» {"a": 1}', {"a": 1}),
    ("stray-text", '{"a":«\u00a0»1}', {"a": 1}),
    ("stray-text", "«}»", None),
    ("stray-text", "«\0\0»", None),
    ("stray-text", "«some prose\nand more»\n", None),
    ("duplicate-key", '{"a": 1, «"a"»: 2}', {"a": 2}),
    ("bom", '«\ufeff»{"a": 1}', {"a": 1}),
    ("empty", "«»", None),
    ("empty", "« \n»", None),
    ("not-an-object", "«[»1]", [1]),
    ("not-an-object", '«"a"»', "a"),
    ("not-an-object", "«3»", 3),
    ("template", '{"a": «${LR}»}', {"a": "${LR}"}),
    ("template", '{"a": «{{ lr }}», "b": {{ other }}}', {"a": "{{ lr }}", "b": "{{ other }}"}),
    ("template", '{"a": «CONFIG_BATCH»}', {"a": "CONFIG_BATCH"}),
    ("template", '{"a": [«MBSIZE»]}', {"a": ["MBSIZE"]}),
    ("template", '{"a": «QuantW_FORWARD»}', {"a": "QuantW_FORWARD"}),
    ("template", '{"a": «<batch>»}', {"a": "<batch>"}),
    ("template", '{"a": «$LR»}', {"a": "$LR"}),
    ("template", '{"a": «%(lr)s»}', {"a": "%(lr)s"}),
    ("template", '{"a": «1e-${X}»}', {"a": "1e-${X}"}),
    ("template", '{"a": «"${LR}"»}', {"a": "${LR}"}),
    ("template", '{"a": «"/scratch/$USER/x"»}', {"a": "/scratch/$USER/x"}),
    ("template", '{"a": «"CONFIG_PATH"»}', {"a": "CONFIG_PATH"}),
    ("template", '{"a": "CONFIG_PATH", "b": «STAGE»}', {"a": "CONFIG_PATH", "b": "STAGE"}),
    ("template", '{«{% if x %}» "a": 1, {% else %} "a": 2 {% endif %} "b": 3}', {"a": 2, "b": 3}),
    ("template", '{"a": 1, «{{ more }}», "b": 2}', {"a": 1, "b": 2}),
]


@pytest.mark.parametrize(("kind", "text", "value"), ISSUES, ids=[f"{kind} {text!r}" for kind, text, _ in ISSUES])
def test_a_broken_construct_is_one_issue_and_everything_is_read(kind, text, value):
    text, span = marked(text)
    document = parse(text, "x.json")
    assert [(issue.kind, issue.span) for issue in document.issues] == [(kind, span)]
    assert (plain(document.root) if document.root else None) == value
    assert document.issues[0].found == text[span.start : span.end] or kind in {"unclosed", "comment"}


def test_every_kind_has_an_example_and_is_in_the_table():
    others = {"not-utf8", "deep-nesting", "long-integer"}
    assert {kind for kind, _, _ in ISSUES} | others == dialect.KINDS


@pytest.mark.parametrize(
    "text",
    [
        '{"device": "auto", "nvme_path": "/local_nvme", "modules": ["layer.\\\\w+.output$", "a$b"], "level": "O1"}',
        '{"comment": "set ${HOME}", "_note": "<batch>", "//": ["$X"], "type": "OneBitAdam", "x": "MAX_VALUE"}',
        '{"text": "{} {x} 100% <= 5 > 3 %s", "dtype": "torch.bfloat16"}',
    ],
)
def test_strings_that_mean_themselves_are_no_templates(text):
    document = parse(text, "x.json")
    assert document.issues == []
    assert plain(document.root) == json.loads(text)


def test_placeholders_are_reported_once_and_are_template_nodes():
    document = parse('{"x": "${A}", "a": LOG_INTERVAL, "b": {"c": ZERO_STAGE, "d": [${E}]}}', "x.json")
    assert [(issue.kind, issue.found, issue.path) for issue in document.issues] == [
        ("template", "LOG_INTERVAL", ("a",))
    ]
    kinds = {".".join(path): member.value.kind for path, member in walk(document.root)}
    assert kinds == {"x": "template", "a": "template", "b": "object", "b.c": "template", "b.d": "array"}


def test_an_issue_knows_its_key_path():
    document = parse('{"a": {"b": [1, True], "c": cpu, d: 1, "c": 2}}', "x.json")
    assert [(issue.kind, issue.path) for issue in document.issues] == [
        ("python-literal", ("a", "b", "1")),
        ("unquoted-value", ("a", "c")),
        ("unquoted-key", ("a", "d")),
        ("duplicate-key", ("a", "c")),
    ]
    assert document.issues[-1].related == Span(*[document.text.index('"c"') + offset for offset in (0, 3)])


def test_duplicates_are_told_for_each_and_related_to_the_first():
    document = parse('{"a": 1, "b": {"a": 2}, "a": 3, "\\u0061": 4}', "x.json")
    assert [(issue.kind, issue.found, issue.related) for issue in document.issues] == [
        ("duplicate-key", '"a"', Span(1, 4)),
        ("duplicate-key", '"\\u0061"', Span(1, 4)),
    ]
    assert len(document.root.members) == 4


def test_many_issues_in_one_text():
    text = '\ufeff{\n  // c\n  \'a\': True,,\n  b = 01\n  "c": {"d": [1 2,], "e": }\n  "f": "x,\n  "g": nan,\n'
    document = parse(text, "x.json")
    assert [issue.kind for issue in document.issues] == [
        *(
            "bom",
            "unclosed",
            "comment",
            "single-quotes",
            "python-literal",
            "extra-comma",
            "unquoted-key",
            "missing-colon",
        ),
        *("number-format", "missing-comma", "missing-comma", "trailing-comma", "missing-value", "missing-comma"),
        *("unterminated-string", "number-format"),
    ]
    assert repr(plain(document.root)) == "{'a': True, 'b': 1, 'c': {'d': [1, 2], 'e': None}, 'f': 'x', 'g': nan}"


def test_the_indentation_says_which_bracket_is_missing():
    text = '{\n  "optimizer": {\n    "params": {\n      "lr": 1\n  },\n  "zero": {\n    "stage": 2\n  }\n}\n'
    document = parse(text, "x.json")
    (issue,) = document.issues
    assert (issue.kind, issue.path, issue.found) == ("unclosed", ("optimizer", "params"), "}")
    assert text[issue.span.start - 10 : issue.span.end] == '"params": {'
    assert text[issue.related.start :].startswith('},\n  "zero"')
    assert plain(document.root) == {"optimizer": {"params": {"lr": 1}}, "zero": {"stage": 2}}


def test_all_brackets_missing_at_the_end_are_one_issue_that_names_them():
    document = parse('{"a": [{"b": 1,', "x.json")
    (issue,) = document.issues
    assert (issue.kind, issue.found, issue.related) == ("unclosed", "}]}", Span(15, 15))


def test_yaml_is_read_as_far_as_it_goes():
    document = parse("zero_optimization:\n  stage: 2\nsteps: 1\n", "x.yaml")
    assert plain(document.root) == {"zero_optimization": None, "stage": 2, "steps": 1}
    assert "no-braces" in {issue.kind for issue in document.issues}


def test_integers_of_any_length_are_read():
    longest = "1" * MOST_DIGITS
    assert parse(f'{{"a": {longest}, "b": -{longest}}}', "x.json").issues == []
    document = parse(f'{{"a": {longest}1, "b": -{longest}1}}', "x.json")
    assert [issue.kind for issue in document.issues] == ["long-integer", "long-integer"]
    largest = 10**MOST_DIGITS - 1  # the largest one that a message can print
    assert plain(document.root) == {"a": largest, "b": -largest}


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"a": [', "[{'b': "])
@pytest.mark.parametrize("closed", [True, False])
def test_nesting_of_any_depth_is_one_issue(opening, closed):
    closing = "".join({"{": "}", "[": "]"}[char] for char in reversed(opening) if char in "{[")
    text = opening * 3000 + "1" + closing * 3000 * closed
    issues = [issue for issue in parse(text, "x.json").issues if issue.kind == "deep-nesting"]
    depth = 3000 * len(closing)
    assert [issue.found for issue in issues] == [str(depth)]
    assert text[: issues[0].span.end].count("{") + text[: issues[0].span.end].count("[") == MOST_NESTING_HJSON + 1
    assert parse(opening * 300_000, "x.json").root is not None


def test_nesting_that_hjson_reads_is_no_issue():
    assert parse('{"a":' * MOST_NESTING_HJSON + "1" + "}" * MOST_NESTING_HJSON, "x.json").issues == []


HOSTILE = [
    '"',
    "'",
    "'''",
    '"\\',
    '"\\"\n',
    '"k:\\',
    '"k:1,\\',
    "/*",
    "/**/",
    "//\n",
    "b: ",
    "a b ",
    "a=",
    ",",
    ";",
    ":",
    "1 ",
]
HOSTILE += [
    "${",
    "$(",
    "<a",
    "{{ a ",
    "{% ",
    "{#",
    "%(a",
    "-",
    "1",
    "1_",
    "9.",
    " ",
    "\\",
    "\0",
    "\ufeff",
    " \u00a0",
    "]",
    "[}",
    '"a\n',
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("before", ["{", "[", '{"a": '])
def test_hostile_texts_come_to_an_end(before, piece):
    document = parse(before + piece * 3_000 + "x", "x.json")
    assert document.issues


@given(VALID)
@settings(max_examples=200, deadline=None)
def test_valid_texts_are_read_as_json_reads_them(text):
    document = parse(text, "x.json")
    assert {issue.kind for issue in document.issues} <= {"not-an-object", "duplicate-key", "template"}
    assert repr(plain(document.root)) == repr(json.loads(text))
    assert repr(plain(tolerant.parse(text)[0])) == repr(json.loads(text))
    assert_spans_nest(document.root, text)
    for _, member in walk(document.root):
        assert json.loads(text[member.key_span.start : member.key_span.end]) == member.key
        assert json.loads(text[member.value.span.start : member.value.span.end]) == plain(member.value)


@given(ANY)
@settings(max_examples=400, deadline=None)
def test_a_text_has_an_issue_that_json_refuses_exactly_if_json_refuses_it(text):
    document = parse(text, "x.json")
    try:
        value = json.loads(text)
    except ValueError:
        assert dialect.json_refuses(document)
    else:
        assert not dialect.json_refuses(document)
        assert repr(plain(document.root)) == repr(value)


@given(ANY)
@settings(max_examples=400, deadline=None)
def test_spans_lie_in_the_text_and_nest(text):
    document = parse(text, "x.json")
    starts = [issue.span.start for issue in document.issues]
    assert starts == sorted(starts)
    for issue in document.issues:
        assert 0 <= issue.span.start <= issue.span.end <= len(text)
    if document.root:
        assert_spans_nest(document.root, text)


@given(ANY)
@settings(max_examples=200, deadline=None)
def test_what_the_fast_reader_reads_the_tolerant_one_reads_alike(text):
    document = parse(text, "x.json")
    root, issues = tolerant.parse(text)
    assert [(issue.kind, issue.span) for issue in document.issues] == [(issue.kind, issue.span) for issue in issues]
    assert _shape(document.root) == _shape(root)


def _shape(node):
    """All that is in a tree, comparable."""
    if not isinstance(node, Node):
        return None
    members = [(member.key, member.key_span, _shape(member.value)) for member in node.members]
    return node.kind, node.span, repr(node.value), members, [_shape(item) for item in node.items]


@pytest.mark.skipif(not os.path.isdir(CONFIGS), reason="no collected configs here")
def test_collected_configs_are_read_as_json_reads_them():
    refused = 0
    for name in sorted(os.listdir(CONFIGS)):
        with open(os.path.join(CONFIGS, name), "rb") as file:
            text, issue = decode(file.read())
        document = parse(text, name)
        assert issue is None
        assert_spans_nest(document.root, text)
        try:
            value = json.loads(text)
        except ValueError:
            refused += 1
            assert dialect.json_refuses(document), name
        else:
            assert not dialect.json_refuses(document), name
            assert repr(plain(document.root)) == repr(value), name
    assert refused > 50


@pytest.mark.parametrize(
    ("data", "text", "span", "found"),
    [
        (b'{"a": 1}', '{"a": 1}', None, None),
        (b"", "", None, None),
        (b"\xef\xbb\xbf{}", "\ufeff{}", None, None),
        ('{"é": 1}'.encode("latin-1"), '{"\ufffd": 1}', Span(2, 3), "0xe9"),
        ('{"é": "ü"}'.encode() + b"\xff", '{"é": "ü"}\ufffd', Span(10, 11), "0xff"),
        ('{"é": 1}'.encode("utf-16"), '{"é": 1}', Span(0, 1), "UTF-16"),
        ('{"é": 1}'.encode("utf-16-le"), '{"é": 1}', Span(0, 1), "UTF-16"),
        ('{"é": 1}'.encode("utf-16-be"), '{"é": 1}', Span(0, 1), "UTF-16"),
        ('{"é": 1}'.encode("utf-32"), '{"é": 1}', Span(0, 1), "UTF-32"),
        ('{"é": 1}'.encode("utf-32-le"), '{"é": 1}', Span(0, 1), "UTF-32"),
        (b"\xff\xfe\x00", "\ufffd", Span(0, 1), "UTF-16"),
        (b"\xff\xfe", "", Span(0, 0), "UTF-16"),
        (b"{\0\0}", "{\0\0}", None, None),
    ],
)
def test_bytes_are_decoded_whatever_they_are(data, text, span, found):
    decoded, issue = decode(data)
    assert decoded == text
    if span is None:
        assert issue is None
    else:
        assert (issue.kind, issue.span, issue.found) == ("not-utf8", span, found)
