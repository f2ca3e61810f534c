"""The Python files of a release, downloaded with pip and kept; the rest of the archive is thrown away."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tools.extract.releases import fetch


def tree(library: str, release: str, cache: Path) -> Path:
    """The folder that holds the package of a release."""
    kept = cache / f"{library}-{release}"
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            found = fetch(library, release, Path(folder))
            _thin(found / library, is_transformers=library == "transformers")
            shutil.move(found, kept)
    return kept


def _thin(package: Path, *, is_transformers: bool) -> None:
    """Delete everything but Python, and the models of transformers, which import nothing of the other libraries."""
    if is_transformers and (package / "models").is_dir():
        for model in (package / "models").iterdir():
            if model.is_dir() and model.name != "auto":
                shutil.rmtree(model)
    for path in package.rglob("*"):
        if path.is_file() and path.suffix != ".py":
            path.unlink()
