"""One step of the user's script, compared with the documented arithmetic: gradients, update, and live weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.smoke.driver.documented_optimizer import NoReference, rule_of_config
from ds_lint.smoke.driver.expectation import ZERO, Expectation, Requested
from ds_lint.smoke.verify.arithmetic import AVERAGING, UPDATE, WEIGHTS
from ds_lint.smoke.verify.check import Runs, checked, skipped
from ds_lint.smoke.verify.precision import is_scaled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check
    from ds_lint.smoke.script.comparison import FarthestElement

# What changes gradients on their way to the optimizer.
_CHANGING = ("zero_quantized_gradients", "zeropp_loco_param", "zenflow")
_OPTIMIZERS = ("onebit", "zeroone", "muon")


def arithmetic(expectation: Expectation, runs: Runs) -> Iterator[Check]:
    """The averaged gradients, the update of the fp32 weights, and the weights that the ranks compute with."""
    found = runs.recomputed
    if found is None:
        for name in (AVERAGING, UPDATE, WEIGHTS):
            yield skipped(name, None, "no step was made whose tensors could be sampled")
        return
    stage = expectation.key(ZERO, "stage")
    why = _changing(expectation) or found.unable.get(AVERAGING)
    why = why or (None if is_scaled(runs) else "the loss is not multiplied by the loss scale")
    if why or not found.compared.get(AVERAGING):
        yield skipped(AVERAGING, stage, why or "the optimizer gets no gradients that could be compared")
    else:
        yield _compared(
            AVERAGING, runs, Requested("the average over ranks and micro steps", stage),
            kept="are the average over ranks and micro steps of what autograd computes",
            broken="the gradients of a step are not the average over ranks and micro steps of what autograd computes",
        )  # fmt: skip
    rule = rule_of_config(expectation)
    key = expectation.key("optimizer", "type") or expectation.key("optimizer")
    why = rule.why.replace("the reference run", "ds-lint") if isinstance(rule, NoReference) else None
    why = why or found.unable.get(UPDATE)
    name = found.optimizer.rpartition(".")[2]
    if why or not found.compared.get(UPDATE):
        yield skipped(UPDATE, key, why or "no weights of the optimizer could be compared")
    else:
        yield _compared(
            UPDATE, runs, Requested(f"the fp32 weights of {name} as documented", key),
            kept=f"are updated as the documented arithmetic of {name} says",
            broken=f"a step gives other fp32 weights than the documented arithmetic of {name}",
        )  # fmt: skip
    if found.compared.get(WEIGHTS) or WEIGHTS in found.mismatches:
        yield _live(expectation, runs)
    else:
        yield skipped(WEIGHTS, stage, "the weights that the ranks compute with are not in memory between steps")


def _changing(expectation: Expectation) -> str | None:
    """What makes gradients something else than an average; None if nothing does."""
    section = next((one for one in _CHANGING if expectation.final.value(ZERO, one)), None)
    if section is not None or expectation.final.section(ZERO, "zenflow") is not None:
        return f"`{ZERO}.{section or 'zenflow'}` changes the gradients on their way"
    name = (expectation.optimizer or "").lower()
    return f"{expectation.optimizer} changes the gradients on their way" if name.startswith(_OPTIMIZERS) else None


def _compared(id: str, runs: Runs, requested: Requested, *, kept: str, broken: str) -> Check:
    found = runs.recomputed
    assert found is not None  # noqa: S101 - the caller has looked
    mismatch, share = found.mismatches.get(id), found.largest.get(id, 0.0)
    what = "gradients" if id == AVERAGING else "fp32 weights"
    return checked(
        id,
        requested,
        share if mismatch is None else mismatch.observed,
        mismatch is None,
        kept=f"{found.compared[id]:,} sampled {what} of a step {kept}; the largest difference is {share:.2g} of its "
        "tolerance",
        broken=f"{broken}{_in_words(mismatch)}",
    )


def _in_words(mismatch: FarthestElement | None) -> str:
    if mismatch is None:
        return ""
    return (
        f" (an element of {mismatch.parameter} is {mismatch.observed:.9g} instead of {mismatch.expected:.9g}, "
        f"tolerance {mismatch.tolerance:.2g})"
    )


def _live(expectation: Expectation, runs: Runs) -> Check:
    found = runs.recomputed
    assert found is not None  # noqa: S101 - the caller has looked
    mismatch = found.mismatches.get(WEIGHTS)
    dtype = str(expectation.dtype.value)
    return checked(
        WEIGHTS,
        Requested("the fp32 weights, rounded", expectation.dtype.key or expectation.key(ZERO, "stage")),
        None if mismatch is None else mismatch.parameter,
        mismatch is None,
        kept=f"after a step, the ranks compute with its fp32 weights, in {dtype}",
        broken=""
        if mismatch is None
        else f"after a step, rank {mismatch.rank} computes with other weights than the fp32 weights of that step, "
        f"rounded to {dtype}: {mismatch.parameter} is one of them",
    )
