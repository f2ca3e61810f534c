"""Install what ``tools/gpu/pack`` has collected, on the machine with the GPU: without a network, into an own folder."""

from __future__ import annotations

import glob
import hashlib
import importlib.machinery
import os
import subprocess
import sys
import tempfile

from ds_lint.settings.reader import strictly

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEEDED = os.path.join(ROOT, "tools", "gpu", "needed.toml")
PACKED = os.path.join(ROOT, ".gpu")
WHEELS = os.path.join(PACKED, "wheels")
LIBAIO = os.path.join(PACKED, "libaio")
_REQUIRED = ("deepspeed", "transformers", "accelerate", "torch", "yaml")
_MARK = "installed"


class NotInstalled(Exception):  # noqa: N818 - that is what it is
    """Something that the parts need is not there; the message says how to get it."""


def install() -> str | None:
    """The folder with the packed wheels, installed now or by an earlier call; None if there are none for this Python.

    Raises ``NotInstalled`` if something is missing.
    """
    wheels = sorted(glob.glob(f"{glob.escape(WHEELS)}/*.whl")) if _is_python_of_wheels() else []
    folder = _installed(wheels) if wheels else None
    search = [*([folder] if folder else []), *sys.path]
    missing = [name for name in _REQUIRED if not _is_found(name, search)]
    if missing:
        how = "install them" if wheels else f"tools/gpu/pack collects what is needed, for Python {python_of_wheels()}"
        raise NotInstalled(f"{', '.join(missing)} cannot be imported by {sys.executable}: {how}")
    return folder


def python_of_wheels() -> str:
    """The Python that the wheels are for."""
    with open(NEEDED, encoding="utf-8") as file:
        return str(strictly(file.read())["python"])


def _is_python_of_wheels() -> bool:
    return ".".join(map(str, sys.version_info[:2])) == python_of_wheels()


def _installed(wheels: list[str]) -> str:
    names = "\n".join([sys.version, *map(os.path.basename, wheels)])
    key = hashlib.sha256(names.encode()).hexdigest()[:12]
    folder = os.path.join(tempfile.gettempdir(), f"ds-lint-gpu-{os.getuid()}", f"packages-{key}")
    if not os.path.exists(os.path.join(folder, _MARK)):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
        done = subprocess.run(
            [*command, "--upgrade", "--target", folder, *wheels], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NotInstalled(f"pip does not install the packed wheels: {done.stderr[-2000:].strip()}")
        with open(os.path.join(folder, _MARK), "wb"):
            pass
    return folder


def _is_found(name: str, search: list[str]) -> bool:
    return importlib.machinery.PathFinder.find_spec(name, search) is not None
