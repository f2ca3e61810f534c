"""Messages of the warm process to the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ds_lint.diagnostics.verdict import RankEnd
    from ds_lint.smoke.records.job import Evidence


IMPORTING = "import the libraries"  # the phase of a rank that could not be forked with them
MOST_IMPORTING = 900.0  # seconds for that; from a network drive that is busy it takes minutes


@dataclass
class Ready:
    """The libraries are imported: their versions, and the seconds it took; or why the import failed."""

    versions: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    seconds: float = 0.0
    has_cuda: bool = True  # whether torch computes on GPUs
    locks: dict[str, str] = field(default_factory=dict)  # left by killed builds, by the op


@dataclass
class Started:
    """What to remove if this process ends: process groups of ranks, and locks that they may leave."""

    groups: list[int]
    locks: list[str] = field(default_factory=list)


@dataclass
class Unable:
    """The ranks did not start, and why, in one sentence."""

    reason: str


@dataclass
class Entered:
    """Rank 0 of a job entered a phase."""

    part: str
    phase: str


@dataclass
class Ended:
    """How each rank of a job ended, and its evidence, if it reported any."""

    ends: list[RankEnd]
    evidence: list[Evidence | None]
