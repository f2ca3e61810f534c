"""The releases of a library on the package index, and the source of one of them.

Everything goes through pip, so whatever index, mirror or proxy pip is configured for is asked here too. Nothing of a
release is run: a source distribution is unpacked as it was published (``unbuilt/`` stands in for its build backend).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

_FINAL = re.compile(r"\d+(\.\d+)*")
_NO_BUILD = Path(__file__).parent / "unbuilt"


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
            unpacked = _unpacked(_downloaded(library, release, Path(folder)))
            unpacked.rename(tree)  # a run that is interrupted leaves no half of a tree behind
    return tree


def is_final(release: str) -> bool:
    """Whether this is the number of a final release: no alpha, beta, candidate or development release."""
    return _FINAL.fullmatch(release) is not None


def number(release: str) -> tuple[int, ...]:
    """A release as the numbers by which releases are ordered."""
    return tuple(int(part) for part in release.split("."))


def _downloaded(library: str, release: str, folder: Path) -> Path:
    """The wheel of a release, or its source distribution where it has none."""
    download = ("download", f"{library}=={release}", "--no-deps", "--ignore-requires-python", "--dest", str(folder))
    _pip(*download, "--use-pep517", "--no-build-isolation")
    (archive,) = folder.iterdir()
    return archive


def _unpacked(archive: Path) -> Path:
    """The folder, beside the archive, that holds the package directory."""
    target = archive.parent / "unpacked"
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target)  # noqa: S202 - zipfile keeps every member inside of the target
        return target
    with tarfile.open(archive) as source:
        source.extractall(target, filter="data")
    (top,) = target.iterdir()
    return top


def _pip(*arguments: str) -> str:
    """What pip prints; its last word is the error where it fails."""
    path = os.pathsep.join(filter(None, [str(_NO_BUILD), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments],
        env={**os.environ, "PYTHONPATH": path},
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
