"""The releases that the environment of the tests has: ``requirements/fidelity.txt``, and those that examples show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tools.extract.releases import number
from tools.fidelity.environments import PINS, pins

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLES = Path(__file__).parents[2] / "examples" / "requirements.txt"
BY_HAND = ("torch",)  # whose wheels for Linux bring gigabytes of CUDA, where no other index has a build without


def wanted(newest: Mapping[str, str]) -> dict[str, str]:
    """The pins as the newest releases would have them."""
    return {
        library: release if library in BY_HAND else max(release, newest.get(library, release), key=number)
        for library, release in pins().items()
    }


def move(moved: Mapping[str, str]) -> None:
    """Write the pins."""
    for path in (PINS, EXAMPLES):
        text = path.read_text(encoding="utf-8")
        for library, release in moved.items():
            text = re.sub(rf"^{re.escape(library)}==\S+", f"{library}=={release}", text, flags=re.MULTILINE)
        path.write_text(text, encoding="utf-8", newline="\n")
