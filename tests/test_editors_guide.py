"""What docs/editors.md shows for editors that the tests do not run is at least well-formed, and names the server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parent.parent / "docs" / "editors.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_helix_starts_the_server_beside_the_one_for_json():
    tomllib = pytest.importorskip("tomllib")
    (shown,) = map(tomllib.loads, blocks("toml"))
    (name,) = shown["language-server"]
    assert shown["language-server"][name] == {"command": "ds-lint", "args": ["lsp"]}
    assert name in shown["language"][0]["language-servers"]


def test_coc_and_sublime_text_start_the_server():
    coc, sublime = map(json.loads, blocks("json"))
    assert coc["languageserver"]["ds-lint"]["args"] == ["lsp"]
    assert sublime["clients"]["ds-lint"]["command"] == ["ds-lint", "lsp"]
