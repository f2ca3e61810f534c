"""``ds-lint upgrade`` between the two newest releases of a library, against both of them at work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from test_corpus_truth import CORPUS

pytest.importorskip("deepspeed")
pytest.importorskip("pip")

from ds_lint.knowledge import tables
from ds_lint.knowledge.stacks import records
from tools.extract.releases import fetch

PROGRAM = Path(__file__).parent / "programs" / "loads.py"
STACKS = {"deepspeed": "deepspeed", "transformers": "trainer", "accelerate": "accelerate"}
TABLES = {"transformers": "training_arguments", "accelerate": "plugin"}

pytestmark = [
    pytest.mark.fidelity,
    pytest.mark.long,  # downloads the releases, and loads a thousand configs with each
    pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here"),
]


@cache
def configs():
    """The published configs that are JSON objects, by their paths."""
    found = {}
    for path in sorted((CORPUS / "configs").glob("*.json")):
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if isinstance(config, dict):
            found[str(path)] = config
    return found


@pytest.fixture(scope="module", params=STACKS)
def library(request):
    return request.param


@pytest.fixture(scope="module")
def releases(library):
    """The last two, oldest first, and what each does."""
    return tables.load(library)["releases"][-2:]


@pytest.fixture(scope="module")
def outcomes(library, releases, tmp_path_factory):
    folder = tmp_path_factory.mktemp("releases")
    given = folder / "configs.json"
    given.write_text(json.dumps(list(configs().values())), encoding="utf-8")
    return [loaded(library, release, folder, given) for release in releases]


def loaded(library, release, folder, given):
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(fetch(library, release, folder))}
    command = [sys.executable, PROGRAM, library, given]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["release"] == release
    return said


@pytest.fixture(scope="module")
def told(library, releases):
    """What ``ds-lint upgrade`` says of each config."""
    prefix = "--" if library == "deepspeed" else f"--{library}-"
    since, until = releases
    command = [sys.executable, "-m", "ds_lint", "upgrade", f"{prefix}from", since, f"{prefix}to", until]
    command += ["--stack", STACKS[library], "--output-format", "json", *configs()]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    found = {path: [] for path in configs()}
    for finding in report["findings"]:
        found[finding["path"]].append(finding)
    return list(found.values())


def test_most_configs_are_loaded(outcomes):
    loaded = [sum("error" not in one for one in said["outcomes"]) for said in outcomes]
    assert min(loaded) > 300  # else a broken installation would pass for two releases that do the same


def test_what_the_newer_release_rejects_is_told(outcomes, told):
    before, after = ([one.get("error") for one in said["outcomes"]] for said in outcomes)
    newly = {place for place, error in enumerate(after) if error and not before[place]}
    rejected = {place for place, found in enumerate(told) if any(one["effect"] == "rejected" for one in found)}
    assert newly <= rejected
    assert {place for place in rejected - newly if not before[place]} == set()  # else rejected for one more reason


def test_where_nothing_is_told_nothing_differs(outcomes, told):
    before, after = (said["outcomes"] for said in outcomes)
    silent = [place for place, found in enumerate(told) if not found]
    assert [place for place in silent if ("error" in after[place]) != ("error" in before[place])] == []
    assert [place for place in silent if after[place].get("config") != before[place].get("config")] == []


@pytest.mark.parametrize("library", TABLES, indirect=True)  # test_knowledge.py compares every key of DeepSpeed
def test_fields_that_came_and_went_are_known(library, releases, outcomes):
    store = tables.load(library)
    since, until = (set(records(store, TABLES[library], release)) for release in releases)
    before, after = (set(said["fields"]) for said in outcomes)
    assert (until - since, since - until) == (after - before, before - after)
