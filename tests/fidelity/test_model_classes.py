"""``schemas/model_classes.json`` holds what the transformers that is installed says."""

from __future__ import annotations

import json

import pytest

from tools import model_classes

pytestmark = pytest.mark.fidelity


def test_the_classes_are_those_of_the_installed_release():
    known = json.loads(model_classes.STORE.read_text("utf-8"))
    assert known == model_classes.store()
    assert known["classes"]["MixtralForCausalLM"] == "mixtral"
