"""The scripts on this machine: a repository at its commit, unpacked once."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.own_scripts.recipe import Source


def version(source: Source) -> str:
    """The commit, or the installed release."""
    return importlib.metadata.version(source.name) if source.is_package else source.commit


def installed(names: Iterable[str]) -> dict[str, str]:
    """The releases of these packages."""
    return {name: importlib.metadata.version(name) for name in names}


def unpacked(source: Source, cache: Path) -> Path:
    """The folder with the files of a repository at the commit.

    ``CACHE/mirrors/OWNER+NAME`` is read if it is there, a clone or a bare one, and cloned from GitHub if it is not.
    """
    name = source.name.replace("/", "+")
    place = cache / "sources" / f"{name}-{source.commit[:12]}"
    if place.is_dir():
        return place
    mirror = cache / "mirrors" / name
    if not mirror.is_dir():
        url = f"https://github.com/{source.name}"
        subprocess.run(["git", "clone", "--filter=blob:none", "--bare", "--quiet", url, mirror], check=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        archive = Path(folder) / "files.tar"
        command = ["git", "-C", str(mirror), "archive", f"--output={archive}", source.commit, "--", *source.paths]
        subprocess.run(command, check=True)
        with tarfile.open(archive) as files:
            files.extractall(Path(folder) / "files", filter="data")
        os.replace(Path(folder) / "files", place)
    return place
