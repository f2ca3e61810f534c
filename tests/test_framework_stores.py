"""The stores of the training frameworks have one form, and each is written by the same command."""

from __future__ import annotations

import json

import pytest

from ds_lint.frameworks import FRAMEWORKS
from tools.extract import framework_stores, history, presets, recipe_fields, recipes, refusals
from tools.extract.framework_stores import FrameworkStore
from tools.refreshing.readings import OF_FRAMEWORKS

by_name = pytest.mark.parametrize("store", OF_FRAMEWORKS, ids=lambda store: store.name)


@by_name
def test_the_file_is_what_the_command_writes(store):
    assert store.text(store.read()) == store.path.read_text(encoding="utf-8")


@by_name
def test_a_framework_has_its_name_or_that_of_its_package(store, capsys):
    command = {one.STORE.name: one.main for one in (presets, recipe_fields, recipes, refusals)}[store.name]
    for name in ("AXOLOTL", "llamafactory"):
        assert command([name]) == 2
        assert capsys.readouterr().err == "error: name a release of the framework\n"
    assert command(["other", "1.0"]) == 2
    names = ", ".join(store.frameworks)
    assert capsys.readouterr().err == f"error: other is none of the frameworks: {names}\n"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A store of the number of files that a release of axolotl has, and the folders of three releases."""
    monkeypatch.setattr(framework_stores, "SCHEMAS", tmp_path)
    for number, release in enumerate(("1.0", "1.1", "1.2")):
        (tmp_path / f"axolotl-{release}").mkdir()
        for one in range(number + 1):
            (tmp_path / f"axolotl-{release}" / f"{one}.py").touch()
    return FrameworkStore("made", {"axolotl": FRAMEWORKS["axolotl"]}, count)


def count(_framework, tree, release=None):
    return {"files": {path.name: {} for path in tree.glob("*.py")}, "named": {release: {}}}


def run(store, cache, *words):
    return framework_stores.main(store, None, [*words, "--cache", str(cache)])


def test_a_store_without_a_file_gets_one(made, tmp_path, capsys):
    assert run(made, tmp_path, "axolotl", "1.0", "1.1") == 0
    assert capsys.readouterr().out == (
        "axolotl 1.0: the oldest in the store\n"
        "axolotl 1.1 (after 1.0)\n* files: `1.py` is new\n* named: `1.0` is gone\n* named: `1.1` is new\n"
    )
    record = json.loads(made.path.read_text())["frameworks"]["axolotl"]
    assert (record["library"], record["releases"]) == ("axolotl", ["1.0", "1.1"])
    assert list(history.at(record, "1.0")["files"]) == ["0.py"]


def test_what_is_read_again_is_written_only_if_it_differs(made, tmp_path, capsys):
    run(made, tmp_path, "axolotl", "1.0", "1.1")
    written = made.path.read_bytes()
    assert (run(made, tmp_path), run(made, tmp_path, "--check")) == (0, 0)
    assert made.path.read_bytes() == written
    (tmp_path / "axolotl-1.0" / "more.py").touch()
    capsys.readouterr()
    assert run(made, tmp_path, "--check") == 1
    assert capsys.readouterr().err == "made.json differs in axolotl\n"
    assert made.path.read_bytes() == written
    assert run(made, tmp_path) == 0
    assert "more.py" in history.at(made.read()["frameworks"]["axolotl"], "1.0")["files"]


def test_a_new_release_that_has_lost_most_is_an_error(made, tmp_path, capsys):
    for one in range(9):
        (tmp_path / "axolotl-1.1" / f"{one}.py").touch()
    run(made, tmp_path, "axolotl", "1.1")
    assert run(made, tmp_path, "axolotl", "1.2") == 2
    assert "the extractor finds 3 files in axolotl 1.2; 1.1 has 9" in capsys.readouterr().err
    assert run(made, tmp_path, "axolotl", "1.2", "--allow-loss", "files") == 0
