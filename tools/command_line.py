"""What the commands here share: wrong usage and every other error is one line on standard error, and status 2."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Says what is wrong without the usage."""

    def error(self, message: str) -> NoReturn:
        """Exit with one line."""
        self.exit(2, f"error: {message}\n")


def cannot(reason: str) -> int:
    """Say why a command cannot be done; its exit status."""
    print_progress(f"error: {reason}")
    return 2


def print_progress(line: str) -> None:
    """A line beside the result, on standard error."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
