"""The README is short and shows what is printed; the reference pages name what exists.

Their commands are run by test_documentation_commands.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools import picture
from tools.site import command_line

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
OUTPUT = (ROOT / "docs" / "output.md").read_text(encoding="utf-8")
COMMAND_LINE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")


def test_it_is_short():
    assert len(README.encode()) <= 9 * 1024


def test_the_picture_shows_what_is_printed():
    assert f"]({picture.PICTURE.relative_to(ROOT)})" in README
    assert picture.PICTURE.read_text(encoding="utf-8") == picture.drawn(picture.printed()), (
        "python -m tools.picture --write"
    )


def test_the_picture_of_memory_is_that_of_the_command():
    assert picture.MEMORY_PICTURE.read_text(encoding="utf-8") == picture.memory(), "python -m tools.picture --write"


def test_a_picture_keeps_spaces_and_colours():
    drawn = picture.drawn("a \x1b[1;31m<b>\x1b[0m  c\n")
    assert '>a\N{NO-BREAK SPACE}<tspan font-weight="bold" fill="#ff7b72">&lt;b&gt;</tspan>' in drawn
    assert "</tspan>\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}c</text>" in drawn


def test_the_formats_severities_and_stacks_of_the_reference_are_all():
    from ds_lint.diagnostics.finding import SEVERITIES, STACKS
    from ds_lint.output import FORMATS

    formats = OUTPUT.partition("## Output formats")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", formats, re.MULTILINE)) == set(FORMATS)
    assert all(f"`{severity}`" in OUTPUT for severity in SEVERITIES)
    assert all(f"`{stack}`" in COMMAND_LINE for stack in STACKS)


def test_the_reference_begins_with_every_command():
    commands = re.findall(r"^## `ds-lint (\w+)`", command_line.options(), re.MULTILINE)
    assert len(commands) > 5
    assert [name for name in commands if f"ds-lint {name}" not in COMMAND_LINE] == []


def test_the_examples_are_one_clean_and_one_broken_config():
    done = subprocess.run(
        [sys.executable, "-m", "ds_lint", "check", "examples"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "in 1 of 2 files" in done.stdout


def test_the_settings_that_the_reference_shows_are_settings(tmp_path, run):
    shown, *_ = re.findall(r"```toml[^\n]*\n(.*?)```", SETTINGS, re.DOTALL)
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


def test_the_comments_that_the_reference_shows_suppress_what_it_says(tmp_path, run):
    shown, _ = re.findall(r"```js\n(.*?)```", SETTINGS, re.DOTALL)
    (tmp_path / "a.json").write_text(shown, encoding="utf-8")
    assert "a.json: no findings." in run("check", "a.json", "--output-format", "concise").stdout
    assert "DS101" in run("check", "a.json", "--stack", "trainer", "--output-format", "concise").stdout


def test_add_ignore_writes_the_comment_that_the_reference_shows(tmp_path, run):
    _, shown = re.findall(r"```js\n(.*?)```", SETTINGS, re.DOTALL)
    comment = "  // ds-lint: ignore[unknown-key]\n"
    (tmp_path / "a.json").write_text(shown.replace(comment, ""), encoding="utf-8")
    run("check", "a.json", "--stack", "deepspeed", "--add-ignore")
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == shown
