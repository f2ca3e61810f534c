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
PYTHON_PROGRAMS = Path(__file__).parent / ".venv" / "bin"  # what requirements/clients.txt names


@pytest.fixture(scope="session")
def program():
    """Finds a program by its path below node_modules, or by its name among Python's, ours first, or on the PATH."""
    python_programs = os.pathsep.join([os.path.dirname(sys.executable), str(PYTHON_PROGRAMS)])

    def find(name):
        below = NODE_MODULES / name
        path = str(below) if below.exists() else shutil.which(name, path=python_programs) or shutil.which(name)
        if path is None:
            say = pytest.fail if os.environ.get("CI") else pytest.skip
            say(f"there is no {name}; tools/clients installs it, or requirements/dev.txt has it")
        return path

    return find
