"""The weights that the ranks of a script compute with: those that the optimizer steps on, rounded, on every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.smoke.expected.expectation import ZERO, Expectation, Requested
from ds_lint.smoke.verify.arithmetic import WEIGHTS
from ds_lint.smoke.verify.check import ScriptRun, checked, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check


def live(expectation: Expectation, run: ScriptRun) -> Check:
    """After a sampled step and at the checkpoint; and whether an evaluation leaves them alone."""
    found, stage = run.recomputed, expectation.key(ZERO, "stage")
    wrong = next(_wrong(expectation, run), None)
    if wrong is None and (found is None or not found.compared.get(WEIGHTS)):
        why = "the weights that the ranks compute with are not in memory between steps"
        return skipped(WEIGHTS, stage, why if found is not None else "no step was made whose tensors could be sampled")
    dtype = expectation.dtype
    compared = found.compared.get(WEIGHTS, 0) if found is not None else 0
    observed = f"0 other of {compared:,} sampled weights" if wrong is None else wrong[0]
    return checked(
        WEIGHTS,
        Requested("the fp32 weights, rounded", dtype.key or stage),
        observed,
        wrong is None,
        kept=f"after a step, the ranks compute with its fp32 weights, in {dtype.value}",
        broken="" if wrong is None else wrong[1],
    )


def _wrong(expectation: Expectation, run: ScriptRun) -> Iterator[tuple[str, str]]:
    """A parameter or state that is not as it should be, and what is wrong, in words."""
    for one in run.train:
        if names := one.changed_in_evaluation:
            yield names[0], f"a forward pass without training changes what rank {one.rank} trains ({_firsts(names)})"
    mismatch = run.recomputed.mismatches.get(WEIGHTS) if run.recomputed is not None else None
    other = f"computes with other weights than the fp32 weights of that step, rounded to {expectation.dtype.value}"
    if mismatch is not None:
        yield mismatch.parameter, f"after a step, rank {mismatch.rank} {other}: {mismatch.parameter} is one of them"
    for one in run.train:
        if names := one.stale:
            yield names[0], f"after step {run.steps}, rank {one.rank} {other} ({_firsts(names)})"
    yield from _other_copies(run)


def _other_copies(run: ScriptRun) -> Iterator[tuple[str, str]]:
    """What every rank has whole at the checkpoint, and one has another of; not if ranks share tensors."""
    if run.data_parallel != run.world_size:
        return
    first, *others = run.train
    for one in others:
        for name in run.trained_names.intersection(first.copies):
            here, there = (rank.fingerprint.get(f"parameter {name}") for rank in (first, one))
            if here != there and None not in (here, there):
                difference = f"rank {one.rank} has other weights than rank {first.rank} ({name})"
                yield name, f"after step {run.steps}, {difference}"


def _firsts(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > len(names[:3]) else "")
