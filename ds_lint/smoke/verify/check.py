"""The evidence of one engine, in a small run or in a script, and how a check of one property is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ds_lint.diagnostics.verdict import Check, Held
from ds_lint.record import Record, field
from ds_lint.smoke.expected.expectation import Batch, Expectation, Requested

if TYPE_CHECKING:
    from dataclasses import KW_ONLY

    from ds_lint.smoke.expected.documented_optimizer import NoReference
    from ds_lint.smoke.records.accelerate_script import AccelerateScript
    from ds_lint.smoke.records.comparison import Recomputed
    from ds_lint.smoke.records.engine_trace import EngineTrace, Replayed
    from ds_lint.smoke.records.failure import Failure
    from ds_lint.smoke.records.job import Engine, Evidence, Exported, Reference
    from ds_lint.smoke.records.messages import Ended


class Repetition(NamedTuple):
    """The steps after the checkpoint of both starts of a script, by rank; ``why_not``: what stops the second."""

    first: list[Replayed]
    second: list[Replayed]
    why_not: str | None = None
    is_cut_off: bool = False  # by a cause other than the config and the script


class ObservedRun(Record):
    """What a run of either kind shows of one engine."""

    _: KW_ONLY
    train: list[Evidence]
    mode: str
    steps: int  # up to the checkpoint
    steps_after: int
    exported: Exported | str  # or why the saved files were not checked
    real_shapes: list[int] | str  # elements of the parameters of the user's model, or why they are not known
    has_adapters: bool = False
    is_of_transformers: bool = True  # ``from_pretrained`` loads the model
    adapted: frozenset[str] = frozenset()  # dotted key paths that the run changes

    @property
    def engine(self) -> Engine:
        """The facts of the engine of rank 0."""
        engine = self.train[0].engine
        assert engine is not None  # noqa: S101 - a run that finished has evidence
        return engine

    @property
    def world_size(self) -> int:
        """Ranks of the run."""
        return len(self.train)

    @property
    def steps_made(self) -> int:
        """Steps up to the checkpoint that were not skipped."""
        return sum(not step.is_skipped for step in self.train[0].steps[: self.steps])

    @property
    def trained_names(self) -> set[str]:
        """The parameters that are not frozen."""
        return {one.name for one in self.train[0].parameters if one.is_trainable}

    def held(self, kind: str) -> list[int]:
        """Elements of a kind by rank."""
        return [one.held.get(kind, Held(0, 0)).elements for one in self.train]


class SmallRun(ObservedRun):
    """A run of a small model: the run that resumes from it, and the one that repeats its steps without DeepSpeed."""

    _: KW_ONLY
    resumed: list[Evidence] | Failure
    reference: Reference | NoReference | Failure
    generation: tuple[Ended, Failure | None] | None = None  # None: there was no such run
    real_ranks: int | None = None  # the user's world size, if it is known
    real_batch: Batch | None = None  # of that world size
    accelerate_script: AccelerateScript | None = None  # of the accelerate stack
    overflows: list[bool] = field(factory=list)  # of the steps after the training, in which ds-lint makes them


class ScriptRun(ObservedRun):
    """A run of the user's own script, with tensors and data of its own."""

    _: KW_ONLY
    ranks: list[EngineTrace]  # the engine on each of them
    repetition: Repetition | None  # None: there was no second start
    recomputed: Recomputed | None  # of one step; None: none was sampled

    @property
    def lacks_backward(self) -> bool:
        """Whether the script makes its backward passes in a way that DeepSpeed does not see."""
        return any(one.lacks_backward for one in self.ranks)

    @property
    def without_gradient(self) -> set[str]:
        """The parameters of the optimizer that get no gradient on any rank, in no step up to the checkpoint."""
        return self.on_every_rank("without_gradient")

    def on_every_rank(self, name: str) -> set[str]:
        """The parameters that are in a list of the trace of every rank; none if a rank does not know."""
        if not all(one.is_coverage_known for one in self.ranks):
            return set()
        return set.intersection(*(set(getattr(one, name)) for one in self.ranks))

    @property
    def is_pipeline(self) -> bool:
        """Whether ranks share the layers of a model."""
        return any(one.is_pipeline for one in self.ranks)

    @property
    def data_parallel(self) -> int:
        """Ranks with samples of their own."""
        return self.ranks[0].data_parallel


OF_TOLERANCE = "of the tolerance"  # the unit of the largest difference of a comparison that passes

AnyRun = TypeVar("AnyRun", bound=ObservedRun)
Verify = Callable[[Expectation, AnyRun], Iterator[Check]]


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
    """A check of one property, with one sentence for each outcome."""
    status, message = ("pass", kept) if is_kept else (bad, broken)
    help = "" if is_kept else help  # noqa: A001 - as the field is called
    return Check(id, status, requested.key, requested.value, observed, unit, message, help=help, adapted=adapted)


def spelling(expectation: Expectation, requested: Requested) -> str:
    """How to write a mistyped key that asks for something."""
    for meant, written in expectation.written_as.items():
        if requested.key is not None and (requested.key == written or requested.key.startswith(f"{written}.")):
            return f"Rename it to `{meant}{requested.key[len(written) :]}`."
    return ""


def skipped(id: str, key: str | None, why: str) -> Check:
    """A skipped check, and why."""
    return Check(id, "skip", key, None, None, None, why)
