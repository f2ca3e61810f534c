"""The releases that the environment of the tests has: ``requirements/fidelity.txt``, and those that examples show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.fidelity.environments import PINS, pins

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLES = Path(__file__).parents[2] / "examples" / "requirements.txt"
_FOR_GPUS = re.compile(r"nvidia-|cuda-")  # packages of a build of torch that needs gigabytes of them


def wanted(newest: Mapping[str, str]) -> dict[str, str]:
    """The pins as the newest releases would have them; torch stays where its newest release has no small build."""
    moved = {library: newest.get(library, release) for library, release in pins().items()}
    if moved["torch"] != pins()["torch"] and not has_small_build("torch", moved["torch"]):
        moved["torch"] = pins()["torch"]
    return moved


def has_small_build(library: str, release: str) -> bool:
    """Whether pip would install a release without packages for GPUs."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--dry-run",
         "--ignore-installed", "--report", "-", f"{library}=={release}"],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        return False
    named = (one["metadata"]["name"].lower() for one in json.loads(done.stdout)["install"])
    return not any(map(_FOR_GPUS.match, named))


def move(moved: Mapping[str, str]) -> None:
    """Write the pins."""
    for path in (PINS, EXAMPLES):
        text = path.read_text(encoding="utf-8")
        for library, release in moved.items():
            text = re.sub(rf"^{re.escape(library)}==\S+", f"{library}=={release}", text, flags=re.MULTILINE)
        path.write_text(text, encoding="utf-8", newline="\n")
