"""What pyproject.toml names in its groups is what requirements/ has for pip."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]


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
