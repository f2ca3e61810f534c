"""Paths as people read them, in findings and in what is said of pins."""

from __future__ import annotations

import os

import pytest

from ds_lint.output.text import shown_path
from ds_lint.targets.text import shown


@pytest.mark.parametrize("path", ["a.json", os.path.join("runs", "a.json"), ""])
def test_a_path_below_is_shown_from_the_working_directory(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    whole = os.path.join(str(tmp_path), path)
    assert shown(path) == shown_path(path) == path
    assert shown(whole) == shown_path(whole) == (path or whole)


def test_another_path_is_shown_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = str(tmp_path) + "-b"
    assert shown(other) == shown_path(other) == other
