"""What was seen of one config, and how a check of a promise is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ds_lint.diagnostics.verdict import Check, Held
from ds_lint.smoke.driver.expectation import Batch, Expectation, Requested

if TYPE_CHECKING:
    from ds_lint.smoke.job import Engine, Evidence, Exported, Job


@dataclass
class Runs:
    """All that was seen of one config: the run, the run that resumed from it, and what was saved."""

    job: Job
    adapted: frozenset[str]  # dotted key paths
    train: list[Evidence]
    resumed: list[Evidence] | None
    resume_error: str | None
    exported: Exported | None
    export_error: str | None
    real_shapes: list[int] | None  # elements of the parameters of the user's own model
    real_batch: Batch | None  # of the user's own world, where its size is known
    is_resume_cut_off: bool = False  # by something that says nothing about the config

    @property
    def engine(self) -> Engine:
        """What the engine of rank 0 says."""
        engine = self.train[0].engine
        assert engine is not None  # noqa: S101 - a run that came to its end was looked at
        return engine

    @property
    def world_size(self) -> int:
        """Ranks of the run."""
        return self.job.world_size

    @property
    def steps_made(self) -> int:
        """Steps up to the checkpoint that were not skipped."""
        return sum(not step.is_skipped for step in self.train[0].steps[: self.job.steps])

    def held(self, kind: str) -> list[int]:
        """Elements of a kind by rank."""
        return [one.held.get(kind, Held(0, 0)).elements for one in self.train]


Verify = Callable[[Expectation, Runs], Iterator[Check]]


def checked(
    id: str,
    requested: Requested,
    observed: Any,
    is_kept: bool,
    *,
    kept: str,
    broken: str,
    unit: str | None = None,
    bad: str = "fail",
    help: str = "",
    adapted: bool = False,
) -> Check:
    """A check of one promise, with one sentence for either outcome."""
    status, message = ("pass", kept) if is_kept else (bad, broken)
    return Check(id, status, requested.key, requested.value, observed, unit, message, "" if is_kept else help, adapted)


def spelling(expectation: Expectation, requested: Requested) -> str:
    """How to write a mistyped key that made a promise."""
    for meant, written in expectation.written_as.items():
        if requested.key is not None and (requested.key == written or requested.key.startswith(f"{written}.")):
            return f"Write it as `{meant}{requested.key[len(written) :]}`."
    return ""


def skipped(id: str, key: str | None, why: str) -> Check:
    """What was not verified, and why."""
    return Check(id, "skip", key, None, None, None, why)
