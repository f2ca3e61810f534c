"""The evidence of a small run with FSDP, and the checks that it gets: one function for each property."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.record import Record

if TYPE_CHECKING:
    from ds_lint.smoke.expected.documented_optimizer import NoReference
    from ds_lint.smoke.records.failure import Failure
    from ds_lint.smoke.records.fsdp import FsdpEvidence, FsdpHolding, FsdpJob, FsdpSaved
    from ds_lint.smoke.records.job import Evidence, Exported, Reference


class ShardedRun(Record):
    """What the ranks show, those that resume, the process that reads the files, and the reference."""

    job: FsdpJob
    train: list[Evidence]
    steps: int  # up to the checkpoint
    steps_after: int
    resumed: list[Evidence] | Failure
    exported: tuple[Exported, FsdpSaved] | str  # or why the files were not read
    reference: Reference | NoReference | Failure

    @property
    def seen(self) -> list[FsdpEvidence]:
        """What the ranks show of FSDP."""
        return [one.fsdp for one in self.train if one.fsdp is not None]

    @property
    def holdings(self) -> list[FsdpHolding]:
        """What each rank holds."""
        return [one.holding for one in self.seen if one.holding is not None]
