"""NOTICE names each project whose facts ``schemas/`` has, and lies beside the licence in what is published."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What is not a project of its own, or is part of one.
PARTS = {"LLaMA-Factory": "llamafactory", "TRL": "trl", "torchrun": "torch", "gloo": "torch"}
OF_SYSTEMS = {"cuda", *sys.stdlib_module_names}
MEASURED = {"transformers", "torch", "peft", "liger", "bitsandbytes", "deepspeed", "trl"}


def projects(name, store):
    """The projects that a store names as the sources of what it has."""
    if isinstance(store.get("library"), str):
        yield store["library"]
    yield from store.get("frameworks", ())
    yield from store.get("libraries", ())
    for versions in ("releases", "compared"):
        if isinstance(store.get(versions), dict):
            yield from store[versions]
    if isinstance(store.get("modules"), dict):
        yield from (re.split(r"[./]", module)[0] for module in store["modules"])
    yield from (one["library"] for one in store.values() if isinstance(one, dict) and "library" in one)
    yield from (key for key, release in store.items() if key in MEASURED and isinstance(release, str))
    if "editions" in store:
        yield name


@pytest.fixture(scope="module")
def named():
    _, _, table = (ROOT / "NOTICE").read_text(encoding="utf-8").partition("\nProject ")
    return re.findall(r"^(\S+) {2,}\S+ {2,}\S", table, re.MULTILINE)


def test_every_project_is_named_once(named):
    paths = (path for path in (ROOT / "schemas").glob("*.json") if not path.name.endswith(".schema.json"))
    stores = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    read = {PARTS.get(one, one) for name, store in stores.items() for one in projects(name, store)} - OF_SYSTEMS
    assert {"deepspeed", "transformers", "megatron", "axolotl", "nccl"} <= read
    assert sorted(named) == sorted(read)
