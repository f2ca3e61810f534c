"""Literals of JSON in a dict of Python: a NameError, unless the module has such a name."""

from __future__ import annotations

import pytest

from ds_lint.source.document import UNDEFINED
from ds_lint.source.python import read

DICT = """\
config = {
    "train_batch_size": 8,
    "fp16": {"enabled": false},
    "optimizer": null,
    "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": true}},
}
"""


def undefined(text):
    return [issue.found for document in read(text, "train.py") for issue in document.issues if issue.kind == UNDEFINED]


def test_names_that_nothing_defines_raise():
    with pytest.raises(NameError, match="false"):
        exec(DICT, {})  # noqa: S102 - the dict above
    assert sorted(undefined(DICT)) == ["false", "null", "true"]


@pytest.mark.parametrize(
    ("before", "left"),
    [
        ("true, false, null = True, False, None\n", []),
        ("true = True\n", ["false", "null"]),
        ("from words import true\nfrom other import yes as false\n", ["null"]),
    ],
)
def test_names_of_the_module_are_no_literals(before, left):
    assert sorted(undefined(before + DICT)) == left


def test_what_a_module_imports_as_a_whole_is_unknown():
    assert undefined("from words import *\n" + DICT) == []


def test_texts_and_other_names_are_left_alone():
    assert undefined(DICT.replace("false", "'false'").replace("null", "None").replace("true", "pinned")) == []
