"""What the README names exists. Its commands are run by test_documentation_commands.py."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_formats_and_stacks_it_names_exist():
    from ds_lint.diagnostics.finding import SEVERITIES, STACKS
    from ds_lint.output import FORMATS

    assert all(f"`{stack}`" in README for stack in STACKS)
    assert r"full\|concise\|" + r"\|".join(sorted(FORMATS.keys() - {"full", "concise"})) in README
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
