"""Runs the command of a recipe in a folder of its own: by itself, and with ``ds-lint smoke``."""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.own_scripts.materials import MODULES
from tools.own_scripts.sources import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.own_scripts.recipe import Recipe

ROOT = Path(__file__).parent.parent.parent
BARE = Path(__file__).parent / "bare"
PROGRAMS = {
    "accelerate": "accelerate.commands.accelerate_cli:main",
    "deepspeed": "deepspeed.launcher.runner:main",
    "ds-lint": "ds_lint.cli:console",
    "llamafactory-cli": "llamafactory.cli:main",
    "torchrun": "torch.distributed.run:main",
    "trl": "trl.cli:main",
}
STEPS = 5  # that the command takes by itself: those up to the checkpoint, and those after it
SECONDS = 1200  # for one start, on a machine that is busy


class Ended(NamedTuple):
    """How a process ended; ``left`` is what it created in its folder that was not there before."""

    status: int
    seconds: float
    processor_seconds: float  # of all its processes
    log: str
    left: list[str]


class Place:
    """A folder with what a script reads, and the environment that its command is run in."""

    def __init__(self, recipe: Recipe, folder: Path, cache: Path, packages: Path) -> None:
        self.recipe, self.folder = recipe, folder / "work"
        self.folder.mkdir()
        (folder / "home").mkdir()
        if not recipe.source.is_package:
            (self.folder / "source").symlink_to(unpacked(recipe.source, cache))
        for make in recipe.materials:
            make(self.folder)
        programs = folder / "programs"
        _write_programs(programs)
        self._variables = {
            **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
            "HF_HUB_OFFLINE": "1",
            "HOME": str(folder / "home"),
            "OMP_NUM_THREADS": "1",  # as torchrun sets it: the other launchers let two ranks take all cores each
            "PATH": os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"])),
            "TMPDIR": str(folder),
            "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
        }
        self._importable = [
            *(str(self.folder / "source" / name) for name in recipe.importable),
            *([str(packages / recipe.older.replace(" ", "-"))] if recipe.older else []),
            str(self.folder / MODULES),
            str(packages / "current"),
            str(ROOT),
        ]

    def bare(self) -> Ended:
        """Run the command by itself, up to the step at which ds-lint stops it."""
        more = {"OWN_SCRIPTS_STEPS": str(STEPS), "DS_ACCELERATOR": "cpu", "ACCELERATE_TORCH_DEVICE": "cpu"}
        if self.recipe.wrapping:
            more["OWN_SCRIPTS_WRAPPING"] = self.recipe.wrapping
        return self._run(self.command(), [str(BARE)], more)

    def with_ds_lint(self) -> tuple[Ended, dict[str, Any]]:
        """Run ``ds-lint smoke -- COMMAND``; its report beside how it ended, empty without one."""
        report = self.folder.parent / "report.json"
        options = ["--cpu", "--isolated", "--output-format", "json", "--output-file", str(report)]
        ended = self._run(["ds-lint", "smoke", *options, "--", *self.command()], [], {})
        return ended, json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}

    def command(self) -> list[str]:
        """The words of the command."""
        return shlex.split(self.recipe.command.format(port=_free_port()))

    def _run(self, command: list[str], first: list[str], more: dict[str, str]) -> Ended:
        variables = {**self._variables, **more, "PYTHONPATH": os.pathsep.join([*first, *self._importable])}
        before = _files(self.folder)
        start, processor = time.monotonic(), _processor_seconds()
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
            try:
                status = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                status = 124
            finally:
                _end(process)
            seconds = time.monotonic() - start
            log.seek(0)
            left = sorted(_files(self.folder) - before)
            return Ended(status, seconds, _processor_seconds() - processor, log.read(), left)


@contextmanager
def prepared(recipe: Recipe, cache: Path, packages: Path) -> Iterator[Place]:
    """A place for this recipe, which is removed in the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"{recipe.name}-"))
    try:
        yield Place(recipe, folder, cache, packages)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_programs(folder: Path) -> None:
    """The launchers, of the Python that runs this; an environment that borrows its packages has none."""
    folder.mkdir()
    for name, main in PROGRAMS.items():
        module, _, function = main.partition(":")
        path = folder / name
        path.write_text(
            f"#!{sys.executable}\nimport sys\nfrom {module} import {function} as main\nsys.exit(main())\n",
            encoding="utf-8",
        )
        path.chmod(0o755)


def _processor_seconds() -> float:
    """What the processes that have ended took, with those that they had started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _files(folder: Path) -> set[str]:
    """Every file below a folder, but for those behind a link."""
    return {
        os.path.relpath(os.path.join(place, name), folder)
        for place, _, names in os.walk(folder)
        for name in names
        if "__pycache__" not in place
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing of a session outlives it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
