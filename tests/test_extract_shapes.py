"""A release whose source no longer has the shape that an extractor knows is an error, and never silently fewer facts.

Each case changes one thing in a release made for the tests; ``fidelity/test_installed_shapes.py`` does it with what is
installed.
"""

from __future__ import annotations

import json
import sys

import made_sources
import pytest
from changed_shapes import HARMLESS, RELEASES

from tools.extract import __main__ as command
from tools.extract import recipes


def check(library, tree):
    """The status of ``--check`` for the newest release that the store has, as if it lay in this folder."""
    if library in command.LIBRARIES:
        store = command.LIBRARIES[library].STORE
        release = json.loads(store.read_text(encoding="utf-8"))["releases"][-1]
        return command.main([library, release, "--check", "--tree", str(tree)])
    package = library.removeprefix("recipes of ")
    name = next(name for name, one in recipes.FRAMEWORKS.items() if one.package == package)
    return recipes.main([package, recipes.STORE.known(name)[-1], "--check", "--tree", str(tree)])


def facts(library, tree):
    if library in command.LIBRARIES:
        return command.LIBRARIES[library].extract(tree)
    package = library.removeprefix("recipes of ")
    framework = next(one for one in recipes.FRAMEWORKS.values() if one.package == package)
    return recipes.extract(framework, tree, None)


@pytest.mark.parametrize(
    ("library", "change"),
    [(library, change) for library, changes in HARMLESS.items() for change in changes],
    ids=lambda value: getattr(value, "what", value),
)
def test_a_harmless_change_changes_no_fact(library, change, tmp_path):
    files = RELEASES[library][0]
    text = files[change.file]
    assert change.before in text
    if "except*" in change.after and sys.version_info < (3, 11):
        pytest.skip("older Pythons have no except*")
    changed = {**files, change.file: text.replace(change.before, change.after)}
    before = facts(library, made_sources.write(tmp_path / "before", files))
    assert facts(library, made_sources.write(tmp_path / "after", changed)) == before


@pytest.mark.parametrize("library", RELEASES)
def test_the_releases_are_understood_as_they_are(library, tmp_path, capsys):
    files, _ = RELEASES[library]
    assert check(library, made_sources.write(tmp_path, files)) == 1
    assert "error: " not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("library", "change"),
    [(library, change) for library, (_, changes) in RELEASES.items() for change in changes],
    ids=lambda value: getattr(value, "what", value),
)
def test_another_shape_is_an_error(library, change, tmp_path, capsys):
    files = dict(RELEASES[library][0])
    text = files.pop(change.file)
    if change.before:
        assert change.before in text
        files[change.file] = text.replace(change.before, change.after)
    assert check(library, made_sources.write(tmp_path, files)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: the extractor does not know how ")
    assert change.error in error
