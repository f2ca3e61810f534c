"""What the parts of a training run show, or why they do not; the same for ZeRO and for FSDP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.records.failure import Failure, failure
from ds_lint.smoke.records.job import FAKE_GROUP
from ds_lint.smoke.verify.check import skipped

if TYPE_CHECKING:
    from ds_lint.smoke.records.job import Evidence, Job, Reference
    from ds_lint.smoke.records.messages import Ended


def resumed(job: Job, ended: Ended) -> list[Evidence] | Failure:
    """What the ranks that resumed show, or why they do not."""
    return failure(job, ended) or ended.seen


def saved(job: Job, ended: Ended) -> Evidence | str:
    """What is in the saved files, or why it was not read."""
    lost = failure(job, ended)
    return ended.seen[0] if lost is None else lost.message


def repeated(job: Job, ended: Ended) -> Reference | Failure:
    """What the reference run found, or why it did not finish."""
    if (stopped := failure(job, ended)) is not None:
        return stopped
    found = ended.seen[0].reference
    assert found is not None  # noqa: S101 - a rank that has finished this part has it
    return found


def rejected(failed: Failure, key: str | None) -> Check:
    """The failed check of a run that the libraries reject the config of."""
    return Check(
        "start",
        "fail",
        key,
        "a training run of a few steps",
        failed.stage,
        None,
        f"the run stops: {failed.message}",
        f"The exception comes from {failed.raised.where}." if failed.raised and failed.raised.where else "",
    )


def not_simulated(ranks: int) -> Check:
    """The check of a world that this torch cannot simulate."""
    return skipped("world", None, f"this torch cannot simulate {ranks:,} ranks: it has no {FAKE_GROUP}")
