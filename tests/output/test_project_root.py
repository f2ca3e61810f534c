"""Paths as CI systems want to hear them."""

from __future__ import annotations

import ntpath
import os

import pytest

from ds_lint.output.project_root import Root, project_root


@pytest.mark.parametrize(
    ("path", "relative"),
    [
        ("ds.json", "train/ds.json"),
        ("../ds.json", "ds.json"),
        ("./a/../b//ds.json", "train/b/ds.json"),
        ("/repo/ds.json", "ds.json"),
        ("/repository/ds.json", None),
        ("../../ds.json", None),
        ("<stdin>", "train/<stdin>"),
    ],
)
def test_a_path_from_the_root(path, relative):
    assert Root("/repo", "/repo/train").relative(path) == relative


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("ds.json", "train/ds.json"),
        ("c:\\Repo\\conf/ds.json", "conf/ds.json"),
        ("D:\\ds.json", "D:/ds.json"),
        ("\\\\server\\share\\ds.json", "//server/share/ds.json"),
    ],
)
def test_a_path_on_windows(path, shown):
    assert Root("C:\\repo", "C:\\repo\\train", ntpath).shown(path) == shown


def test_the_root_is_the_repository(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert project_root({"GITHUB_WORKSPACE": str(tmp_path / "a")}).folder == str(tmp_path)


@pytest.mark.parametrize("name", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
def test_without_a_repository_the_root_is_what_ci_checked_out(tmp_path, monkeypatch, name):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert project_root({name: f"{tmp_path}/"}).folder == str(tmp_path)
    assert project_root({name: str(tmp_path / "other")}).folder == str(tmp_path / "work")
    assert project_root({name: "relative"}).folder == str(tmp_path / "work")
    assert project_root({}).folder == str(tmp_path / "work")


def test_a_working_directory_that_is_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert project_root({}).folder == os.sep
