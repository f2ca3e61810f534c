"""Asking a claim: a script that prints one line or raises is run with a release, on one rank or several.

The outcome is one line of text: what rank 0 printed last, the exception that was raised first, ``hangs``, or how a
process ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tools.extract.releases import UnavailableError
from tools.releases_of.environments import Environment, fit, installed_release
from tools.releases_of.rank import LONGEST, Answer, Task
from tools.releases_of.trees import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tools.releases_of.trees import Trees

INSTALLED = "installed"  # in place of a release: the one of this environment
HANGS = "hangs"
TIMEOUT = 180  # seconds; operations are compiled in the first run with a release
_STATUS = re.compile(r"SystemExit: \d+")
_ERROR = re.compile(r"^(?:\[rank\d+\]: ?)?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b(?:: )?)(.*)$", re.MULTILINE)
_PAUSE = 0.05
_GRACE = 5  # seconds in which other ranks may still raise first, by their clock
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where DeepSpeed leaves its buffers


class Question(NamedTuple):
    """A claim, with what it is asked with."""

    claim: Path
    arguments: tuple[str, ...] = ()
    library: str = "deepspeed"
    ranks: int = 1
    beside: Mapping[str, str] = {}  # releases of other libraries
    timeout: float = TIMEOUT


class Outcome(NamedTuple):
    """What a claim says of a release; without an answer, why there is none."""

    text: str
    is_answer: bool = True


def ask(question: Question, release: str, trees: Trees) -> Outcome:
    """The outcome of a claim with a release of its library."""
    releases = {} if release == INSTALLED else {question.library: release}
    releases |= {library: one for library, one in question.beside.items() if one != installed_release(library)}
    if "torch" in releases:
        return Outcome(f"needs torch {releases['torch']}, and {installed_release('torch')} is installed", False)
    try:
        environment = fit(releases, trees)
    except UnavailableError as error:
        return Outcome(str(error), is_answer=False)
    name = releases.get("deepspeed") or installed_release("deepspeed") or INSTALLED
    extensions = trees.cache.absolute() / "extensions" / f"deepspeed-{name}"
    with tempfile.TemporaryDirectory(prefix="claim-") as folder, _port(extensions) as port:
        return _Ranks(question, release, environment, Path(folder), port, extensions).outcome()


class _Ranks:
    """The processes of one run, and the files in which they leave what they have to say."""

    def __init__(
        self, question: Question, release: str, environment: Environment, folder: Path, port: int, extensions: Path
    ) -> None:
        self._question = question
        self._answers = [folder / f"{rank}.json" for rank in range(question.ranks)]
        task = Task(
            library=question.library,
            release=release,
            paths=[str(path) for path in environment.paths],
            stand_ins=environment.stand_ins,
            claim=str(question.claim.absolute()),
            arguments=list(question.arguments),
            answers=[str(path) for path in self._answers],
        )
        self._command = [sys.executable, "-m", "tools.releases_of.rank", json.dumps(task._asdict())]
        self._variables = _variables(folder, port, question.ranks, extensions)

    def outcome(self) -> Outcome:
        """Start the ranks, wait for what they have to say, and end them."""
        processes: list[subprocess.Popen[bytes]] = []
        try:
            processes += [self._start(rank) for rank in range(self._question.ranks)]
            return self._awaited(processes)
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):  # with all that a claim has started
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _start(self, rank: int) -> subprocess.Popen[bytes]:
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        printed = self._answers[rank].with_suffix(".out")
        with printed.open("wb") as out, printed.with_suffix(".err").open("wb") as err:
            return subprocess.Popen(
                self._command, cwd=ROOT, env={**self._variables, **own}, stdout=out, stderr=err, start_new_session=True
            )

    def _awaited(self, processes: Sequence[subprocess.Popen[bytes]]) -> Outcome:
        end = time.monotonic() + self._question.timeout
        while time.monotonic() < end:
            answers = self._given()
            ended = [process.poll() is not None for process in processes]
            if any(answer is not None and answer.raised for answer in answers):
                end = min(end, time.monotonic() + _GRACE)
            if all(answer is not None or is_over for answer, is_over in zip(self._given(), ended, strict=True)):
                break
            if any(is_over and answer is None for answer, is_over in zip(self._given(), ended, strict=True)):
                end = min(end, time.monotonic() + _GRACE)
            time.sleep(_PAUSE)
        return self._read(processes)

    def _given(self) -> list[Answer | None]:
        return [
            Answer(*json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None for path in self._answers
        ]

    def _read(self, processes: Sequence[subprocess.Popen[bytes]]) -> Outcome:
        answers = self._given()
        raising = [answer for answer in answers if answer is not None and answer.raised]
        if raising:
            first = min(raising, key=lambda answer: answer.at)
            text = first.raised or ""
            if _STATUS.fullmatch(text):
                text = self._printed_error(answers.index(first)) or text
            return Outcome(text) if first.was_imported else Outcome(f"cannot be imported: {text}", is_answer=False)
        for rank, process in enumerate(processes):
            if answers[rank] is None and process.poll() is not None:
                return Outcome(self._printed_error(rank) or _end_of(process.returncode))
        if None in answers:
            return Outcome(HANGS)
        printed = self._answers[0].with_suffix(".out").read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        return Outcome(lines[-1] if lines else "prints nothing")

    def _printed_error(self, rank: int) -> str | None:
        """The last exception that a rank has printed: a claim that starts processes itself ends with their status."""
        printed = self._answers[rank].with_suffix(".err").read_text(encoding="utf-8", errors="replace")
        errors = _ERROR.findall(printed)
        return f"{errors[-1][0]}{errors[-1][1][:LONGEST]}".rstrip() if errors else None


def _end_of(status: int) -> str:
    return f"ends with {signal.Signals(-status).name}" if status < 0 else f"ends with status {status}"


def _variables(folder: Path, port: int, ranks: int, extensions: Path) -> dict[str, str]:
    """What a launcher would set, and what leaves GPUs, networks and other runs alone."""
    return {
        **os.environ,
        "WORLD_SIZE": str(ranks),
        "LOCAL_SIZE": str(ranks),
        "CROSS_RANK": "0",
        "CROSS_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "DS_ACCELERATOR": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
        "TMPDIR": str(folder),
        "TORCH_EXTENSIONS_DIR": str(extensions),
    }


@contextlib.contextmanager
def _port(extensions: Path) -> Iterator[int]:
    """A free port; afterwards, what ranks that were killed have left under its number, and the locks of a build."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    try:
        yield port
    finally:
        for buffer in _SHARED_MEMORY.glob(f"*_{port}_*"):
            buffer.unlink(missing_ok=True)
        for lock in extensions.glob("**/lock"):
            lock.unlink(missing_ok=True)
