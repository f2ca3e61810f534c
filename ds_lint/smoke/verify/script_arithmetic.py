"""One step of the user's script, compared with the documented arithmetic: gradients, update, and live weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.semantics.features import is_on
from ds_lint.smoke.expected.documented_optimizer import NoReference, rule_of_config
from ds_lint.smoke.expected.expectation import ZERO, Expectation, Requested
from ds_lint.smoke.verify import script_weights
from ds_lint.smoke.verify.arithmetic import AVERAGING, UPDATE, WEIGHTS, element
from ds_lint.smoke.verify.check import OF_TOLERANCE, ScriptRun, checked, skipped
from ds_lint.smoke.verify.precision import ROUNDED, is_scaled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.comparison import Recomputed

# What changes gradients on their way to the optimizer.
_CHANGING = ("zero_quantized_gradients", "zeropp_loco_param", "zenflow")
# Source: `step` in deepspeed/runtime/zero/stage3.py and stage_1_and_2.py, which updates the scale before it unscales.
_RISING = "DeepSpeed divides them by the loss scale of the next step. "
_OPTIMIZERS = ("onebit", "zeroone", "muon")


def arithmetic(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """The averaged gradients, the update of the fp32 weights, and the weights that the ranks compute with."""
    if run.recomputed is None:
        for name in (AVERAGING, UPDATE):
            yield skipped(name, None, "no step was made whose tensors could be sampled")
    else:
        yield _averaging(expectation, run, run.recomputed)
        yield _update(expectation, run, run.recomputed)
    yield script_weights.live(expectation, run)


def of_parts(_expectation: Expectation, _run: ScriptRun) -> Iterator[Check]:
    """The same where ranks have parts of one model: no process has a whole one to repeat a step with."""
    for name in (AVERAGING, UPDATE, WEIGHTS):
        yield skipped(name, None, "several ranks share each copy of the model, and steps of whole copies are repeated")


def _averaging(expectation: Expectation, run: ScriptRun, found: Recomputed) -> Check:
    stage = expectation.key(ZERO, "stage")
    why = _changing(expectation) or found.unable.get(AVERAGING)
    if any(one.changes_gradients for one in run.ranks):
        why = "the script changes the gradients between its backward pass and its step"
    why = why or (None if is_scaled(run) else "the loss is not multiplied by the loss scale")
    why = why or ("the script makes its backward passes without DeepSpeed" if run.lacks_backward else None)
    if why is not None:
        return skipped(AVERAGING, stage, why)
    if (divided := _wrongly_divided(expectation, run)) is not None:
        return divided
    if found.lacking:
        return _lacking(found.lacking, stage)
    if not found.compared.get(AVERAGING):
        return skipped(AVERAGING, stage, "the optimizer gets no gradients that could be compared")
    return _compared(
        AVERAGING, run, Requested("the average over ranks and micro steps", stage),
        kept="are the average over ranks and micro steps of what autograd computes",
        broken="the gradients of a step are not the average over ranks and micro steps of what autograd computes",
        why=_RISING * found.is_divided_by_next_scale,
    )  # fmt: skip


def _update(expectation: Expectation, run: ScriptRun, found: Recomputed) -> Check:
    rule = rule_of_config(expectation)
    key = expectation.key("optimizer", "type") or expectation.key("optimizer")
    if found.decays:
        return _other_decay(found.decays, key)
    why = rule.why if isinstance(rule, NoReference) else None
    why = why or found.unable.get(UPDATE)
    if why or not found.compared.get(UPDATE):
        return skipped(UPDATE, key, why or "no weights of the optimizer could be compared")
    name = found.optimizer.rpartition(".")[2]
    return _compared(
        UPDATE, run, Requested(f"the fp32 weights of {name} as documented", key),
        kept=f"are updated as the documented arithmetic of {name} says",
        broken=f"a step gives other fp32 weights than the documented arithmetic of {name}",
    )  # fmt: skip


def _wrongly_divided(expectation: Expectation, run: ScriptRun) -> Check | None:
    """The gradients of a micro step that are not divided by the micro steps, if there are any.

    With a loss scale, the check of the loss scale sees it. What torch_autocast in fp16 and amp multiply with is not
    known.
    """
    autocast = expectation.autocast_dtype
    wrong = [one for rank in run.train for one in rank.divisions if not math.isclose(one, 1.0, rel_tol=ROUNDED)]
    if (
        not wrong
        or (autocast is not None and autocast.value == "float16")
        or is_on(expectation.final, "amp", "enabled")
    ):
        return None
    windows = run.engine.accumulation_steps
    key = expectation.key("gradient_accumulation_steps") or expectation.key(ZERO, "stage")
    return Check(
        AVERAGING, "fail", key, 1 / windows, wrong[0] / windows, None,
        f"the loss of a micro step is multiplied by {wrong[0] / windows:.4g}, not by 1/{windows}",
        f"The average of {windows} micro steps needs 1/{windows}.",
    )  # fmt: skip


def _lacking(names: list[str], key: str | None) -> Check:
    requested = "the gradients of all parameters that the script gives the optimizer"
    return Check(
        AVERAGING, "fail", key, requested, f"{len(names)} are missing", None,
        "the optimizer steps without gradients of parameters that the script gives it "
        f"({', '.join(names[:3])})",
    )  # fmt: skip


def _other_decay(decays: dict[str, tuple[float, float]], key: str | None) -> Check:
    name, (requested, used) = next(iter(decays.items()))
    return Check(
        UPDATE, "fail", key, requested, used, None,
        f"the optimizer decays {name} by {used:g}, but the script asks for {requested:g}",
    )  # fmt: skip


def _changing(expectation: Expectation) -> str | None:
    """What makes gradients something else than an average; None if nothing does."""
    section = next((one for one in _CHANGING if expectation.final.value(ZERO, one)), None)
    if section is not None or expectation.final.section(ZERO, "zenflow") is not None:
        return f"`{ZERO}.{section or 'zenflow'}` changes the gradients on their way"
    name = (expectation.optimizer or "").lower()
    return f"{expectation.optimizer} changes the gradients on their way" if name.startswith(_OPTIMIZERS) else None


def _compared(id: str, run: ScriptRun, requested: Requested, *, kept: str, broken: str, why: str = "") -> Check:
    found = run.recomputed
    assert found is not None  # noqa: S101 - the caller has looked
    mismatch, share = found.mismatches.get(id), found.largest.get(id, 0.0)
    what = "gradients" if id == AVERAGING else "fp32 weights"
    return checked(
        id,
        requested,
        share if mismatch is None else mismatch.observed,
        mismatch is None,
        unit=OF_TOLERANCE if mismatch is None else None,
        kept=f"{found.compared[id]:,} sampled {what} of a step {kept}; the largest difference is {share:.2g} of its "
        "tolerance",
        broken=broken,
        help="" if mismatch is None else why + element(mismatch),
    )
