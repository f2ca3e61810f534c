"""A launch of a project run by ``ds-lint smoke``: its command on this machine, and what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.output.smoke import verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.launches.launch import Launch

MOST_CPU_RANKS = 16  # each of which imports the libraries and holds its part of the model in the memory of the host
_COMPLAINT = "ds-lint: "
_OF_JOBS = "SLURM_"  # variables of a job, which a run on this machine is not


class RunnableLaunch(NamedTuple):
    """The command of a launch as this machine can run it."""

    words: list[str]
    folder: str
    environment: dict[str, str]  # that the script exports
    options: tuple[str, ...] = ()  # of ``ds-lint smoke``
    note: str = ""  # what the run does otherwise than the launch, in one sentence

    @property
    def arguments(self) -> list[str]:
        """The arguments of ds-lint."""
        return ["smoke", *self.options, "--", *self.words]


class LaunchOutcome(NamedTuple):
    """What ``ds-lint smoke`` reports: a verdict for each engine, and findings; or why it could not run."""

    verdicts: list[Verdict]
    findings: list[dict[str, Any]]  # as in the JSON of a report
    error: str | None = None


def runnable(launch: Launch, project: str, gpus: int) -> RunnableLaunch | str:
    """The command of a launch in a project, on a machine with so many GPUs; or why it cannot be run."""
    is_within = launch.around and launch.record is not None and launch.record.is_around
    command = launch.around if is_within else launch.command  # of `srun bash -c "..."` what is within is one rank
    words = [word for word in command if word is not None]
    if len(words) < len(command):
        names = ", ".join(launch.unknown) or "what only the shell knows"
        return f"its words depend on {names}"
    if launch.nodes is not None and launch.nodes > 1:
        return f"it runs on {launch.nodes} nodes, and ds-lint smoke runs on this machine only"
    options: tuple[str, ...] = ()
    note = ""
    ranks = launch.processes_per_node
    if ranks is not None and ranks > gpus:
        if ranks > MOST_CPU_RANKS:
            has = f"{gpus} GPUs" if gpus else "no GPU"
            return f"it starts {ranks} ranks, and this machine has {has}; a run on CPUs has at most {MOST_CPU_RANKS}"
        options = ("--cpu",)
        if gpus:
            note = f"it starts {ranks} ranks, and this machine has {gpus} GPUs, so the run uses CPU ranks"
    environment = {
        name: value for name, value in launch.environment.items() if value is not None and not name.startswith(_OF_JOBS)
    }
    return RunnableLaunch(words, _folder(launch, project), environment, options, note)


def _folder(launch: Launch, project: str) -> str:
    """The working directory: the one in which the script that is started lies."""
    usual = os.path.normpath(os.path.join(project, launch.cwd or os.curdir))
    beside = os.path.normpath(os.path.join(project, os.path.dirname(launch.path)))
    folders = list(dict.fromkeys([usual, os.path.normpath(project), beside]))
    if launch.script is None:
        return usual
    return next((one for one in folders if os.path.exists(os.path.join(one, launch.script))), usual)


class LaunchProcess:
    """``ds-lint smoke`` with a launch, in a process that ends with this one."""

    def __init__(self, wanted: RunnableLaunch, *, first_on_path: str | None = None) -> None:
        self._folder = wanted.folder
        path = os.pathsep.join(filter(None, (first_on_path, os.environ.get("PATH"))))
        self._answer = tempfile.TemporaryFile()  # noqa: SIM115 - read once the process has ended
        arguments = ["smoke", "--output-format", "json", "--color=never", *wanted.arguments[1:]]
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "ds_lint.session.tether", os.path.abspath(wanted.folder), *arguments],
            stdin=subprocess.PIPE,
            stdout=self._answer,
            stderr=subprocess.PIPE,
            cwd=os.path.dirname(sys.executable),  # nothing that lies there stands in for a module
            env={**os.environ, **wanted.environment, "PATH": path},
        )

    def outcome(self, on_line: Callable[[str], None]) -> LaunchOutcome:
        """Wait for its end; ``on_line`` gets each line that the script prints."""
        complaint = ""
        assert self._process.stderr is not None  # noqa: S101 - a pipe, see above
        with self._answer, self._process.stderr as printed:
            for data in printed:
                line = data.decode(errors="replace").strip()
                if line.startswith(_COMPLAINT):
                    complaint = line.removeprefix(_COMPLAINT)
                elif line:
                    on_line(line)
            status = self._process.wait()
            self.end()
            self._answer.seek(0)
            text = self._answer.read()
        if not text:
            return LaunchOutcome([], [], complaint or f"ds-lint smoke ended with status {status}")
        report = json.loads(text)
        for one in (*report.get("smoke", ()), *report["findings"]):
            one["path"] = _whole(one["path"], self._folder)
        verdicts = [verdict_of(run) for run in report.get("smoke", ())]
        return LaunchOutcome(verdicts, report["findings"], None if verdicts else complaint or "it makes no engine")

    def end(self) -> None:
        """End it like on Ctrl-C, unless it has ended; any thread may call it."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe, see above
        self._process.stdin.close()


def _whole(path: str, folder: str) -> str:
    """The path of a config from here; one that lies in no file has a name in angle brackets."""
    return path if path.startswith("<") else os.path.normpath(os.path.join(folder, path))
