"""Why a run did not come to its end: the rank that failed first, and whether the config or the machine is to blame."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.source.tree import dotted, walk

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Stage
    from ds_lint.diagnostics.verdict import RankEnd
    from ds_lint.smoke.driver.messages import Ended
    from ds_lint.smoke.job import Job, Raised
    from ds_lint.source.tree import Node

_DISK = "the disk is full"
# What to tell of a cause (``ds_lint/smoke/rank/cause.py``) that is not the config; None if the text says it all.
_CAUSES = {
    "disk": _DISK,
    "memory": "there is not enough memory",
    "file": "a file cannot be written",
    "port": "a port is taken",
    "open files": "there are too many open files",
    "package": "a package is missing",
    "compiler": "the ops cannot be compiled here",
    "gpu": "it takes a GPU",
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
    """How a run failed. ``stage`` is when the config is refused; None where it could not be run."""

    message: str
    stage: Stage | None
    rank: int
    raised: Raised | None


def failure(job: Job, ended: Ended) -> Failure | None:
    """The failure that explains the others; None where every rank came to its end."""
    failed = [end for end in ended.ends if end.exit != "ok"]
    if not failed:
        return None
    raised = {one.rank: one.raised for one in ended.evidence if one is not None and one.raised is not None}
    own = {rank: one for rank, one in raised.items() if one.cause != "peer"}
    killed = [end for end in failed if end.exit == "signal"]
    # gloo may abort a rank whose peer is gone.
    first = next((end for end in killed if end.error != "SIGABRT"), None) or (killed[0] if killed and not own else None)
    if first is not None:
        return _killed(first)
    if own:
        return _raised(job, *next(iter(own.items())))
    stopped = next((end for end in failed if end.exit == "exception" and end.rank not in raised), None)
    if stopped is not None:
        return Failure(
            f"rank {stopped.rank} stopped while it was in {stopped.phase}: {stopped.error}", None, stopped.rank, None
        )
    late = [end for end in failed if end.exit == "timeout"]
    if late:
        phases = ", ".join(f"rank {end.rank} in {end.phase}" for end in late)
        return Failure(f"no end within {job.seconds:g} s (--smoke-timeout): {phases}", None, late[0].rank, None)
    return _raised(job, *next(iter(raised.items())))


def as_told(ended: Ended) -> list[RankEnd]:
    """How the ranks ended, without what they say of the one that failed before them."""
    of_peers = {one.rank for one in ended.evidence if one is not None and one.raised and one.raised.cause == "peer"}
    return [
        end._replace(exit="ended", error="another rank was gone")
        if end.exit == "exception" and end.rank in of_peers
        else end
        for end in ended.ends
    ]


def _killed(end: RankEnd) -> Failure:
    hint = ", which is usually what the system does when memory runs out" if end.error == "SIGKILL" else ""
    return Failure(f"rank {end.rank} was killed by {end.error} while it was in {end.phase}{hint}", None, end.rank, None)


def _raised(job: Job, rank: int, raised: Raised) -> Failure:
    text = first_line(str(raised))
    if raised.cause in _CAUSES:
        blame = _CAUSES[raised.cause]
        free = f" ({_free(job.folder)})" if blame == _DISK else ""
        return Failure(f"{f'{blame}{free}: ' if blame else ''}{text}", None, rank, raised)
    if raised.kind == "UnknownArchitecture":
        return Failure(raised.text, None, rank, raised)
    if job.model is not None and raised.where.startswith(_MODELS):
        return Failure(f"your model, made small, cannot be trained ({text}); try without --model", None, rank, raised)
    # TrainingArguments refuses a name where we call it.
    if raised.phase in _OURS or (not raised.where and raised.phase != "arguments"):
        return Failure(f"ds-lint failed in {raised.phase}: {text}", None, rank, raised)
    stage = _STAGES.get(raised.phase, "train")
    return Failure(text, stage, rank, raised)


def first_line(text: str) -> str:
    """The first line of an error, and of pydantic's the one that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 2 and "validation error" in lines[0]:
        return f"{lines[0]}: {lines[1]}: {lines[2]}"
    if lines and lines[0].endswith(":"):
        lines[0] = " ".join(lines)
    return lines[0][:500] if lines else "no message"


def key_of(failed: Failure, written: Node) -> str | None:
    """The dotted key path that an error speaks of, if it is in the config as it is written.

    Transformers lists them as ``- ds scheduler.params.warmup_num_steps=3 vs hf ...``; pydantic names a field alone, on
    the second line.
    """
    if failed.raised is None:
        return None
    text = failed.raised.text
    named = re.findall(r"^- ds ([\w.]+)=", text, re.MULTILINE)
    lines = text.splitlines()
    if len(lines) > 1 and "validation error" in lines[0]:
        places = [path for path, _ in walk(written) if path[-1] == lines[1].strip().rpartition(".")[2]]
        named += [dotted(path) for path in places] if len(places) == 1 else []
    return next((path for path in named if written.at(tuple(path.split("."))) is not None), None)


def _free(folder: str) -> str:
    return f"{shutil.disk_usage(folder).free // 2**20} MiB free below {os.path.dirname(folder)}"
