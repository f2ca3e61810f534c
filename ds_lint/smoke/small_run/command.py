"""The same run with the user's launcher: its command line, and the verdict that rank 0 writes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from ds_lint.launches.launchers import names_per_gpu
from ds_lint.smoke.processes.client import PREFIX, CouldNotRun
from ds_lint.smoke.records.failure import first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.output.smoke import RunRecord

_WORKER = "ds_lint.smoke.worker"
_AS_MODULE = {name: one.as_module for name, one in names_per_gpu().items()}
_EXCEPTION = r"(?:\[rank\d+\]:\s*)?((?:\w+\.)*\w*(?:Error|Exception): .+)"  # the last line of a traceback
_PATIENCE = 10.0  # seconds for a launcher to end its ranks


def command(launcher: str) -> list[str]:
    """The command line that starts the ranks with a launcher, without their own arguments; raises CouldNotRun."""
    try:
        words = shlex.split(launcher)
    except ValueError as error:
        raise CouldNotRun(f"--smoke-launch {launcher!r} is not a valid command line: {error}") from None
    if not words:
        raise CouldNotRun("--smoke-launch names no launcher")
    if shutil.which(words[0]) is None:
        raise CouldNotRun(f"--smoke-launch: command {words[0]!r} not found")
    return [*words, *(_started_by(words) or [sys.executable, "-m"]), _WORKER]


def _started_by(words: list[str]) -> list[str] | None:
    """The option of the innermost launcher that starts a module; None for srun and others that start any program."""
    names = (os.path.basename(word) for word in reversed(words))
    return next(([_AS_MODULE[name]] for name in names if name in _AS_MODULE), None)


def runs(start: list[str], path: str, options: list[str], shared: str | None) -> list[RunRecord]:
    """The runs in the report that rank 0 writes about a config; raises CouldNotRun if it writes none.

    ``shared`` is a folder that all nodes see. A launcher of remote ranks, such as srun, gets the current folder.
    """
    if shared is None and start[-3:-1] == [sys.executable, "-m"]:
        shared = os.path.abspath(os.curdir)
    folder = os.path.abspath(tempfile.mkdtemp(prefix=PREFIX, dir=shared))
    if shared is not None:
        options = [*options, f"--smoke-folder={folder}"]  # srun gives its tasks no time to remove what they wrote
    report, log = os.path.join(folder, "report.json"), os.path.join(folder, "launcher.log")
    arguments = [*start, path, *options, "--output-format=json", f"--output-file={report}"]
    try:
        with open(log, "wb") as file:
            status = _run(arguments, file)
        found = _read(report)
        if not found:
            raise CouldNotRun(f"{_words(start, status)}, and rank 0 wrote no verdict{_last_words(log)}")
        for run in found:
            if shared is not None and run.get("log"):
                run["log"] = shutil.move(run["log"], shared)
                for node in run.get("nodes", ()):
                    node["log"] = run["log"]
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(arguments: list[str], log: Any) -> int:
    """Run a launcher to its end; if this process ends early, the launcher ends too."""
    with subprocess.Popen(  # noqa: S603 - the user's launcher
        arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    ) as process:
        try:
            return process.wait()
        finally:
            if process.poll() is None:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
            return


def _read(report: str) -> list[RunRecord]:
    """The runs in a report in JSON; none if it was not written completely."""
    try:
        with open(report, encoding="utf-8") as file:
            found: list[RunRecord] = json.load(file).get("smoke", [])
    except (OSError, ValueError):
        return []
    return found


def _words(start: list[str], status: int) -> str:
    name = os.path.basename(start[0])
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return f"{name} {how}"


def _last_words(log: str) -> str:
    """The message of ds-lint on some rank, else the first line of an error; empty if nothing was printed."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    errors = (found for line in lines if (found := re.match(_EXCEPTION, line)) is not None)
    raised = next((found[1] for found in errors), None)
    message = next(_ours(lines), None) or raised or next((line for line in lines if "rror" in line), None)
    message = message or next(iter(lines), None)
    return f": {first_line(message)}" if message else ""


def _ours(lines: list[str]) -> Iterator[str]:
    for line in lines:
        _, found, message = line.partition("ds-lint: ")
        if found:
            yield message
