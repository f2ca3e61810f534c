"""The real programs that ds-lint meets its users in: editors, pre-commit, what CI systems read its reports with.

``tools/clients`` installs them. A test whose program is not there is skipped; in CI it fails, so that none is
forgotten.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NODE_MODULES = Path(__file__).parent / "node_modules"  # what package.json beside this file names
VENV = Path(__file__).parent / ".venv"  # what requirements/clients.txt names, and junit-10.xsd


@pytest.fixture(scope="session")
def program():
    """Finds a program by its path below node_modules or .venv, or by its name: beside this Python, or on the PATH."""
    beside = os.path.dirname(sys.executable)

    def find(name):
        below = next((str(path) for path in (NODE_MODULES / name, VENV / name) if path.exists()), None)
        path = below or shutil.which(name, path=beside) or shutil.which(name)
        if path is None:
            say = pytest.fail if os.environ.get("CI") else pytest.skip
            say(f"there is no {name}; tools/clients installs it, or requirements/dev.txt has it")
        return path

    return find
