"""The site of every language, built from its sources by a generator into one folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tools.site import sources, translated

if TYPE_CHECKING:
    from pathlib import Path

GENERATORS = {
    "mkdocs": ("-m", "mkdocs", "build", "--strict", "--config-file"),
    "zensical": ("-m", "zensical", "build", "--strict", "--config-file"),
}


def build(folder: Path, generator: str) -> int:
    """Build the sources in a folder, each language in its own; then the others are put into the English site."""
    for language in translated.NAMES:
        place = folder if language == "en" else folder / language
        done = subprocess.run(
            [sys.executable, *GENERATORS[generator], place / sources.SETTINGS],
            env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            sys.stderr.buffer.write(done.stdout)
            return done.returncode
        if language != "en":
            within = folder / sources.BUILT / language
            shutil.rmtree(within, ignore_errors=True)
            shutil.move(place / sources.BUILT, within)
    return 0
