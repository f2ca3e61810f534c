"""``schemas/model_classes.json`` holds what the transformers that is installed says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ds_lint.facts.families import family_of_name
from ds_lint.knowledge import tables
from tools import model_classes

pytestmark = pytest.mark.fidelity


def test_the_classes_are_those_of_the_installed_release():
    known = json.loads(model_classes.STORE.read_text("utf-8"))
    assert known == model_classes.store()
    assert known["classes"]["MixtralForCausalLM"] == "mixtral"


def published() -> dict[str, set[str]]:
    """The checkpoints that transformers names in the modules of its configs, each with the model types there."""
    transformers = pytest.importorskip("transformers")
    found: dict[str, set[str]] = {}
    for path in Path(transformers.__file__).parent.glob("models/*/configuration_*.py"):
        text = path.read_text(encoding="utf-8")
        types = set(re.findall(r'model_type = "([^"]+)"', text))
        for name in re.findall(r'checkpoint="([^"]+)"', text):
            found.setdefault(name, set()).update(types)
    return found


def test_a_family_that_a_name_tells_is_that_of_transformers():
    told = {name: (family.model_type, types) for name, types in published().items() if (family := family_of_name(name))}
    assert {name: one for name, one in told.items() if one[0] not in one[1]} == {}
    silent = set(tables.load("families")["published"]) - {family for family, _ in told.values()}
    assert silent == {"gemma3_text"}  # whose checkpoint transformers does not name
