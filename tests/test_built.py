"""The knowledge that a wheel carries as a module is what ``schemas/`` holds."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from ds_lint import knowledge, resources

pytest.importorskip("hatchling")

from tools.built import FILES, source

SCHEMAS = Path(resources.path("schemas"))


@pytest.fixture
def built() -> ModuleType:
    module = ModuleType("built")
    exec(source(SCHEMAS), vars(module))  # noqa: S102 - the module that the build would write
    return module


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_in_the_module(built, name):
    assert getattr(built, name.upper()) == json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))


def test_a_wheel_knows_by_the_module(built, monkeypatch):
    monkeypatch.setattr(knowledge, "_built", lambda: built)
    monkeypatch.setattr(knowledge, "_read", lambda name: pytest.fail(f"{name} was read"))
    assert knowledge.Knowledge().find(("zero_optimization", "stage")) is not None
