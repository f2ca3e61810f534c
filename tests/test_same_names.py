"""Two test files may share a name, in folders of their own; the modules beside them that they import may not."""

from __future__ import annotations

import collections
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_two_test_files_may_share_a_name(tmp_path):
    for folder, value in (("first", 1), ("second", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test_shared.py").write_text(
            f"VALUE = {value}\n\ndef test_it():\n    assert VALUE == {value}\n", encoding="utf-8"
        )
    command = [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "--rootdir", tmp_path, tmp_path], capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_helpers_have_names_of_their_own(pytestconfig):
    folders = [ROOT / folder for folder in pytestconfig.getini("pythonpath") if str(folder) != "."]
    helpers = collections.Counter(
        path.name
        for folder in folders
        for path in Path(folder).glob("*.py")
        if path.name != "conftest.py" and not path.name.startswith("test_")
    )
    assert [name for name, count in helpers.items() if count > 1] == []
