"""What the README shows is what ds-lint says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", re.findall(r"```console\n(.*?)```", README, re.DOTALL))
def test_shown_output(block: str):
    command, _, shown = block.partition("\n")
    words = command.removeprefix("$ ds-lint ").split()
    # readline, which pytest imports, exports COLUMNS behind the back of os.environ.
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", "ds_lint", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == shown


def test_the_formats_and_stacks_it_names_exist():
    from ds_lint.finding import SEVERITIES, STACKS
    from ds_lint.output import FORMATS

    assert all(f"`{stack}`" in README for stack in STACKS)
    assert r"full\|concise\|json\|sarif" in README
    assert set(FORMATS) == {"full", "concise", "json", "sarif"}
    assert r"\|".join(SEVERITIES) in README


def test_the_examples_are_one_clean_and_one_broken_config():
    done = subprocess.run(
        [sys.executable, "-m", "ds_lint", "check", "examples"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "in 1 of 2 files" in done.stdout


def test_the_settings_it_shows_are_settings(tmp_path, run):
    (shown,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(shown, encoding="utf-8")
    (tmp_path / "org.schema.json").write_text("{}", encoding="utf-8")
    (tmp_path / "zero3").mkdir()
    for name in ("clean.json", "broken.json"):
        shutil.copy(ROOT / "examples" / name, tmp_path / "zero3")
    before = run("check", "--write-baseline")
    assert (before.returncode, before.stderr) == (0, "")
    after = run("check", "-v")
    assert (after.returncode, after.stderr) == (0, "")
    assert "stack trainer" in after.stdout
    assert "world size: 64, by pyproject.toml" in after.stdout


def test_the_comments_it_shows_hold_back_what_it_says(tmp_path, run):
    (shown,) = re.findall(r"```js\n(.*?)```", README, re.DOTALL)
    (tmp_path / "a.json").write_text(shown, encoding="utf-8")
    assert "a.json: no findings." in run("check", "a.json", "--output-format", "concise").stdout
    assert "DS101" in run("check", "a.json", "--stack", "trainer", "--output-format", "concise").stdout


@pytest.mark.fidelity
@pytest.mark.parametrize("path", ["README.md", "docs/smoke.md"])
def test_the_training_runs_it_shows(path, tmp_path, run):
    pytest.importorskip("deepspeed")
    shown = re.findall(
        r"```json\n([^`]*)```\n\n```console smoke\n\$ ds-lint (.*?)\n(.*?)```", (ROOT / path).read_text(), re.DOTALL
    )
    assert shown
    for config, command, output in shown:
        (tmp_path / "ds_config.json").write_text(config, encoding="utf-8")
        assert without_seconds(run(*command.split()).stdout) == without_seconds(output)


def without_seconds(text: str) -> str:
    """What a run printed, but for how long it took."""
    return re.sub(r"[\d.,]+ s:", "S s:", text)
