"""How processes ended, in the words of who started them: deepspeed, torchrun, accelerate, SLURM, MPI, a shell, Ray.

The words are in ``schemas/symptoms.json``. A launcher ends the other ranks with SIGTERM when one has failed, so an exit
by SIGTERM is never the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ds_lint.knowledge.symptoms import Symptom
    from ds_lint.logs.lines import LogLine

SIGNALS = {
    "SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9,
    "SIGSEGV": 11, "SIGPIPE": 13, "SIGTERM": 15, "SIGXCPU": 24,
}  # fmt: skip
NAMES = {number: name for name, number in SIGNALS.items()}
# How shells and schedulers call them (strsignal of Linux).
_WORDS = {
    "Killed": 9, "Segmentation fault": 11, "Bus error": 7, "Aborted": 6, "Terminated": 15, "Hangup": 1,
    "Illegal instruction": 4, "Floating point exception": 8, "Interrupt": 2, "Broken pipe": 13, "Out Of Memory": 9,
}  # fmt: skip
MOST = 2000


class Exit(NamedTuple):
    """The end of a process."""

    at: int  # the line of the log
    status: int | None  # negative for a signal; None if only that it failed is known
    by: str  # deepspeed, torchrun, accelerate, slurm, mpi, shell, ray, kubernetes
    rank: int | None = None
    host: str | None = None
    is_root: bool = False  # torchrun's "Root Cause (first observed failure)"
    reason: str | None = None  # cancelled, time limit, preempted, memory, node failure
    is_local: bool = False  # the rank is the one on its host

    @property
    def signal(self) -> int | None:
        """The signal that ended it: a negative status, 128 more in a shell, or 256 less as a byte (247 of -9)."""
        status = self.status
        if status is None:
            return None
        if status < 0:
            return -status
        if 128 < status < 128 + 32:
            return status - 128
        return 256 - status if 256 - 32 < status < 256 - 1 else None


class Exits:
    """Collects the ends of processes from the lines of a log."""

    def __init__(self) -> None:
        """Begin with none."""
        self.found: list[Exit] = []
        self.ended_well = 0  # processes that ended without an error
        # Of a table, as torchrun's, in which a process has several lines.
        self._rank: int | None = None
        self._host: str | None = None
        self._is_root = False

    def read(self, line: LogLine, form: Symptom) -> bool:
        """Read a line that has the anchor of a form; whether it has the form."""
        found = form.pattern.search(line.text) if form.pattern is not None else None
        if found is None:
            return False
        if form.role == "well":
            self.ended_well += 1
        else:
            self._add(form, {name: text for name, text in found.groupdict().items() if text}, line)
        return True

    def _add(self, form: Symptom, groups: dict[str, str], line: LogLine) -> None:
        if "root" in groups or "others" in groups:
            self._is_root = "root" in groups
        status = _status(groups, form)
        if status is None and form.reason is None:
            self._rank = int(groups["rank"]) if "rank" in groups else self._rank
            self._host = groups.get("host", self._host)
            return
        is_root = "root_rank" in groups or (self._is_root and self._rank is not None)
        named = groups.get("root_rank") or groups.get("rank")
        rank = int(named) if named is not None else self._rank
        reason = "memory" if groups.get("word") == "Out Of Memory" else form.reason
        host = groups.get("host") or (self._host if self._rank is not None else line.origin.host)
        if len(self.found) < MOST:
            self.found.append(Exit(line.number, status, form.by, rank, host, is_root, reason, "root_rank" in groups))
        self._rank = None


def _status(groups: dict[str, str], form: Symptom) -> int | None:
    if "status" in groups:
        return int(groups["status"])
    if "signal" in groups:
        return -int(groups["signal"])
    if "word" in groups:
        return -_WORDS[groups["word"]]
    return -form.signal if form.signal is not None else None
