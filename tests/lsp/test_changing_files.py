"""What the configs of a folder are judged by, while the files that say so change."""

from __future__ import annotations

import pytest

from ds_lint.lsp import project
from ds_lint.lsp.project import Project
from ds_lint.session.options import Options
from ds_lint.session.session import Wishes


@pytest.fixture
def folder(tmp_path):
    (tmp_path / ".git").mkdir()
    return tmp_path


def complain(message):
    raise AssertionError(message)


def test_settings_that_change_are_read_again(folder):
    here = Project(str(folder), Options([]), complain)
    assert here.wishes() is here.wishes()
    assert here.terms(str(folder / "a.json")).stack is None
    (folder / "ds-lint.toml").write_text('stack = "trainer"\n')
    assert here.terms(str(folder / "a.json")).stack == "trainer"


def test_settings_that_change_while_they_are_read_are_read_again(folder, monkeypatch):
    settings = folder / "ds-lint.toml"
    settings.write_text('stack = "trainer"\n')

    class Slow(Wishes):
        """Somebody saves the settings when they have just been read."""

        def terms(self, path):
            terms = super().terms(path)
            settings.write_text('stack = "deepspeed"\n')
            return terms

    monkeypatch.setattr(project, "Wishes", Slow)
    here = Project(str(folder), Options([]), complain)
    here.wishes()
    assert here.terms(str(folder / "a.json")).stack == "deepspeed"
