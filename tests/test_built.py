"""The knowledge that a wheel carries as a module is what ``schemas/`` holds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from linted import lint_dict

from ds_lint import __version__
from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.knowledge import advisories, keys, resources, tables
from ds_lint.targets.pin import Pin

pytest.importorskip("hatchling")

from tools.built import FILES, index, source

SCHEMAS = Path(resources.path("schemas"))


@pytest.fixture(scope="module")
def built() -> ModuleType:
    module = ModuleType("built")
    exec(source(SCHEMAS), vars(module))  # noqa: S102 - the module that the build would write
    return module


@pytest.mark.parametrize("name", FILES)
def test_every_table_is_in_the_module(built, name):
    assert getattr(built, name.upper()) == json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_a_checkout_reads_what_json_reads(path, monkeypatch):
    known = json.loads(path.read_text(encoding="utf-8"))
    assert tables._from_json(path.stem) == known
    monkeypatch.setitem(sys.modules, "_json", None)
    assert tables._from_json(path.stem) == known


def test_every_table_is_in_the_wheel():
    wheel = (SCHEMAS.parent / "pyproject.toml").read_text(encoding="utf-8")
    tables = {path.name for path in SCHEMAS.glob("*.json")}
    assert set(re.findall(r'^"schemas/(.+)" = "ds_lint/data/schemas/\1"$', wheel, re.MULTILINE)) == tables


def test_a_build_leaves_only_what_is_published(tmp_path):
    for target in ("wheel", "sdist"):
        command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", tmp_path]
        subprocess.run(command, cwd=SCHEMAS.parent, check=True, capture_output=True)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".gz", ".whl"]
    wheel = next(tmp_path.glob("*.whl"))
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"ds_lint/_built.py", "ds_lint/_built_advisories.py"} <= names
    assert {f"deepspeed_lint-{__version__}.dist-info/licenses/{name}" for name in ("LICENSE", "NOTICE")} <= names


def test_a_wheel_knows_by_the_module(built, monkeypatch):
    monkeypatch.setattr(tables, "_known", {})
    monkeypatch.setattr(tables, "_built", lambda: built)
    monkeypatch.setattr(tables, "_from_json", lambda name: pytest.fail(f"{name}.json was read"))
    known = keys.Knowledge()
    assert known.find(("zero_optimization", "stage")) is not None
    assert "train_batch_size" in known.trainer["fills"]


def test_a_wheel_lints_training_arguments(built, monkeypatch):
    monkeypatch.setattr(tables, "_known", {})
    monkeypatch.setattr(tables, "_built", lambda: built)
    monkeypatch.setattr(keys, "_known", {})
    config = {"optimizer": {"type": "AdamW", "params": {"lr": 3e-5}}, "train_micro_batch_size_per_gpu": 1}
    facts = gather(Sources(trainer_args="--learning_rate 5e-5 --per_device_train_batch_size 1"))
    report = lint_dict(config, stack="trainer", facts=facts)
    assert "DS610" in {finding.code for finding in report.findings}


def test_a_wheel_decides_about_advisories_as_a_checkout_does(monkeypatch):
    pins = {"deepspeed": Pin("deepspeed", "==0.18.2", ""), "torch": Pin("torch", "==2.3.0", "")}

    def found():
        monkeypatch.setattr(advisories, "_of_pins", {})
        return [(one.record["id"], one.record["when"], one.undecided) for one in advisories.exposures(pins)]

    by_store = found()
    namespace: dict[str, Any] = {}
    exec(index(SCHEMAS), namespace)  # noqa: S102 - what the build writes
    monkeypatch.setattr(advisories, "_indices", [namespace["INDEX"]])
    assert found() == by_store
    assert {"summary", "proof"}.isdisjoint(namespace["INDEX"]["advisories"][0])
