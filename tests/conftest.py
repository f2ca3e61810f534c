"""What several test files need. That this file is here also lets them import the helpers beside it."""

from __future__ import annotations

import os

import pytest
from documents import configs_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEEDS = os.environ.get("DS_LINT_SEEDS") or os.path.join(os.path.dirname(ROOT), "shared", "seeds")


@pytest.fixture(scope="session")
def documents():
    """The configs of every document, by file name and in the order of the text."""
    if not os.path.isdir(SEEDS):
        pytest.skip(f"no documents in {SEEDS}; DS_LINT_SEEDS names another folder")
    found = {}
    for name in sorted(os.listdir(SEEDS)):
        if name.endswith(".txt"):
            with open(os.path.join(SEEDS, name), encoding="utf-8") as file:
                found[name] = configs_of(file.read())
    return found
