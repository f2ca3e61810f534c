"""A project made of a few files, and what its pins are."""

from __future__ import annotations

import textwrap

import pytest


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Writes files into an empty project, the working directory, whose root is marked; gives its directory."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(tmp_path)

    return write


@pytest.fixture
def said():
    """Pins without their libraries' names twice: library to specifier and source."""

    def say(pins):
        assert all(pin.library == library for library, pin in pins.items())
        return {library: (pin.specifier, pin.source) for library, pin in pins.items()}

    return say
