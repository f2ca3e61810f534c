"""What DeepSpeed reads in an Hjson text as it is meant is not an error, what it reads as something else is found."""

from __future__ import annotations

import json
from ast import literal_eval

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from json_texts import ANY
from linted import lint_bytes
from test_hjson_reader import as_read, by_the_package

from ds_lint.source.json import parse

KEYS = ["train_batch_size", "zero_optimization", "a.b", "x-y", "k1", "日本", "_note", "a/b"]
IN_JSON = ["8", "-1", "5e8", "1E2", "2e-7", "0.5", "3.0", "1e10", "true", "false", "null", '"auto"', '"a b"']
SCALARS = {text: json.loads(text) for text in IN_JSON} | {
    "'b'": "b",
    "Adam\n": "Adam",  # without quotes a string goes on to the end of the line
    "c d\n": "c d",
    "http://x/y\n": "http://x/y",
    "'''e'''\n": "e",
}
SPACE = st.sampled_from([" ", "\n", "\n  ", " /* c */ ", " // d\n", "\n# e\n"])
NO_ERROR = ("DS007", "DS008")  # a placeholder, and a config that is not an object, whatever language it is in


@st.composite
def hjson_texts(draw, depth=0):
    """A value as people write it in Hjson, and what it stands for."""
    kind = draw(st.sampled_from(["object", "array", "scalar", "scalar"])) if 0 < depth < 3 else "object"
    if depth == 3 or kind == "scalar":
        return draw(st.sampled_from(list(SCALARS.items())))
    if kind == "array":
        items = draw(st.lists(hjson_texts(depth + 1), max_size=3))
        return f"[{draw(_elements([text for text, _ in items]))}]", [value for _, value in items]
    members = draw(st.dictionaries(st.sampled_from(KEYS), hjson_texts(depth + 1), max_size=4))
    quotes = [draw(st.sampled_from(["", '"', "'"])) for _ in members]
    texts = [f"{quote}{key}{quote}: {text}" for quote, (key, (text, _)) in zip(quotes, members.items(), strict=True)]
    return f"{{{draw(_elements(texts))}}}", {key: value for key, (_, value) in members.items()}


@st.composite
def _elements(draw, texts):
    """Elements with a comma or a line break after each."""
    ends = ["\n" if text.endswith("\n") else draw(st.sampled_from([",", "\n", ",\n"])) for text in texts]
    return "".join(f"{draw(SPACE)}{text}{end}" for text, end in zip(texts, ends, strict=True)) + draw(SPACE)


def findings(text: str, stack: str | None) -> list[tuple[str, str]]:
    found = lint_bytes(text.encode("utf-8", "surrogatepass"), "ds.hjson", stack=stack).findings
    return [(one.code, one.message) for one in found if one.kind == "syntax"]


def errors(text: str, stack: str | None) -> list[tuple[str, str]]:
    return [one for one in findings(text, stack) if one[0] not in NO_ERROR]


@given(hjson_texts())
@example(
    (
        "{ train_batch_size: 8, zero_optimization: {stage: 2, reduce_bucket_size: 5e8} }",
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}},
    )
)
@example(("{a.b: [1.0, {c: 5e8}], 'd': 1\n}", {"a.b": [1.0, {"c": 5e8}], "d": 1}))
@example(("{a: '''\n    b\n      c\n    '''\n}", {"a": "b\n c"}))  # without the indentation of the quotes
@settings(max_examples=200, deadline=None)
def test_hjson_that_is_read_as_it_is_meant_is_no_error(case):
    text, value = case
    outcome, value_read = by_the_package(text)
    assert outcome == "read"
    assert literal_eval(value_read) == value
    assert errors(text, "deepspeed") == []


@given(ANY)
@settings(max_examples=200, deadline=None)
def test_what_deepspeed_reads_as_a_person_does_is_no_error(text):
    if _is_read_as_it_is_meant(text):
        assert errors(text, "deepspeed") == []


@given(ANY)
@example('{"k0":[0,\x0c0,\n-0]}')
@example('{"a": 1, "b": 5 "c": {"d": 2}\n}')  # without a comma, 5 goes on to the end of its line
@example('{"a": [5 6\n,7]}')
@settings(max_examples=200, deadline=None)
def test_what_deepspeed_reads_as_something_else_is_found(text):
    if _is_read_as_it_is_meant(text) is False:
        assert findings(text, "deepspeed")


def _is_read_as_it_is_meant(text: str) -> bool | None:
    """Whether the package reads what the tolerant reader takes to be meant; None if the text does not show what is.

    What a string in triple quotes means is for Hjson alone to say: it takes the indentation off the lines.
    """
    root = parse(text, "ds.json").root
    if root is None or root.kind != "object" or "'''" in text:
        return None
    return by_the_package(text) == ("read", repr(as_read(root)))


def test_a_dotted_key_does_not_hide_where_a_value_is_lost():
    text = "{a.b: 1, c: [1, {d.e: 5e8}], f: 1_0\n}"
    assert errors(text, "deepspeed") == [
        ("DS006", "JSON does not allow this number format: DeepSpeed reads the string '1_0'")
    ]


@pytest.mark.parametrize("stack", ["trainer", "accelerate"])
@given(hjson_texts())
@settings(max_examples=50, deadline=None)
def test_the_stacks_that_read_json_refuse_hjson(stack, case):
    text, _ = case
    found = lint_bytes(text.encode(), "ds.hjson", stack=stack).findings
    is_refused = any((one.kind, one.effect, one.stage) == ("syntax", "rejected", "load") for one in found)
    assert is_refused == _json_refuses(text)


def _json_refuses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Infinity", "DeepSpeed reads the string 'Infinity'"),
        ("-Infinity,", "DeepSpeed reads the string '-Infinity,'"),
        ('NaN, "steps_per_print": 5,', "DeepSpeed reads the string 'NaN, \"steps_per_print\": 5,'"),
        (
            "Infinity, // " + "x" * 70,
            f"DeepSpeed reads a string that starts with 'Infinity, // {'x' * 47}'",
        ),
        ("Infinity }", "DeepSpeed reads the string 'Infinity }'"),
        ("1e400", "DeepSpeed cannot read the file"),
    ],
)
def test_infinity_takes_the_rest_of_its_line_with_it(line, message):
    text = f'{{"train_batch_size": 8,\n "gradient_clipping": {line}\n}}'
    outcome, value = by_the_package(text)
    if outcome == "read":
        assert literal_eval(value) == {"train_batch_size": 8, "gradient_clipping": line}
    number = line.split(",")[0].split(" ")[0]
    assert ("DS005", f"`{number}` is not a finite number: {message}") in findings(text, "deepspeed")
    both = f"`{number}` is not a finite number: {message}, the Trainer and Accelerate compute with it"
    assert ("DS005", both) in findings(text, None)
