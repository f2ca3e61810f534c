"""Every symptom of ``schemas/symptoms.json`` is found by its examples, and no other is found before it."""

from __future__ import annotations

import re

import pytest

from ds_lint.knowledge import symptoms
from ds_lint.knowledge.symptoms import Symptom
from ds_lint.linter.engine import every_rule

EXAMPLES = [
    pytest.param(symptom, example, id=f"{symptom.id}-{place}")
    for symptom in symptoms.symptoms()
    for place, example in enumerate(symptom.examples)
]


def of_exception(example):
    """The symptom of ``Name: message @ path:function``, as the store writes an exception with a frame."""
    text, _, frame = example.partition(" @ ")
    name, _, message = text.partition(": ")
    path, _, function = frame.partition(":")
    return symptoms.of_exception(name, message, [(path, function)] if frame else [])


@pytest.mark.parametrize(("symptom", "example"), EXAMPLES)
def test_an_example_shows_its_symptom(symptom, example):
    if symptom.where in ("line", "end", "last"):
        assert symptom.anchor in example
        assert symptom.pattern.search(example)
    elif symptom.where == "exit":
        assert symptoms.of_exit(example).symptom.id == symptom.id
    else:
        assert of_exception(example).symptom.id == symptom.id


@pytest.mark.parametrize("symptom", symptoms.symptoms(), ids=lambda symptom: symptom.id)
def test_a_symptom_is_whole(symptom: Symptom):
    assert symptom.examples or symptom.where == "course"
    if symptom.role == "cause" and symptom.where != "end":
        assert symptom.message
        assert symptom.help
        assert symptom.library
    assert set(symptom.codes) <= {rule.code for rule in every_rule()}
    found = {name.rstrip("0123456789") for name in (symptom.pattern.groupindex if symptom.pattern else ())}
    used = set(re.findall(r"(?<!\{)\{(\w+)\}(?!\})", symptom.message + symptom.help))
    if symptom.where not in ("course", "end"):
        assert used <= found | {"minutes", "function"}
