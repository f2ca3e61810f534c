"""The releases of a library on the package index, and the source of one of them.

Everything goes through pip, so whatever index, mirror or proxy pip is configured for is used here too. Nothing of a
release is run: a source distribution is unpacked as it was published (``unbuilt/`` stands in for its build backend).
Of torch, whose wheels for Linux are large, the Python files of the wheel for macOS are read: but for ``version.py`` and
what is made for CUDA alone, they are the same.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

_FINAL = re.compile(r"\d+(\.\d+)*")
_NO_BUILD = Path(__file__).parent / "unbuilt"
_MACOS = "macosx_26_0_arm64"  # and every older one: pip takes a wheel for those too
_PYTHONS = ("311", "310", "312", "313", "314")  # every release of torch since 1.13 has a wheel for one of the first two


class UnavailableError(Exception):
    """The package index has no such library or release, or cannot be reached; the message is one line."""


def available(library: str) -> list[str]:
    """The final releases of a library on the package index, oldest first by version number."""
    answer = _pip("index", "versions", library, "--ignore-requires-python")
    listed = re.search(r"^Available versions: (.*)$", answer, re.MULTILINE)
    if listed is None:
        raise UnavailableError(f"pip lists no releases of {library}")
    return sorted((one for one in listed[1].split(", ") if is_final(one)), key=number)


def fetch(library: str, release: str, into: Path) -> Path:
    """The folder with the unpacked package of one release; what lies in ``into`` already is not downloaded again."""
    tree = into / f"{library}-{release}"
    if not tree.is_dir():
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into) as folder:
            unpacked = _torch(release, Path(folder)) if library == "torch" else _package(library, release, Path(folder))
            unpacked.rename(tree)  # a run that is interrupted leaves no half of a tree behind
    return tree


def fetch_source(library: str, release: str, into: Path) -> Path:
    """The same of the source distribution, which may have files of the repository that a wheel lacks."""
    tree = into / f"{library}-{release}-source"
    if not tree.is_dir():
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into) as folder:
            _package(library, release, Path(folder), "--no-binary", ":all:").rename(tree)
    return tree


def is_final(release: str) -> bool:
    """Whether this is the number of a final release: no alpha, beta, candidate or development release."""
    return _FINAL.fullmatch(release) is not None


def number(release: str) -> tuple[int, ...]:
    """A release as the numbers by which releases are ordered."""
    return tuple(int(part) for part in release.split("."))


def _package(library: str, release: str, folder: Path, *options: str) -> Path:
    """The wheel of a release, unpacked, or its source distribution where it has none."""
    options = ("--ignore-requires-python", "--use-pep517", "--no-build-isolation", *options)
    archive = downloaded(library, release, folder, *options)
    target = folder / "unpacked"
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target)  # noqa: S202 - zipfile keeps every member inside of the target
        return target
    with tarfile.open(archive) as source:
        source.extractall(target, filter="data")
    (top,) = target.iterdir()
    return top


def _torch(release: str, folder: Path) -> Path:
    """The package torch without what is compiled, and the metadata that say which release it is."""
    target = folder / "unpacked"
    with zipfile.ZipFile(_wheel_for_macos("torch", release, folder)) as wheel:
        python = (name for name in wheel.namelist() if name.startswith("torch/") and name.endswith(".py"))
        metadata = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        wheel.extractall(target, [*python, *metadata])  # noqa: S202 - as above
    return target


def _wheel_for_macos(library: str, release: str, folder: Path) -> Path:
    options = ("--only-binary", ":all:", "--platform", _MACOS, "--python-version")
    for python in _PYTHONS[:-1]:
        with suppress(UnavailableError):
            return downloaded(library, release, folder, *options, python)
    return downloaded(library, release, folder, *options, _PYTHONS[-1])


def downloaded(library: str, release: str, folder: Path, *options: str) -> Path:
    """The archive that pip chooses."""
    _pip("download", f"{library}=={release}", "--no-deps", "--dest", str(folder), *options)
    (archive,) = folder.iterdir()
    return archive


def _pip(*arguments: str) -> str:
    """What pip prints; its last word is the error where it fails."""
    path = os.pathsep.join(filter(None, [str(_NO_BUILD), os.environ.get("PYTHONPATH")]))
    # A file of constraints in the user's configuration of pip says what may be installed, and here nothing is.
    environment = {**os.environ, "PYTHONPATH": path, "PIP_CONSTRAINT": os.devnull}
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UnavailableError(reason(done.stderr))
    return done.stdout


def reason(errors: str) -> str:
    """Why pip failed, in one line, by what it printed."""
    if "Retrying (" in errors:  # pip goes on to say that it found no such release
        return "pip cannot reach the package index"
    lines = errors.strip().splitlines() or ["no reason given"]
    named = [line for line in lines if line.startswith(("ERROR: ", "error: "))]  # hints may follow
    return f"pip: {(named or lines)[-1].removeprefix('ERROR: ').removeprefix('error: ')}"
