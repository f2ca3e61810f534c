"""A run on ranks that a launcher started, on any nodes: rank 0 sends the jobs, and every rank has its own pool.

A new process on every rank makes each part of a run. If it dies or hangs, the process that started it reports it, so
rank 0 has the evidence of all ranks. For ``ds_lint.smoke.small_run.proof`` they are like ranks that were forked here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from ds_lint import __version__
from ds_lint.diagnostics.verdict import RankEnd, RunNode
from ds_lint.smoke.processes.client import CouldNotRun, Pool, ended_by_signal, own_folder
from ds_lint.smoke.processes.meeting_store import Absences, Meeting, patience_of
from ds_lint.smoke.records.job import SHARED, Job
from ds_lint.smoke.records.messages import Ended
from ds_lint.smoke.records.rendezvous import NoRendezvous, host_of
from ds_lint.smoke.small_run import devices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.smoke.records.rendezvous import Rendezvous

GRACE = 5.0  # seconds that a rank gets once another has failed
_LATE = 30.0  # seconds that a rank may take to tell how its part ended
_TICK = 0.1  # seconds between looks at who has come
_FAREWELL = 5.0  # seconds in which the ranks hear that all is over
_SHARED_FILES = 15.0  # seconds after which a file must be seen on all nodes
_SIGN = "rank-0-was-here"  # a file
_UNKNOWN = "an unknown phase"


class Arrival(NamedTuple):
    """The first message of a rank."""

    rank: int
    host: str
    sees_folder: bool
    gpus: int
    error: str | None  # why it cannot take part
    versions: dict[str, str] = {}  # noqa: RUF012 - a NamedTuple's default; of the libraries on its node


def obstacle(one: Arrival, first: Arrival, folder: str) -> str | None:
    """Why a rank cannot take part in a run in a folder that the first rank created; None if it can."""
    if one.error is not None:
        return f"rank {one.rank} on {one.host}: {one.error}"
    if not one.sees_folder:
        return (
            f"rank {one.rank} on {one.host} does not see {folder}, which rank 0 made on {first.host}: "
            "give --smoke-folder DIR, a folder on a file system that all nodes share"
        )
    for library, version in one.versions.items():
        if first.versions.get(library, version) != version:
            return (
                f"rank {one.rank} on {one.host} has {library} {version}, and rank 0 on {first.host} has "
                f"{first.versions[library]}: install the same release on all nodes"
            )
    return None


class LaunchedRanks:
    """The ranks of a launcher, as rank 0 sees them. Close it, or use it as a context manager."""

    def __init__(self, place: Rendezvous, folder: str | None, timeout: float | None = None) -> None:
        self.place = place
        self.folder = own_folder(folder)
        with open(os.path.join(self.folder, _SIGN), "wb"):
            pass  # the other ranks look whether they see it
        self._parts = 0
        self._arrived: list[Arrival] = []
        self._pool = Pool(folder)
        self._absences = Absences(folder)
        try:
            self._meeting = Meeting(place, patience_of(timeout))
        except BaseException as error:
            self._absences.note(0, f"rank 0 on {socket.gethostname()}: {error or type(error).__name__}")
            self._pool.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._meeting.announce("folder", self.folder)

    def __enter__(self) -> LaunchedRanks:  # noqa: PYI034 - typing.Self is Python 3.11's
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(is_over=kind is None or issubclass(kind, Exception))

    def of(self, _mode: str) -> LaunchedRanks:
        """These ranks, which are of every mode."""
        return self

    @property
    def world_size(self) -> int:
        """All ranks of the launcher."""
        return self.place.world_size

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the libraries on rank 0; raises CouldNotRun if not all ranks can take part."""
        found = self._pool.versions
        if not self._arrived:
            self._arrived = [self._own_arrival(), *self._others()]
        for one in self._arrived:
            if (why := obstacle(one, self._arrived[0], self.folder)) is not None:
                raise CouldNotRun(why)
        return found

    @property
    def known_versions(self) -> dict[str, str]:
        """The same, as far as they are known."""
        return self._pool.known_versions

    def nodes(self, log: str | None) -> list[RunNode]:
        """The nodes of the ranks; empty if there is only one."""
        ranks: dict[str, list[int]] = {}
        for one in self._arrived:
            ranks.setdefault(one.host, []).append(one.rank)
        return [RunNode(host, found, log) for host, found in ranks.items()] if len(ranks) > 1 else []

    @property
    def abandoned_locks(self) -> dict[str, str]:
        """The locks that killed builds of ops have left on the machine of rank 0, by the op."""
        return self._pool.abandoned_locks

    @property
    def has_cuda(self) -> bool:
        """Whether torch computes on GPUs, on rank 0."""
        return self._pool.has_cuda

    @property
    def have_gpus(self) -> bool:
        """Whether every rank has a GPU; raises CouldNotRun if each sees only its own."""
        _ = self.versions
        seen, ranks = self._arrived[0].gpus, self.place.local_world_size
        if 0 < seen < ranks:
            raise CouldNotRun(
                f"there are {ranks} ranks on {self._arrived[0].host}, and each sees {seen} of its GPUs: start one rank "
                "per GPU, and let each see all of them (with srun no --gpus-per-task), or give --smoke-device cpu"
            )
        return all(one.gpus > 0 for one in self._arrived)

    def run(self, jobs: list[Job], on_phase: Callable[[str, str], None] | None = None) -> list[Ended]:
        """Run jobs in parallel: on all ranks, or only here if they do not depend on ranks."""
        _ = self.versions
        self._parts += 1
        shared = [job for job in jobs if job.part in SHARED]
        self._meeting.announce(_jobs(self._parts), shared)
        own = _run_here(self._pool, self._meeting, self._parts, jobs, on_phase)
        others = [self._ended(rank, shared) for rank in range(1, self.world_size)]
        joined = iter(zip(*others, strict=True)) if others else iter([()] * len(shared))
        return [
            _merged([mine, *next(joined)]) if job.part in SHARED else mine for job, mine in zip(jobs, own, strict=True)
        ]

    def keep_log(self, folder: str | None = None) -> str | None:
        """A file that stays, with the output of the ranks in the folder of a run; None if it is empty."""
        return self._pool.keep_log(folder)

    def close(self, *, is_over: bool = True) -> None:
        """End all ranks."""
        self._pool.close(is_over=is_over)
        with contextlib.suppress(CouldNotRun, TimeoutError):
            self._meeting.announce(_jobs(self._parts + 1), None)
            deadline = time.monotonic() + _FAREWELL
            for rank in range(1, self.world_size):
                self._meeting.wait_for(f"left/{rank}", max(0.0, deadline - time.monotonic()))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _own_arrival(self) -> Arrival:
        return Arrival(
            0,
            socket.gethostname(),
            sees_folder=True,
            gpus=devices.visible(),
            error=None,
            versions=_versions(self._pool),
        )

    def _others(self) -> list[Arrival]:
        """The other ranks that connected; raises CouldNotRun if one is missing."""
        deadline = time.monotonic() + self._meeting.patience
        came: list[Arrival] = []
        missing: list[int] = []
        for rank in range(1, self.world_size):
            while not self._meeting.is_announced(f"arrived/{rank}") and time.monotonic() < deadline:
                self._absences.demand_none()
                time.sleep(_TICK)
            try:
                came.append(self._meeting.wait_for(f"arrived/{rank}", 0.0))
            except TimeoutError:
                missing.append(rank)
        if missing:
            raise CouldNotRun(
                f"{len(missing)} of {self.world_size} ranks did not connect within {self._meeting.patience:g} s; the "
                f"first of them is rank {missing[0]}{_on_node(missing[0])}"
            )
        return came

    def _ended(self, rank: int, shared: list[Job]) -> list[Ended]:
        """The report of a rank about its part of each job."""
        seconds = max((job.seconds for job in shared), default=0.0) + GRACE + _LATE
        try:
            found: list[Ended] = self._meeting.wait_for(_ended(self._parts, rank), seconds)
        except TimeoutError:
            return [Ended([RankEnd(rank, "timeout", _UNKNOWN)], [None]) for _ in shared]
        return found


def _on_node(rank: int) -> str:
    """Where a rank is, if Slurm has named the nodes."""
    try:
        return f" on {host}" if (host := host_of(rank, os.environ)) is not None else ""
    except NoRendezvous:
        return ""


def serve(place: Rendezvous, timeout: float | None = None, folder: str | None = None) -> int:
    """Run as one of the other ranks until rank 0 ends the run; ``folder`` is the --smoke-folder; the exit status."""
    absences = Absences(folder)
    try:
        with ended_by_signal(), Pool() as pool:
            _serve(place, pool, patience_of(timeout), absences)
    except CouldNotRun as error:
        absences.note(place.rank, f"rank {place.rank}: {error}")
        sys.stderr.write(f"ds-lint: rank {place.rank}: {error}\n")
        return 2
    return 0


def _serve(place: Rendezvous, pool: Pool, patience: float, absences: Absences) -> None:
    meeting = Meeting(place, patience, absences)
    folder = meeting.wait_for("folder", None)
    error = None
    try:
        _ = pool.versions
    except CouldNotRun as found:
        error = str(found)
    seen = _is_seen(os.path.join(folder, _SIGN))
    arrival = Arrival(place.rank, socket.gethostname(), seen, devices.visible(), error, _versions(pool))
    meeting.announce(f"arrived/{place.rank}", arrival)
    part = 1
    while (jobs := meeting.wait_for(_jobs(part), None)) is not None:
        meeting.announce(_ended(part, place.rank), _run_here(pool, meeting, part, jobs))
        part += 1
    meeting.announce(f"left/{place.rank}", True)


def _versions(pool: Pool) -> dict[str, str]:
    """The releases that must be the same on all nodes, and that of ds-lint, whose messages the ranks exchange."""
    known = {name: version for name, version in pool.known_versions.items() if name != "python"}
    return {**known, "ds-lint": __version__}


def _is_seen(path: str) -> bool:
    """Whether a file exists; a network file system may show it with some delay."""
    deadline = time.monotonic() + _SHARED_FILES
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def _run_here(
    pool: Pool,
    meeting: Meeting,
    part: int,
    jobs: list[Job],
    on_phase: Callable[[str, str], None] | None = None,
) -> list[Ended]:
    """Run as this rank in jobs, and tell the others if it failed."""
    seated = [job.but(seat=meeting.place) if job.part in SHARED else job for job in jobs]
    try:
        with _ended_with_the_others(pool, meeting, part) as was_ended:
            ended = pool.run(seated, on_phase)
    except CouldNotRun as error:
        meeting.announce(_failed(part), meeting.place.rank)
        if meeting.place.rank == 0:
            raise
        return [Ended([RankEnd(meeting.place.rank, "exception", "start", str(error))], [None]) for _ in jobs]
    if was_ended():
        return [one.but(ends=[end if end.exit == "ok" else _by_us(end) for end in one.ends]) for one in ended]
    if any(end.exit != "ok" for one in ended for end in one.ends):
        meeting.announce(_failed(part), meeting.place.rank)
    return ended


def _by_us(end: RankEnd) -> RankEnd:
    return end._replace(exit="ended", error=None) if end.exit == "signal" else end


@contextlib.contextmanager
def _ended_with_the_others(pool: Pool, meeting: Meeting, part: int) -> Iterator[Callable[[], bool]]:
    """End the ranks of this process when a rank elsewhere has failed: over NCCL they would wait for it without end."""
    is_over, was_ended = threading.Event(), threading.Event()

    def watch() -> None:
        with contextlib.suppress(CouldNotRun):
            while not is_over.wait(1.0):
                if meeting.is_announced(_failed(part)):
                    break
        if not is_over.wait(GRACE):  # they fail of themselves where they can
            was_ended.set()
            pool.end_ranks()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield was_ended.is_set
    finally:
        is_over.set()
        watcher.join()


def _merged(ended: list[Ended]) -> Ended:
    return Ended(
        ends=[end for one in ended for end in one.ends],
        evidence=[seen for one in ended for seen in one.evidence],
        waiting=[rank for one in ended for rank in one.waiting],
    )


def _jobs(part: int) -> str:
    return f"jobs/{part}"


def _ended(part: int, rank: int) -> str:
    return f"ended/{part}/{rank}"


def _failed(part: int) -> str:
    return f"failed/{part}"
