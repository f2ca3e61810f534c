"""One step of a model of FSDP, compared with the documented arithmetic; and the saved model with the shards."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.records.fsdp import FSDP1
from ds_lint.smoke.verify.arithmetic import AVERAGING, UPDATE, WEIGHTS, element
from ds_lint.smoke.verify.check import OF_TOLERANCE, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.comparison import Recomputed
    from ds_lint.smoke.records.fsdp_inspection import FsdpInspection
    from ds_lint.smoke.verify.fsdp_script import ShardedRanks

CLIPPING, EXPORT = "clipping", "export"
_SHARDED = "SHARDED_STATE_DICT"


def arithmetic(run: ShardedRanks, found: FsdpInspection | str) -> Iterator[Check]:
    """Gradients, clipping, update and weights of the sampled step."""
    if not all(math.isfinite(step.loss) for one in run.ranks for step in one.evidence.steps):
        for name in (AVERAGING, UPDATE, WEIGHTS):
            yield skipped(name, None, "the loss is not finite, so there is nothing to compare")
        return
    if isinstance(found, str) or found.recomputed is None:
        why = found if isinstance(found, str) else "no step was made whose tensors could be sampled"
        broken = _without_effect(run)
        if broken is not None:
            yield broken
        for name in (AVERAGING, UPDATE, WEIGHTS):
            if broken is None or name != UPDATE:
                yield skipped(name, None, why)
        return
    yield _averaging(run, found, found.recomputed)
    yield from _clipping(run, found)
    yield _without_effect(run) or _update(found, found.recomputed)
    yield _weights(found, found.recomputed)


def _averaging(run: ShardedRanks, found: FsdpInspection, recomputed: Recomputed) -> Check:
    own = run.own
    wanted = "the average over ranks and micro steps"
    if any(one.keeps_gradients for one in own):
        return Check(
            AVERAGING, "fail", None, wanted, None, None,
            "the gradients of a step are added to those of the steps before: the script does not clear them",
            "Call `optimizer.zero_grad()` after each step.",
        )  # fmt: skip
    if any(one.foreign for one in own):
        return skipped(AVERAGING, None, "the optimizer gets no gradient of the model")
    hooks = next((one.hooks for one in own if one.hooks), "")
    if hooks:
        return skipped(AVERAGING, None, f"the script changes the gradients on their way, by {hooks}")
    if found.lacking:
        return Check(
            AVERAGING, "fail", None, wanted, f"{len(found.lacking)} are missing", None,
            f"the optimizer steps without reduced gradients of {', '.join(found.lacking[:3])}",
            "The last backward pass before a step has to reduce the gradients: outside `no_sync()`, and with "
            "`set_requires_gradient_sync(True)`.",
        )  # fmt: skip
    if recomputed.unable.get(AVERAGING) or not recomputed.compared.get(AVERAGING):
        return skipped(AVERAGING, None, recomputed.unable.get(AVERAGING, "no gradient could be compared"))
    wrong = recomputed.mismatches.get(AVERAGING)
    outside = {one.name for holding in run.holdings for one in holding.outside}
    if wrong is not None:
        why = f"No unit of FSDP has {wrong.parameter}. " if wrong.parameter in outside else ""
        return Check(
            AVERAGING, "fail", None, wanted, wrong.observed, None,
            "the gradients of a step are not the average over ranks and micro steps of what autograd computes",
            why + element(wrong),
        )  # fmt: skip
    return Check(
        AVERAGING, "pass", None, wanted, recomputed.largest[AVERAGING], OF_TOLERANCE,
        f"{recomputed.compared[AVERAGING]:,} sampled gradients of a step are the average over ranks and micro steps of "
        f"what autograd computes; the largest difference is {recomputed.largest[AVERAGING]:.2g} of its tolerance",
    )  # fmt: skip


def _clipping(run: ShardedRanks, found: FsdpInspection) -> Iterator[Check]:
    seen = found.clipped
    if seen is None:
        if found.changed_by_script and any(one.clips for one in run.own):
            yield skipped(CLIPPING, None, found.changed_by_script)
        return
    observed = list(seen.observed.values())
    if not seen.is_wrong:
        message = f"the gradients, of norm {seen.norm:.4g}, are clipped to {seen.most:g} by the norm of all ranks"
        yield Check(CLIPPING, "pass", None, seen.expected, observed, None, message)
        return
    differ = len({f"{one:.4g}" for one in observed}) > 1
    how = ", and each rank by another factor" if differ else ""
    is_first = run.own[0].version == FSDP1
    yield Check(
        CLIPPING, "fail", None, seen.expected, observed, None,
        f"the gradients, of norm {seen.norm:.4g}, are multiplied by {observed[0]:.4g}, but clipping to {seen.most:g} "
        f"needs {seen.expected:.4g}{how}",
        "Call `model.clip_grad_norm_(...)`: the function of torch takes the norm of a rank's own shards." * is_first,
    )  # fmt: skip


def _without_effect(run: ShardedRanks) -> Check | None:
    """Steps that change nothing, or not all that is trained."""
    own = run.own
    rates = [rate for one in run.ranks for step in one.evidence.steps for rate in step.learning_rates]
    if any(one.foreign for one in own):
        elements = max(one.foreign for one in own)
        what = "its steps change no weight" if not any(one.changed for one in own) else "its steps do not change those"
        return Check(
            UPDATE, "fail", None, 0, elements, "elements",
            f"the optimizer has {elements:,} elements of parameters from before they were sharded: {what}",
            "Make the optimizer after the model is sharded.",
        )  # fmt: skip
    if any(rates) and not any(one.changed for one in own) and own[0].changed is not None:
        return Check(UPDATE, "fail", None, None, None, None, "the steps of the optimizer change no weight of the model")
    lost = sorted({name for one in own for name in one.unheld})
    if lost:
        return Check(
            UPDATE, "warn", None, 0, len(lost), "parameters",
            f"no optimizer has {', '.join(lost[:3])}" + f" and {len(lost) - 3} more" * (len(lost) > 3)
            + ", which require a gradient",
            "Freeze what is not trained, with `requires_grad_(False)`: FSDP reduces gradients of the rest.",
        )  # fmt: skip
    return None


def _update(found: FsdpInspection, recomputed: Recomputed) -> Check:
    name = recomputed.optimizer.rpartition(".")[2]
    why = recomputed.unable.get(UPDATE)
    if why or not recomputed.compared.get(UPDATE):
        return skipped(UPDATE, None, why or "no weights of the optimizer could be compared")
    wrong = recomputed.mismatches.get(UPDATE)
    if wrong is not None:
        message = f"a step gives other weights than the documented arithmetic of {name}"
        return Check(UPDATE, "fail", None, f"{name} as documented", wrong.observed, None, message, element(wrong))
    return Check(
        UPDATE, "pass", None, f"{name} as documented", recomputed.largest[UPDATE], OF_TOLERANCE,
        f"{recomputed.compared[UPDATE]:,} sampled weights of a step are updated as the documented arithmetic of {name} "
        f"says; the largest difference is {recomputed.largest[UPDATE]:.2g} of its tolerance",
    )  # fmt: skip


def _weights(found: FsdpInspection, recomputed: Recomputed) -> Check:
    wrong = recomputed.mismatches.get(WEIGHTS)
    if wrong is not None:
        message = f"rank {wrong.rank} computes with other weights than the shards of all ranks make"
        return Check(WEIGHTS, "fail", None, "the shards of all ranks", wrong.parameter, None, message,
                     f"First difference: {wrong.parameter}.")  # fmt: skip
    if not recomputed.compared.get(WEIGHTS):
        return skipped(WEIGHTS, None, "no unit was seen gathered after the sampled step")
    compared = recomputed.compared[WEIGHTS]
    message = f"all ranks compute with the shards of all ranks: {compared:,} sampled weights are the same bit for bit"
    return Check(
        WEIGHTS, "pass", None, "the shards of all ranks", f"0 other of {compared:,} sampled weights", None, message
    )


def export(run: ShardedRanks, found: FsdpInspection | str) -> Iterator[Check]:
    """The saved model, tensor by tensor."""
    one, own = run.ranks[0], run.own[0]
    if isinstance(found, str) or found.saved is None:
        why = found if isinstance(found, str) else own.shards_left_out or "the ranks have written no shards"
        yield skipped(EXPORT, None, why)
        return
    saved = found.saved
    by = own.export_by
    if one.not_saved is not None:
        yield Check(EXPORT, "fail", None, "a saved model", None, None, f"{by} raises {one.not_saved}")
        return
    if saved.unable is not None:
        yield Check(
            EXPORT, "fail", None, "a saved model", None, None, f"the saved model cannot be read: {saved.unable}"
        )
        return
    if one.has_adapters:
        yield skipped(EXPORT, None, "the saved model has the adapters alone, under other names")
        return
    if len(saved.missing) == saved.tensors and saved.tensors:
        is_sharded = _SHARDED in own.state_dict_type
        yield Check(
            EXPORT, "warn" if is_sharded else "fail", None, saved.tensors, 0, "tensors",
            f"{by} saves no weights" + f" with {_SHARDED}" * is_sharded,
            "Set the state dict type to FULL_STATE_DICT for the last save, or merge the checkpoint with "
            "`accelerate merge-weights`." * is_sharded,
        )  # fmt: skip
        return
    lost = [*saved.wrong, *saved.missing]
    if lost:
        what = "has wrong values" if saved.wrong else "is missing"
        yield Check(
            EXPORT, "fail", None, saved.tensors, saved.same, "tensors",
            f"what {by} saves has {saved.same} of {saved.tensors} weights: {lost[0]} {what}",
        )  # fmt: skip
        return
    yield Check(
        EXPORT, "pass", None, saved.tensors, saved.same, "tensors",
        f"what {by} saves has all {saved.tensors} weights as the shards of the ranks make them",
    )  # fmt: skip
