"""What pyproject.toml names in its groups is what requirements/ has for pip."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ds_lint.smoke.rank.libraries import OLDEST

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = PYPROJECT["dependency-groups"]


def required(name):
    """The lines of a file, other files that it names included."""
    for line in (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("-r "):
            yield from required(line.removeprefix("-r ").removesuffix(".txt"))
        elif not line.startswith("#"):
            yield line


def grouped(name):
    for entry in GROUPS[name]:
        yield from grouped(entry["include-group"]) if isinstance(entry, dict) else [entry]


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_is_its_file(name):
    assert sorted(grouped(name)) == sorted(required(name))


def test_installing_what_trains_changes_no_release_that_is_there():
    assert set(OLDEST) <= set(PYPROJECT["project"]["optional-dependencies"]["smoke"])


@pytest.mark.parametrize("name", ["build", "release"])
def test_tools_that_publish_are_pinned_by_hash(name):
    """Each that the list names is in the file for pip, which demands a hash of every line."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+)==\S+(?: ; .*)? \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^\w", text, re.MULTILINE))
    assert {re.split(r"[<>=]", one)[0] for one in PYPROJECT["build-system"]["requires"]} <= set(pinned)
    lists = (ROOT / "requirements" / f"{name}.in", ROOT / "requirements" / "build.in")
    named = {line for path in lists for line in path.read_text("utf-8").splitlines() if line[0] not in "#-"}
    assert named <= set(pinned)
    assert "index-url" not in text
