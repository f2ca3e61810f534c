"""Collect what the machine with the GPU lacks: ``tools/gpu/pack``.

Into ``.gpu/``, which git ignores: wheels for its Python, one of deepspeed that is built here, and libaio, unpacked.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from ds_lint.settings.reader import strictly
from tools.fidelity.environments import pins
from tools.gpu.installation import LIBAIO, NEEDED, PACKED, WHEELS

MOST_BYTES = 30 * 2**20  # of what travels there


def main() -> int:
    """Collect everything again, and print how large it is."""
    with open(NEEDED, encoding="utf-8") as file:
        needed: dict[str, Any] = strictly(file.read())
    shutil.rmtree(PACKED, ignore_errors=True)
    os.makedirs(WHEELS)
    for name in needed["wheels"]:
        _download(name, needed)
    for name in needed["built"]:
        _build(f"{name}=={pins()[name]}", DS_BUILD_OPS="0")
    _unpack(list(needed["debian"]))
    found = [path for path in glob.glob(f"{PACKED}/**", recursive=True) if os.path.isfile(path)]
    size = sum(map(os.path.getsize, found))
    for path in sorted(found):
        sys.stdout.write(f"{os.path.getsize(path):>10,}  {os.path.relpath(path, PACKED)}\n")
    sys.stdout.write(f"{size:>10,}  {os.path.relpath(PACKED)}, of at most {MOST_BYTES:,} bytes\n")
    return int(size > MOST_BYTES)


def _download(name: str, needed: dict[str, Any]) -> None:
    """A wheel for the other Python; of what has none there, one that is built here, and runs everywhere."""
    version = _of_pydantic() if name == "pydantic-core" else ""
    platforms = [word for one in needed["platforms"] for word in ("--platform", one)]
    command = ["download", "--no-deps", "--only-binary=:all:", "--implementation", "cp", "--dest", WHEELS]
    of_python = ["--python-version", str(needed["python"]), *platforms]
    if _pip(*command, *of_python, f"{name}{version}").returncode:
        _build(f"{name}{version}")


def _of_pydantic() -> str:
    """The release that the wheel of pydantic demands."""
    import zipfile

    (path,) = glob.glob(f"{WHEELS}/pydantic-2*.whl")
    with zipfile.ZipFile(path) as wheel:
        metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        lines = wheel.read(metadata).decode().splitlines()
    (found,) = (line for line in lines if line.startswith("Requires-Dist: pydantic-core=="))
    return found.removeprefix("Requires-Dist: pydantic-core")


def _build(requirement: str, **variables: str) -> None:
    """A wheel that is built here; it is for any machine, or this is an error."""
    folder = tempfile.mkdtemp()
    try:
        done = _pip("wheel", "--no-deps", "--wheel-dir", folder, requirement, **variables)
        if done.returncode:
            raise SystemExit(f"{requirement} cannot be built: {done.stderr[-2000:]}")
        (path,) = glob.glob(f"{folder}/*.whl")
        if not path.endswith("-none-any.whl"):
            raise SystemExit(f"{os.path.basename(path)} is only for machines like this one")
        shutil.move(path, WHEELS)
    finally:
        shutil.rmtree(folder)


def _unpack(packages: list[str]) -> None:
    """The headers and the library of Debian's packages, whose own links lead to places of that system."""
    folder = tempfile.mkdtemp()
    try:
        command = ["apt-get", "download", *packages]
        if subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode:  # no lists are here yet
            subprocess.run(["apt-get", "update"], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for package in glob.glob(f"{folder}/*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, f"{folder}/unpacked"], check=True)
        for kind in ("include", "lib"):
            os.makedirs(os.path.join(LIBAIO, kind))
        for header in glob.glob(f"{folder}/unpacked/usr/include/*.h"):
            shutil.copy(header, os.path.join(LIBAIO, "include"))
        every = glob.glob(f"{folder}/unpacked/**/libaio.so.1*", recursive=True)
        library = next(path for path in every if os.path.isfile(path) and not os.path.islink(path))
        for name in ("libaio.so", "libaio.so.1"):  # to link with, and to load
            shutil.copy(library, os.path.join(LIBAIO, "lib", name))
    finally:
        shutil.rmtree(folder)


def _pip(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
