"""A second node for tests: a namespace with a name of its own, and with a disk that only it has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

IN_NAMESPACES = ["unshare", "--user", "--map-root-user", "--uts", "--mount"]
# A node has a name, and a disk of its own at a place where the other has one, too.
NODE = 'hostname n2; mount -t tmpfs none "$1"; echo mine >"$1/notes"; echo; exec sleep infinity'
has_namespaces = pytest.mark.skipif(
    subprocess.run(
        [*IN_NAMESPACES, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    ).returncode
    != 0,
    reason="this machine gives no namespaces to users",
)


class SecondNode:
    """A node beside this one, which shares the folder of the test but for one disk."""

    def __init__(self, path):
        self._disk = path / "disk"
        self._disk.mkdir()
        self.process = subprocess.Popen([*IN_NAMESPACES, "sh", "-c", NODE, "sh", self._disk], stdout=subprocess.PIPE)
        self.process.stdout.readline()
        inside = ["nsenter", f"--target={self.process.pid}", "--user", "--preserve-credentials", "--uts", "--mount"]
        self.around = [*inside, "sh", "-c", f'cd {path} && exec "$@"', "sh"]

    @property
    def notes(self):
        """A file on its disk."""
        return Path(f"/proc/{self.process.pid}/root{self._disk}/notes").read_text()

    def end(self):
        self.process.kill()
        self.process.communicate()
