"""The Python files of a release, downloaded with pip and kept; the rest of the archive is thrown away."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.extract.releases import UnavailableError, fetch, reason

_MACOS = tuple(
    part for system in ("11_0", "12_0", "13_0", "14_0", "15_0") for part in ("--platform", f"macosx_{system}_arm64")
)
_PYTHONS = ("311", "310", "39", "38", "312", "313")  # torch has wheels of a release for some of them


def tree(library: str, release: str, cache: Path) -> Path:
    """The folder that holds the package of a release."""
    kept = cache / f"{library}-{release}"
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            found = _torch(release, Path(folder)) if library == "torch" else fetch(library, release, Path(folder))
            _thin(found / library, is_transformers=library == "transformers")
            shutil.move(found, kept)
    return kept


def _torch(release: str, folder: Path) -> Path:
    """The unpacked wheel for macOS, which is a tenth of that for Linux."""
    import zipfile

    error = ""
    for python in _PYTHONS:
        target = folder / python
        asked = [sys.executable, "-m", "pip", "download", f"torch=={release}", "--no-deps",
                 "--only-binary", ":all:", *_MACOS, "--python-version", python, "--dest", str(target)]  # fmt: skip
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            (wheel,) = target.iterdir()
            with zipfile.ZipFile(wheel) as archive:
                names = [name for name in archive.namelist() if name.startswith("torch/") and name.endswith(".py")]
                archive.extractall(folder / "torch", names)
            return folder / "torch"
        error = done.stderr
    raise UnavailableError(reason(error))


def _thin(package: Path, *, is_transformers: bool) -> None:
    """Delete everything but Python, and the models of transformers, which import nothing of the other libraries."""
    if is_transformers and (package / "models").is_dir():
        for model in (package / "models").iterdir():
            if model.is_dir() and model.name != "auto":
                shutil.rmtree(model)
    for path in package.rglob("*"):
        if path.is_file() and path.suffix != ".py":
            path.unlink()
