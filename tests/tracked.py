"""The files of the repository, for tests that look at all of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


def contents() -> Iterator[tuple[str, bytes]]:
    """Every tracked file that is there, by its path in the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for path in filter(None, listed.stdout.split("\0")):
        if (ROOT / path).is_file():
            yield path, (ROOT / path).read_bytes()
