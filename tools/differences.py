"""What is wrong with a file that a program could have written: the difference to what it would have written."""

from __future__ import annotations

import sys
from difflib import unified_diff


def show(name: str, text: str, right: str) -> None:
    """Print how a text differs from what it should be."""
    changes = unified_diff(
        text.splitlines(), right.splitlines(), f"{name} as it is", f"{name} as it should be", lineterm="", n=1
    )
    sys.stdout.write("".join(f"{line}\n" for line in changes))
