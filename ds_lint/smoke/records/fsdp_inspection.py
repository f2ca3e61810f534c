"""What a process of its own finds in the files that the ranks of a model of FSDP have left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.record import Record, field

if TYPE_CHECKING:
    from ds_lint.smoke.records.comparison import Recomputed


class ClippedStep(Record):
    """How the gradients of a step were clipped."""

    most: float  # the norm that the script asks for
    norm: float  # of all gradients before, of all ranks
    expected: float  # factor
    observed: dict[int, float] = field(factory=dict)  # by rank
    is_wrong: bool = False


class SavedModel(Record):
    """The files of a model, compared with the weights that the shards of all ranks make together."""

    files: list[str] = field(factory=list)
    tensors: int = 0  # of the model
    same: int = 0  # of them, those that the files have bit for bit
    missing: list[str] = field(factory=list)
    wrong: list[str] = field(factory=list)
    unable: str | None = None  # why they were not compared


class FsdpInspection(Record):
    """All of it; None for what could not be compared."""

    recomputed: Recomputed | None = None
    clipped: ClippedStep | None = None
    changed_by_script: str | None = None  # gradients or weights that the script changes outside of FSDP, in words
    lacking: list[str] = field(factory=list)  # parameters with gradients of which none is left to step with
    saved: SavedModel | None = None
