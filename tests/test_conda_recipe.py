"""The recipe for conda-forge says what ``pyproject.toml`` says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

from ds_lint.addresses import DISTRIBUTION

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
RECIPE = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OWN_NAMES = {"tree-sitter": "tree_sitter"}  # on conda-forge, where tree-sitter is the program


def of_conda(requirements):
    """Requirements as conda spells them; a package for every Python has no markers."""
    for one in requirements:
        name, bound = re.match(r"([\w-]+)([^;]*)", one).groups()
        yield f"{OWN_NAMES.get(name, name).lower()} {bound.strip()}"


def test_it_needs_what_the_distribution_needs():
    needed = RECIPE["requirements"]["run"]
    assert sorted(needed[1:]) == sorted(of_conda(PYPROJECT["project"]["dependencies"]))
    assert needed[0] == "python >=${{ python_min }}"
    assert f">={RECIPE['context']['python_min']}" == PYPROJECT["project"]["requires-python"]


def test_it_is_built_with_what_builds_the_wheel():
    python, pip, *others = RECIPE["requirements"]["host"]
    assert (python, pip) == ("python ${{ python_min }}.*", "pip")
    assert others == list(of_conda(PYPROJECT["build-system"]["requires"]))


def test_it_describes_the_distribution():
    project = PYPROJECT["project"]
    assert RECIPE["package"]["name"] == project["name"] == DISTRIBUTION
    assert RECIPE["build"]["python"]["entry_points"] == [f"{name} = {at}" for name, at in project["scripts"].items()]
    about = RECIPE["about"]
    assert (about["summary"], about["license"]) == (project["description"], project["license"])
    assert about["license_file"] == project["license-files"]
    assert (about["documentation"], about["repository"]) == (
        project["urls"]["Documentation"],
        project["urls"]["Source"],
    )
