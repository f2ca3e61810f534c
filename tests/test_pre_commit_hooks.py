"""The hooks, and what is written about them, say the same as ds-lint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ds_lint import __version__
from ds_lint.launches import files
from ds_lint.project import discovery
from ds_lint.settings.nearest import NAMES
from ds_lint.targets.files import PATTERNS

ROOT = Path(__file__).parent.parent
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("hook", HOOKS, ids=[hook["id"] for hook in HOOKS])
def test_a_hook_is_given_the_files_that_a_search_looks_into(hook):
    assert all(re.search(hook["files"], f"configs/a{ending}") for ending in discovery.ENDINGS)
    assert not any(re.search(hook["files"], name) for name in ("a.geojson", "json", "a.pyc", "a.json5", "a.md"))


@pytest.mark.parametrize("hook", HOOKS, ids=[hook["id"] for hook in HOOKS])
def test_a_hook_is_given_the_files_that_reach_configs(hook):
    pinning = [name.replace("*", "train") for name in PATTERNS]
    launching = ["Makefile", "GNUmakefile", "Dockerfile", "Dockerfile.train", "hostfile", "conf/hostfile_2"]
    for name in (*pinning, *NAMES, *launching, *(f"a{ending}" for ending in files.ENDINGS)):
        assert re.search(hook["files"], name), name
        assert re.search(hook["files"], f"below/{name}"), name
    assert not any(re.search(hook["files"], name) for name in ("a.toml.txt", "Cargo.lock", "notes.txt", "Makefile.md"))


@pytest.mark.parametrize("path", ["README.md", "docs/pre-commit.md"])
def test_the_shown_hooks_are_those_of_this_version(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    shown = [
        repository
        for block in re.findall(r"```yaml\n(repos:.*?)```", text, re.DOTALL)
        for repository in yaml.safe_load(block)["repos"]
        if repository["repo"] != "local"
    ]
    assert shown
    for repository in shown:
        assert repository["rev"] == f"v{__version__}"
        assert {hook["id"] for hook in repository["hooks"]} <= {hook["id"] for hook in HOOKS}


def test_the_shown_local_hook_is_ours():
    text = (ROOT / "docs" / "pre-commit.md").read_text(encoding="utf-8")
    (local,) = re.findall(r"```yaml\n(repos:\n  - repo: local.*?)```", text, re.DOTALL)
    (hook,) = yaml.safe_load(local)["repos"][0]["hooks"]
    ours = next(one for one in HOOKS if one["id"] == hook["id"])
    assert {name: ours[name] for name in ("entry", "files", "require_serial")} == {
        name: hook[name] for name in ("entry", "files", "require_serial")
    }
