"""An environment for each release of DeepSpeed, with what the fidelity tests need beside it.

The other libraries are those that ``requirements/fidelity.txt`` pins, for every release. Where this command runs in an
environment that has them, which ``tools/environment`` makes, that of a release finds them there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
import venv
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tools.extract.releases import UnavailableError, reason

PINS = Path(__file__).parent.parent.parent / "requirements" / "fidelity.txt"
# What the setup.py of a release imports; that of an old one imports torch too, so it is not built in isolation.
TO_BUILD = ("setuptools", "wheel", "psutil", "py-cpuinfo")
TO_TEST = ("pytest", "pytest-xdist>=3.7", "jsonschema")  # the other dependencies of ds-lint come with transformers
WITHOUT_OPS = {"DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu"}  # stand-ins take the place of the compiled ops


def make(release: str, folder: Path, *, fresh: bool) -> Path:
    """The interpreter of the environment in a folder, with everything installed that is not there yet."""
    python = folder / "bin" / "python"
    if fresh or not python.exists():
        venv.create(folder, clear=True, with_pip=True)
        if has_pins():
            share(folder)
    others = pins()
    torch = f"torch=={others.pop('torch')}"
    _install(python, torch)  # first and pinned: DeepSpeed's open range would fetch a build for GPUs
    _install(python, *TO_BUILD)
    wanted = {**others, "deepspeed": release}
    exact = [f"{name}=={number}" for name, number in wanted.items()]
    _install(python, "--no-build-isolation", torch, *exact, *TO_TEST)
    return python


def pins() -> dict[str, str]:
    """The releases that the fidelity tests are pinned to, by library."""
    return dict(re.findall(r"^([\w-]+)==(\S+)", PINS.read_text(encoding="utf-8"), re.MULTILINE))


def has_pins() -> bool:
    """Whether what runs this command has the pinned libraries."""
    for library, release in pins().items():
        try:
            found = version(library)
        except PackageNotFoundError:
            return False
        if found.partition("+")[0] != release:
            return False
    return True


def share(folder: Path) -> None:
    """Let an environment find what this one has installed, behind what it installs itself."""
    place = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    Path(place, "shared.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")


def _install(python: Path, *requirements: str) -> None:
    done = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", *requirements],
        env={**os.environ, **WITHOUT_OPS},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UnavailableError(reason(done.stderr))
