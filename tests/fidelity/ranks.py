"""Programs on several ranks of this machine (Gloo), for what one rank does not show.

A program lies in ``programs/`` and prints a JSON object as its last line. Ranks that wait for each other for ever are
ended after a time.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]  # where ds_lint lies
GRACE = 5.0  # seconds that the others get once one rank has failed


@dataclass(slots=True)
class Run:
    """What every rank printed, and what it said where it failed; ``hung`` is whether time ran out."""

    answers: list[dict[str, Any] | None]
    errors: list[str]
    hung: bool

    @property
    def is_complete(self) -> bool:
        """Whether every rank came to its end."""
        return None not in self.answers


def run(program: str, *arguments: str, ranks: int = 2, timeout: float = 120.0) -> Run:
    """Run a program on so many ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        outputs = [(Path(folder) / f"{rank}.out", Path(folder) / f"{rank}.err") for rank in range(ranks)]
        processes = [
            _start(program, arguments, _environment(rank, ranks, port), *paths) for rank, paths in enumerate(outputs)
        ]
        hung = _wait(processes, timeout)
        return Run(
            [
                _answer(out.read_text(encoding="utf-8")) if process.returncode == 0 else None
                for process, (out, _) in zip(processes, outputs, strict=True)
            ],
            [err.read_text(encoding="utf-8", errors="replace")[-3000:] for _, err in outputs],
            hung,
        )


def _environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
    }


def _start(
    program: str, arguments: tuple[str, ...], environment: dict[str, str], out: Path, err: Path
) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(PROGRAMS / f"{program}.py"), *arguments]
    with out.open("wb") as stdout, err.open("wb") as stderr:
        return subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr, start_new_session=True)


def _wait(processes: list[subprocess.Popen[bytes]], timeout: float) -> bool:
    """Wait until all have ended, or one has failed, or time is up; end what is left, and say whether time was up."""
    deadline = time.monotonic() + timeout
    while any(process.poll() is None for process in processes):
        if any(process.returncode for process in processes):
            deadline = min(deadline, time.monotonic() + GRACE)
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    hung = all(process.poll() is None for process in processes)
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return hung


def _answer(text: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return answer
