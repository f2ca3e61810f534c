"""The unpacked releases: those in folders that are there already, and those that are downloaded into a cache."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from tools.extract.releases import available, fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).parent.parent.parent
CACHE = ROOT / ".releases_of"
# Nothing older is read: a range that begins with one of these is written as one that has no beginning.
OLDEST = {"deepspeed": "0.8.0", "transformers": "4.28.0", "accelerate": "0.15.0", "peft": "0.3.0", "trl": "0.4.0",
          "lightning": "2.0.0", "torch": "1.13.0"}  # fmt: skip
_DOWNLOADS = 4  # at once


class Trees(NamedTuple):
    """Where releases are found, and where others are put."""

    cache: Path = CACHE
    folders: tuple[Path, ...] = ()

    def tree(self, library: str, release: str) -> Path:
        """The folder with the unpacked package of a release."""
        for folder in self.folders:
            if (tree := folder / f"{library}-{release}").is_dir():
                return tree.absolute()
        return fetch(library, release, self.cache.absolute() / "releases")

    def trees(self, library: str, releases: Iterable[str]) -> list[Path]:
        """The folders of many releases; pip waits for the package index most of the time."""
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            return list(pool.map(lambda release: self.tree(library, release), releases))


def published(library: str) -> list[str]:
    """The final releases of a library on the package index that are read, oldest first."""
    oldest = Version(OLDEST.get(library, "0"))
    return [release for release in available(library) if Version(release) >= oldest]


def newest(libraries: Sequence[str]) -> dict[str, str]:
    """The newest final release of each library on the package index."""
    with ThreadPoolExecutor(_DOWNLOADS) as pool:
        found = pool.map(available, libraries)
        return {library: releases[-1] for library, releases in zip(libraries, found, strict=True)}
