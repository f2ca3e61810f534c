"""Messages of the warm process to the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.record import Record, field

if TYPE_CHECKING:
    from ds_lint.diagnostics.verdict import RankEnd
    from ds_lint.smoke.records.job import Evidence


IMPORTING = "import the libraries"  # the phase of a rank that could not be forked with them
MOST_IMPORTING = 900.0  # seconds for that; from a network drive that is busy it takes minutes


class Ready(Record):
    """The libraries are imported: their versions, and the seconds it took; or why the import failed."""

    versions: dict[str, str] = field(factory=dict)
    error: str | None = None
    seconds: float = 0.0
    has_cuda: bool = True  # whether torch computes on GPUs
    locks: dict[str, str] = field(factory=dict)  # left by killed builds, by the op


class Started(Record):
    """What to remove if this process ends: process groups of ranks, and locks that they may leave."""

    groups: list[int]
    locks: list[str] = field(factory=list)


class Unable(Record):
    """The ranks did not start, and why, in one sentence."""

    reason: str


class Entered(Record):
    """Rank 0 of a job entered a phase."""

    part: str
    phase: str


class Ended(Record):
    """How each rank of a job ended, and its evidence, if it reported any."""

    ends: list[RankEnd]
    evidence: list[Evidence | None]
    waiting: list[int] = field(factory=list)  # ranks whose time was up in a collective, which needs the others

    @property
    def seen(self) -> list[Evidence]:
        """The evidence of the ranks that reported some."""
        return [one for one in self.evidence if one is not None]
