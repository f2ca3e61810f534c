"""What a real SLURM cluster starts for a job: stand-ins for the launchers write down where they run, and with what."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

CLUSTER = Path(__file__).parents[2] / "tools/slurm"
STAND_IN_OF_JOB = "variables-of-the-job"
STAND_INS = (STAND_IN_OF_JOB, "torchrun", "deepspeed", "accelerate", "python", "python3")
_STAND_IN = """#!/bin/bash
log=$DS_LINT_LOG/$EPOCHREALTIME.$BASHPID
printf '%s\\0' "$(hostname)" "${0##*/}" "$@" > "$log.words"
env -0 > "$log.environment"
"""
# Slurm's own way to wait, `sbatch --wait`, looks once in seconds.
_UNTIL_THE_END = 'while [ -n "$(squeue --noheader)" ]; do sleep 0.05; done'


class Process(NamedTuple):
    """A program that ran: on which host, its words, and the variables that it saw."""

    host: str
    words: list[str]
    environment: dict[str, str]


@contextmanager
def running_cluster() -> Iterator[str | None]:
    """The cluster, which ends afterwards unless it ran before; or why there is none."""
    ran = subprocess.run([CLUSTER / "run", "true"], capture_output=True, check=False).returncode == 0
    started = subprocess.run([CLUSTER / "up"], capture_output=True, text=True, check=False)
    yield started.stderr.strip().replace("\n", "; ") if started.returncode != 0 else None
    if not ran:
        subprocess.run([CLUSTER / "down"], check=True)


def on_login_node(command: str, folder: Path, log: Path) -> subprocess.CompletedProcess[str]:
    """Run a command on the login node, where programs are stand-ins, and wait for the jobs that it submits."""
    stand_ins = log / "bin"
    stand_ins.mkdir(parents=True)
    for name in STAND_INS:
        path = stand_ins / name
        path.write_text(_STAND_IN)
        path.chmod(0o755)
    variables = [f"PATH={stand_ins}:/usr/bin:/bin", f"DS_LINT_LOG={log}"]
    return subprocess.run(
        [CLUSTER / "run", "env", *variables, "bash", "-c", f"{command} && {_UNTIL_THE_END}"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin:/usr/sbin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def processes(log: Path) -> list[Process]:
    """What the stand-ins wrote down, in the order of time."""
    found = []
    for path in sorted(log.glob("*.words")):
        host, *words = path.read_text().split("\0")[:-1]
        entries = path.with_suffix(".environment").read_text().split("\0")[:-1]
        found.append(Process(host, words, dict(entry.split("=", 1) for entry in entries)))
    return found
