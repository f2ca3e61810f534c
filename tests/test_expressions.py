"""Expressions of the libraries, evaluated where their names are known."""

from __future__ import annotations

import pytest

from ds_lint.knowledge.expressions import evaluate, names_in
from ds_lint.knowledge.unknown import UNKNOWN

KNOWN = {
    "one": 1,
    "two": 2,
    "yes": True,
    "no": False,
    "word": "fp16",
    "DeepSpeedPlugin.zero_stage": 2,
    "is_zero3()": False,
    "config": {"fp16": {"enabled": "True"}, "bf16": None},
}


def value(text):
    return evaluate(text, lambda name: KNOWN.get(name, UNKNOWN))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one + two * two", 5),
        ("int(0.9 * two * two)", 3),
        ("max(1, one - two)", 1),
        ("[one, two]", [1, 2]),
        ("{'enabled': yes}", {"enabled": True}),
        ("word == 'fp16'", True),
        ("word in ('bf16', 'fp8')", False),
        ("no or yes", True),
        ("not (yes and no)", True),
        ("one if no else two", 2),
        ("DeepSpeedPlugin.zero_stage", 2),
        ("is_zero3()", False),
        ("str(config.get('fp16', {}).get('enabled', 'False')).lower() == 'true'", True),
        ("config['fp16']", {"enabled": "True"}),
        ("float('inf')", float("inf")),
    ],
)
def test_what_is_known(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "x + one",
        "[one, x]",
        "max(1, x)",
        "x or no",
        "x and yes",
        "one if x else two",
        "x.get('a')",
        "f(one)",
        "-one",
        "'a' * 99999999999",  # which would fill the memory
    ],
)
def test_what_follows_from_something_unknown_is_unknown(text):
    assert value(text) is UNKNOWN


@pytest.mark.parametrize(("text", "expected"), [("x or yes", True), ("x and no", False), ("no and x", False)])
def test_one_operand_may_decide(text, expected):
    assert value(text) is expected


def test_it_trips_where_python_does():
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'get'"):
        value("config.get('bf16', {}).get('enabled', 'False')")
    with pytest.raises(TypeError):
        value("word * word")


def test_the_names_in_an_expression():
    assert names_in("world_size * per_device_train_batch_size") == ["world_size", "per_device_train_batch_size"]
