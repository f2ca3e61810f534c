"""Edits keep to what stands around them: commas, lines, indentation, comments, quotes and line breaks."""

from __future__ import annotations

import pytest

from ds_lint.diagnostics.finding import Fix
from ds_lint.fixes import edits
from ds_lint.fixes.application import edited
from ds_lint.knowledge import keys
from ds_lint.semantics.basis import Basis
from ds_lint.semantics.config import Config
from ds_lint.source import documents, hjson

STAGE = ("zero_optimization", "stage")


def config_of(text: str, *, stack: str | None = None, as_hjson: bool = False) -> Config:
    document = documents.from_bytes(text.encode(), "config.json")
    root = hjson.parse(text) if as_hjson else document.root
    assert root is not None
    return Config(document, root, Basis(keys.knowledge(), stack))


def applied(fix: Fix | None, text: str) -> str | None:
    return edited(text, fix.edits) if fix else None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1, "b": 2, "c": 3}', '{"a": 1, "c": 3}'),
        ('{"a":1,"c":3,"b":2}', '{"a":1,"c":3}'),
        ('{"b": 2, "a": 1}', '{"a": 1}'),
        ('{"b": 2}', "{}"),
        ('{\n  "b": 2\n}', "{}"),
        ('{\n  "a": 1,\n  "b": 2\n}\n', '{\n  "a": 1\n}\n'),
        ('{\n  "b": 2,\n  "a": 1\n}', '{\n  "a": 1\n}'),
        ('{\r\n\t"a": 1,\r\n\t"b": 2,\r\n\t"c": 3\r\n}', '{\r\n\t"a": 1,\r\n\t"c": 3\r\n}'),
        ('{\r\t"a": 1,\r\t"b": {\r\t}\r}', '{\r\t"a": 1\r}'),
        ('{"a": 1,\n "b": 2}', '{"a": 1}'),
        ('{"a": 1, "b": 2,\n "c": 3}', '{"a": 1,\n "c": 3}'),
        ('{\n  "a": 1,\n  "b": {\n    "x": 2\n  },\n  "c": 3\n}', '{\n  "a": 1,\n  "c": 3\n}'),
        ('{"a": 1, "b": 2,}', '{"a": 1, }'),
        ('{\n  "a": 1,\n  "b": 2,\n}', '{\n  "a": 1,\n}'),
        ('\ufeff{"b": 2, "a": 1}', '\ufeff{"a": 1}'),
    ],
)  # fmt: skip
def test_a_member_goes_with_its_comma_and_its_line(before, after):
    assert applied(edits.deletion(config_of(before), ("b",), "safe"), before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{\n  // of a\n  "a": 1, // a\n  // of b\n  "b": 2 // b\n}', '{\n  // of a\n  "a": 1 // a\n  // of b\n}'),
        ('{\n  "b": 2, # b\n  # of a\n  "a": 1\n}', '{\n  # of a\n  "a": 1\n}'),
        ('{"a": 1, "b": 2, // both\n"c": 3}', '{"a": 1, // both\n"c": 3}'),
        ('{"a": 1, /* b? */ "b": 2}', '{"a": 1 /* b? */ }'),
        ("a: one\nb: two, three\nc: 1\n", "a: one\nc: 1\n"),
        ("b: two\nc: 1\n", "c: 1\n"),
        ("{\n  a: one\n  b: two\n}\n", "{\n  a: one\n}\n"),
        ("{'a': 1 'b': 2 'c': 3}", "{'a': 1 'c': 3}"),
    ],
)
def test_comments_elsewhere_stay_and_hjson_goes_by_lines(before, after):
    as_hjson = "'a'" not in before  # hjson takes no two numbers on a line
    assert applied(edits.deletion(config_of(before, as_hjson=as_hjson), ("b",), "safe"), before) == after


@pytest.mark.parametrize("text", ['{"a": 1, "b":', '{"a": 1 x, "b": 2}', '{"b": 2 {% if x %}, "a": 1{% endif %}}'])
def test_where_something_else_stands_around_it_nothing_is_deleted(text):
    assert edits.deletion(config_of(text), ("b",), "safe") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"old": 1}', '{"new": 1}'),
        ("{'old': 1}", "{'new': 1}"),
        ("old: 1\n", "new: 1\n"),
        ('{"o\\u006cd": 1}', '{"new": 1}'),
        ('{"old": 1, "new": 2}', None),
    ],
)
def test_a_key_is_renamed_in_its_quotes(before, after):
    assert applied(edits.renaming(config_of(before), ("old",), "new", "safe"), before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{"zero_optimization": {"stage": 0}}'),
        ('{"a": 1}', '{"a": 1, "zero_optimization": {"stage": 0}}'),
        ('{"a":1,"b":2}', '{"a":1,"b":2,"zero_optimization":{"stage":0}}'),
        ('{\n  "a": 1\n}', '{\n  "a": 1,\n  "zero_optimization": {\n    "stage": 0\n  }\n}'),
        ('{\n  "a": {"b": 1}\n}', '{\n  "a": {"b": 1},\n  "zero_optimization": {"stage": 0}\n}'),
        ('{\r\n\t"a" : 1\r\n}', '{\r\n\t"a" : 1,\r\n\t"zero_optimization" : {\r\n\t\t"stage" : 0\r\n\t}\r\n}'),
        ('{\n "zero_optimization": {"b": 1}\n}', '{\n "zero_optimization": {"b": 1, "stage": 0}\n}'),
        ('{"zero_optimization": {}}', '{"zero_optimization": {"stage": 0}}'),
        ('{"zero_optimization": null}', None),
        ('{"zero_optimization": {"stage": 1}}', None),
        ("[]", None),
    ],
)
def test_what_is_added_is_written_like_its_neighbours(before, after):
    assert applied(edits.written(config_of(before), STAGE, 0, "safe"), before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{\n  "a": 1, // one\n}', '{\n  "a": 1, // one\n  "b": 0,\n}'),
        ('{\n  "a": 1 // one\n}', '{\n  "a": 1, // one\n  "b": 0\n}'),
        ("{\n  a: one\n}", "{\n  a: one\n  b: 0\n}"),
        ("{\n  a: 1\n  c: 2\n}", "{\n  a: 1\n  c: 2\n  b: 0\n}"),
        ("a: 1\nc: two", "a: 1\nc: two\nb: 0"),
        ("{ # nothing\n}", '{"b": 0 # nothing\n}'),
        ("{a: one\n}", None),
    ],
)
def test_hjson_stays_hjson(before, after):
    fixed = applied(edits.written(config_of(before, as_hjson=True), ("b",), 0, "safe"), before)
    assert fixed == after
    if fixed is not None:
        assert hjson.parse(fixed).get("b").value == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"lr": 1e-4, "optimizer": {"params": {"eps": 0}}}', '{"optimizer": {"params": {"eps": 0, "lr": 1e-4}}}'),
        ('{"optimizer": {"params": {}}, "lr": 1e-4}', '{"optimizer": {"params": {"lr": 1e-4}}}'),
        ('{"lr": 1, "a": 2}', '{"optimizer": {"params": {"lr": 1}}, "a": 2}'),
        (
            '{\n  "lr": {\n    "x": 1\n  }\n}',
            '{\n  "optimizer": {\n    "params": {\n      "lr": {\n        "x": 1\n      }\n    }\n  }\n}',
        ),
        ("optimizer: {\n  type: Adam\n}\nlr: x\n", 'optimizer: {\n  type: Adam\n  params: {\n    lr: "x"\n  }\n}\n'),
        ('{"lr": 1, "optimizer": {"params": {"lr": 2}}}', None),
        ('{"lr": 1, "optimizer": "adam"}', None),
    ],
)
def test_a_member_is_moved_and_its_section_made(before, after):
    config = config_of(before, as_hjson=True)
    assert applied(edits.moving(config, ("lr",), ("optimizer", "params", "lr"), "safe"), before) == after


def test_a_member_is_moved_out_of_its_section():
    before = '{\n  "optimizer": {\n    "type": "Adam",\n    "fp16": {\n      "enabled": true\n    }\n  }\n}\n'
    after = '{\n  "optimizer": {\n    "type": "Adam"\n  },\n  "fp16": {\n    "enabled": true\n  }\n}\n'
    assert applied(edits.moving(config_of(before), ("optimizer", "fp16"), ("fp16",), "safe"), before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"gradient_clipping": 2}', '{"gradient_clipping": "auto"}'),
        ('{"a": 1}', '{"a": 1, "gradient_clipping": "auto"}'),
    ],
)
def test_auto_is_set_where_the_stack_fills_it(before, after):
    path = ("gradient_clipping",)
    assert applied(edits.set_to_auto(config_of(before, stack="trainer"), path), before) == after
    assert edits.set_to_auto(config_of(before, stack="deepspeed"), path) is None
    assert edits.set_to_auto(config_of(before), path) is None  # DeepSpeed may load it
    assert edits.set_to_auto(config_of(before, stack="trainer"), ("prescale_gradients",)) is None
