"""ds-lint takes and refuses the values that DeepSpeed's pydantic models take and refuse: every field, every value."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("deepspeed")

from installed import knowledge
from models import MODELS

from ds_lint.knowledge.coercion import refusal
from ds_lint.knowledge.keys import Key
from ds_lint.source import json as json_source

pytestmark = pytest.mark.fidelity

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 4, 10**30, -(10**20), 0.0, 1.0, -0.0, 3.0, 0.5, 1.5, -2.5, 5e8, 1e20, 9.3e18,
    9.2e18, float("inf"), float("-inf"), float("nan"), 0.99, "", " ", "0", "1", "3", "-1", " 3 ", "+3", "3.0", "3.00",
    "3.", "3.5", "1_000", "1__0", "_1", "0x10", "5e8", "1e3", "3e-5", ".5", "inf", "nan", "Infinity", "true", "True",
    "TRUE", "t", "yes", "on", "off", "no", "tru", "none", "cpu", "CPU", "nvme", "abc", "Auto", "1 000", "1,000", "--1",
    "00012", "true ", "1_0.0", "1e1_0", "+ 3", "\n3\n", "3\u00a0", "-0.0", [], ["a"], [1], [None], ["z1"], ["z1", "q"],
    {}, "step", "epoch", "torch", "liger", "symmetric",
]  # fmt: skip
# What a value means together with others is for the rules of ds_lint/checks/zero.py, not for the field alone.
TOGETHER = ("compute_grad_norm=false is supported only", "Partial offloading only supported")
LATER = (("tensor_parallel", "autotp_size"),)  # taken by pydantic, refused by the engine: test_agreement covers it


@pytest.mark.parametrize("section", MODELS, ids=".".join)
def test_every_field_of_a_section(section):
    wrong = [
        f"{'.'.join(key.path)} = {value!r}: DeepSpeed {'takes' if taken else 'refuses'} it"
        for key in fields(section)
        for value in VALUES
        if (taken := is_taken(section, key, value)) != is_taken_by_ds_lint(key, value)
    ]
    assert wrong == []


def fields(section: tuple[str, ...]) -> list[Key]:
    pending = [knowledge().find(section)]
    found = []
    while pending:
        here = pending.pop()
        below = [here.child(name) for name in here.names()]
        found += [key for key in below if "removed" not in key.facts and key.path not in LATER]
        pending += [key for key in below if key.is_section and key.strict]
    return found


def is_taken(section: tuple[str, ...], key: Key, value: Any) -> bool:
    config = value
    for name in reversed(key.path[len(section) :]):
        config = {name: config}
    try:
        MODELS[section](**config)
    except Exception as error:  # pydantic's, and whatever the validators raise
        return any(words in str(error) for words in TOGETHER)
    return True


def is_taken_by_ds_lint(key: Key, value: Any) -> bool:
    node = json_source.parse(json.dumps({"x": value}), "x").root.get("x")
    return refusal(key.facts, True, node, node.kind, node.value) is None


@pytest.mark.parametrize(("hidden_size", "is_whole"), [(64, False), (80, True)])
def test_a_product_is_read_if_it_is_whole(hidden_size, is_whole):
    """``refused-value`` says of ``0.9 * hidden_size * hidden_size`` that it may not be."""
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    size = 0.9 * hidden_size * hidden_size
    assert size.is_integer() == is_whole
    if is_whole:
        assert DeepSpeedZeroConfig(stage=3, stage3_prefetch_bucket_size=size).prefetch_bucket_size == size
    else:
        with pytest.raises(ValueError, match="fractional part"):
            DeepSpeedZeroConfig(stage=3, stage3_prefetch_bucket_size=size)
