"""The knowledge that a wheel carries as a module is what ``schemas/`` holds."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from ds_lint import knowledge, resources, stores

pytest.importorskip("hatchling")

from tools.built import FILES, source

SCHEMAS = Path(resources.path("schemas"))


@pytest.fixture(scope="module")
def built() -> ModuleType:
    module = ModuleType("built")
    exec(source(SCHEMAS), vars(module))  # noqa: S102 - the module that the build would write
    return module


@pytest.mark.parametrize(("name", "tables"), FILES.items())
def test_every_table_is_in_the_module(built, name, tables):
    content = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    expected = content if tables is None else {table: content[table] for table in tables}
    assert getattr(built, name.upper()) == expected


def test_a_wheel_knows_by_the_module(built, monkeypatch):
    monkeypatch.setattr(stores, "_known", {})
    monkeypatch.setattr(stores, "_built", lambda: built)
    monkeypatch.setattr(stores, "_from_json", lambda name: pytest.fail(f"{name}.json was read"))
    known = knowledge.Knowledge()
    assert known.find(("zero_optimization", "stage")) is not None
    assert "train_batch_size" in known.trainer["fills"]
