"""What schedulers, launchers and loggers write before a line of a log; it says which rank or host the line is from.

They nest: ``gpu-1: [rank5]: text`` is a line of rank 5 on host gpu-1. A time, a level or a stream says nothing of it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_DATE = r"\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_PREFIXES = re.compile(
    rf"""
    (?P<time>\[{_DATE}\][ ]?|【{_DATE}】|\({_DATE}\)[ ]?
      |{_DATE}[ ](?:stdout|stderr)[ ][FP][ ]              # the files of Kubernetes
      |{_DATE}[:,]?(?:[ ]\|[ ]|[ \t]|$))
  | \[rank(?P<rank>\d+)\]:[ ]?                          # torch/_logging, torch/csrc: since 2.2
  | \[default(?P<local>\d+)\]:[ ]?                      # torchrun --tee
  | \[\d+,(?P<mpi>\d+)\]<(?:stdout|stderr|stddiag)>:?[ ]?  # mpirun --tag-output
  | (?P<task>\d{{1,5}}):(?:[ ]|$)                       # srun --label
  | \((?P<actor>[\w.<>-]+)[ ]pid=(?P<pid>\d+)(?:,[ ]ip=(?P<ip>[\w.:]+))?\)[ ]?(?:\[repeated[^\]]*\][ ]?)?  # Ray
  | \[pod/(?P<pod>[^/\]\s]+)/[^\]\s]*\][ ]?             # kubectl logs --prefix
  | (?P<container>[\w.-]{{1,80}}-\d+)[ ]*\|[ ]                 # docker compose
  | (?!srun:|slurmstepd|pdsh|torch|cuda|python|step|epoch|node_rank)
    (?P<host>localhost|[a-z][a-z0-9.-]{{0,80}}\d[a-z0-9.-]{{0,80}}):(?:[ ]|$)  # pdsh
  | \[(?P<level>INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL)\][ ]?
  | \[(?P<role>Driver|Worker(?:[-\s]?\d+)?|Master)\][ ]?
    """,
    re.VERBOSE,
)
# Names of files that hold what one rank has written: rank0.log of DeepSpeed, attempt_0/1/stderr.log of torchrun.
_RANK_FILE = re.compile(r"(?:^|[_/\\.-])rank[_-]?(\d+)(?=[._-]|$)|attempt_\d+/(\d+)/(?:stdout|stderr)\.log$")


class Origin(NamedTuple):
    """Where a line is from, as far as its prefixes say."""

    rank: int | None = None
    host: str | None = None


NOWHERE = Origin()
_origins: dict[tuple[int | None, str | None], Origin] = {}


def split(text: str) -> tuple[Origin, str, bool]:
    """Take the prefixes off a line: where it is from, what is left, and whether a time or a level was there."""
    found = _PREFIXES.match(text)
    if found is None:
        return NOWHERE, text, False
    rank: int | None = None
    host: str | None = None
    is_logged, place = False, 0
    while found is not None and found.end() > place:
        kind = found.lastgroup
        if kind in ("rank", "mpi", "task", "local"):
            # A task of srun may start several ranks, which then name themselves, further in.
            rank = int(found[kind])
        elif kind in ("time", "level"):
            is_logged = True
        elif kind in ("ip", "pid", "actor"):
            host = f"{found['ip'] or ''}/{found['pid']}"
        elif kind in ("pod", "container", "host"):
            host = found[kind]
        place = found.end()
        found = _PREFIXES.match(text, place)
    key = (rank, host)
    origin = _origins.get(key)
    if origin is None:
        origin = _origins[key] = Origin(rank, host)
    return origin, text[place:], is_logged


def rank_of_file(path: str) -> int | None:
    """The rank whose output a file holds, by its name."""
    found = _RANK_FILE.search(path.replace("\\", "/"))
    return int(found[1] or found[2]) if found else None
