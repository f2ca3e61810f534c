"""Run the parts without a GPU: with the packages of the machine that has one, and without a network."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import socket
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

from tools.gpu.installation import ROOT, python_of_wheels

if TYPE_CHECKING:
    from collections.abc import Sequence

THERE = os.path.join(ROOT, "tools", "gpu", "there.txt")
_ENVIRONMENT = os.path.join(ROOT, ".gpu-rehearsal")
_UP, _GET_FLAGS, _SET_FLAGS = 1, 0x8913, 0x8914  # IFF_UP, SIOCGIFFLAGS, SIOCSIFFLAGS of linux/sockios.h


def again(arguments: Sequence[str]) -> int:
    """Run this command in such an environment; its exit status."""
    wanted = python_of_wheels()
    base = os.environ.get("PYTHON") or shutil.which(f"python{wanted}") or sys.executable
    if _version(base) != wanted:
        sys.stderr.write(f"tools/gpu/run: {base} is not Python {wanted}: set PYTHON to one, or rehearse with --here\n")
        return 2
    try:
        python = _environment(base)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"tools/gpu/run: no environment to rehearse in: {shlex.join(error.cmd)} failed, as above\n")
        return 2
    alone = ["unshare", "--net"] if _can_be_alone() else []
    if not alone:
        sys.stderr.write("tools/gpu/run: the network stays reachable, because unshare --net is not allowed here\n")
    command = [*alone, python, "-m", "tools.gpu.rehearsal", *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": ROOT}, check=False).returncode


def _version(python: str) -> str | None:
    """``3.12``; None if it does not start."""
    program = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _environment(base: str) -> str:
    """The Python of the environment, which is made if it is not there or its list has changed."""
    python, mark = os.path.join(_ENVIRONMENT, "bin", "python"), os.path.join(_ENVIRONMENT, "there.txt")
    with open(THERE, encoding="utf-8") as file:
        wanted = f"# {base}\n{file.read()}"
    if os.path.exists(mark):
        with open(mark, encoding="utf-8") as file:
            if file.read() == wanted:
                return python
    sys.stderr.write(f"tools/gpu/run: making {os.path.relpath(_ENVIRONMENT)} with the packages of there.txt\n")
    subprocess.run([base, "-m", "venv", "--clear", _ENVIRONMENT], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", THERE], check=True)
    with open(mark, "w", encoding="utf-8") as file:
        file.write(wanted)
    return python


def _can_be_alone() -> bool:
    return (
        shutil.which("unshare") is not None and not subprocess.run(["unshare", "--net", "true"], check=False).returncode
    )


def _begin(arguments: Sequence[str]) -> int:
    """In the environment: the ranks meet over the loopback device, which a new network has switched off."""
    from tools.gpu import run

    name = b"lo".ljust(16, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        (flags,) = struct.unpack("16xh", fcntl.ioctl(asking, _GET_FLAGS, name + bytes(2))[:18])
        if not flags & _UP:
            fcntl.ioctl(asking, _SET_FLAGS, struct.pack("16sh", name, flags | _UP))
    return run.main([*arguments, "--here"])


if __name__ == "__main__":
    sys.exit(_begin(sys.argv[1:]))
