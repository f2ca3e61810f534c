"""What the README shows is what ds-lint says."""

from __future__ import annotations

import os
import re
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
    assert r"full\|concise\|json" in README
    assert set(FORMATS) == {"full", "concise", "json"}
    assert r"\|".join(SEVERITIES) in README


def test_the_examples_are_one_clean_and_one_broken_config():
    done = subprocess.run(
        [sys.executable, "-m", "ds_lint", "check", "examples"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "in 1 of 2 files" in done.stdout
