"""Why a run failed: the rank that failed first, and whether the config or the machine is the cause."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.source.tree import dotted, walk

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Stage
    from ds_lint.diagnostics.verdict import RankEnd
    from ds_lint.smoke.records.job import Job, Raised
    from ds_lint.smoke.records.messages import Ended
    from ds_lint.source.tree import Node

_DISK = "the disk is full"
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
# Messages for the causes (``ds_lint/smoke/records/cause.py``) that are not the config; None if the text is enough.
CAUSES = {
    "disk": _DISK,
    "memory": "there is not enough memory",
    "file": "a file cannot be written",
    "port": "a port is taken",
    "open files": "there are too many open files",
    "package": "a package is missing",
    "compiler": "the ops cannot be compiled here",
    "gpu": "a GPU is required",
    "driver": "the driver does not fit this torch",
    "architecture": "this torch has no kernels for the GPU",
    "busy gpu": "the GPU cannot be used",
    "gpu per rank": "there is no GPU for each rank",
    "stand-in": None,
}
_MODELS = "transformers/models/"  # where code of one architecture lies
_OURS = ("start", "meet", "measure")  # phases in which nothing depends on the config
_STAGES: dict[str, Stage] = {
    "load": "load",
    "arguments": "initialize",
    "model": "initialize",
    "initialize": "initialize",
}


class Failure(NamedTuple):
    """How a run failed. ``stage`` is when the libraries reject the config; None if the run was not possible."""

    message: str
    stage: Stage | None
    rank: int
    raised: Raised | None


def failure(job: Job, ended: Ended) -> Failure | None:
    """The failure that caused the others; None if every rank finished."""
    failed = [end for end in ended.ends if end.exit != "ok"]
    if not failed:
        return None
    raised = {one.rank: one.raised for one in ended.evidence if one is not None and one.raised is not None}
    own = {rank: one for rank, one in raised.items() if one.cause != "peer"}
    killed = [end for end in failed if end.exit == "signal"]
    # gloo may abort a rank whose peer has ended.
    first = next((end for end in killed if end.error != "SIGABRT"), None) or (killed[0] if killed and not own else None)
    if first is not None:
        return _killed(first)
    if own:
        return _raised(job, *next(iter(own.items())))
    stopped = next((end for end in failed if end.exit == "exception" and end.rank not in raised), None)
    if stopped is not None:
        return Failure(f"rank {stopped.rank} stopped in {stopped.phase}: {stopped.error}", None, stopped.rank, None)
    late = [end for end in failed if end.exit == "timeout"]
    if late:
        return _late(job, late, ended.waiting)
    rank, of_peers = next(iter(raised.items()))
    if "nccl" in f"{of_peers.kind} {of_peers.text}".lower():  # no rank has failed by itself, so the machine has
        return Failure(f"NCCL fails on this machine: {first_line(str(of_peers))}", None, rank, of_peers)
    return _raised(job, rank, of_peers)


def rank_ends(ended: Ended) -> list[RankEnd]:
    """How the ranks ended, without their reports about the rank that failed first."""
    of_peers = {one.rank for one in ended.evidence if one is not None and one.raised and one.raised.cause == "peer"}
    return [
        end._replace(exit="ended", error="another rank ended first")
        if end.exit == "exception" and end.rank in of_peers
        else end
        for end in ended.ends
    ]


def worst_ends(ended: list[Ended]) -> list[RankEnd]:
    """How each rank ended: its first failure in any part, if there is one."""
    found: dict[int, RankEnd] = {}
    for part in ended:
        for end in rank_ends(part):
            if end.rank not in found or found[end.rank].exit == "ok":
                found[end.rank] = end
    return list(found.values())


def _late(job: Job, late: list[RankEnd], waiting: list[int]) -> Failure:
    """Ranks whose time was up: if some of them wait for the others, the others are stuck."""
    stuck = [end for end in late if end.rank not in waiting]
    first = stuck[0] if stuck else late[0]
    places = ", ".join(f"rank {end.rank} in {end.phase}{f' ({end.error})' if end.error else ''}" for end in late)
    if stuck and len(stuck) < len(late):
        hanging = ", ".join(
            f"rank {end.rank} is stuck in {end.phase}, at {end.error or 'an unknown place'}" for end in stuck
        )
        one = len(waiting) == 1
        places = f"{hanging}; rank{'' if one else 's'} {', '.join(map(str, waiting))} wait{'s' * one} for it"
    return Failure(
        f"the run did not finish within {job.seconds:g} s (--smoke-timeout): {places}", None, first.rank, None
    )


def _killed(end: RankEnd) -> Failure:
    hint = "; the system usually does this when memory runs out" if end.error == "SIGKILL" else ""
    return Failure(f"rank {end.rank} was killed by {end.error} in {end.phase}{hint}", None, end.rank, None)


def _raised(job: Job, rank: int, raised: Raised) -> Failure:
    text = first_line(str(raised))
    if raised.cause in CAUSES:
        blame = CAUSES[raised.cause]
        free = f" ({_free(job.folder)})" if blame == _DISK else ""
        return Failure(f"{f'{blame}{free}: ' if blame else ''}{text}", None, rank, raised)
    if raised.kind == "UnknownArchitecture":
        return Failure(raised.text, None, rank, raised)
    if job.model is not None and raised.where.startswith(_MODELS):
        return Failure(
            f"a small copy of your model cannot be trained ({text}): run without --model", None, rank, raised
        )
    # TrainingArguments rejects a name in our own call.
    if raised.phase in _OURS or (not raised.where and raised.phase != "arguments"):
        return Failure(f"ds-lint failed in {raised.phase}: {text}", None, rank, raised)
    stage = _STAGES.get(raised.phase, "train")
    return Failure(text, stage, rank, raised)


def first_line(text: str) -> str:
    """The first line of an error, and for pydantic the line with the cause; without the colours that torch adds."""
    lines = [line.strip() for line in _COLOURS.sub("", text).splitlines() if line.strip()]
    if len(lines) > 2 and "validation error" in lines[0]:
        return f"{lines[0]}: {lines[1]}: {lines[2]}"
    if lines and lines[0].endswith(":"):
        lines[0] = " ".join(lines)
    return lines[0][:500] if lines else "no message"


def key_of(failed: Failure, written: Node) -> str | None:
    """The dotted key path that an error names, if it is in the config as written.

    Transformers lists them as ``- ds scheduler.params.warmup_num_steps=3 vs hf ...``, Accelerate writes them between
    backticks; pydantic names only a field, on the second line.
    """
    if failed.raised is None:
        return None
    text = failed.raised.text
    named = re.findall(r"^- ds ([\w.]+)=", text, re.MULTILINE) + re.findall(r"`([\w.]+)`", text)
    lines = text.splitlines()
    if len(lines) > 1 and "validation error" in lines[0]:
        places = [path for path, _ in walk(written) if path[-1] == lines[1].strip().rpartition(".")[2]]
        named += [dotted(path) for path in places] if len(places) == 1 else []
    return next((path for path in named if written.at(tuple(path.split("."))) is not None), None)


def _free(folder: str) -> str:
    return f"{shutil.disk_usage(folder).free // 2**20} MiB free below {os.path.dirname(folder)}"
