"""One step of the user's script again, from the samples that its ranks took: gradients, update, and live weights.

1. The gradient that the optimizer was given is the average over ranks of the sums over micro steps of what autograd
   computed on each, unscaled and clipped. The bound on what the order of additions and their dtype may change is that
   of ``ds_lint/smoke/rank/reference.py``, for each element.
2. From the weights and states before the step and that gradient, the documented arithmetic of the optimizer gives the
   weights after it, within the bounds of ``update_rules.py``.
3. The ranks compute with these weights, cast down, bit for bit; and all ranks that have a weight have the same.
"""

from __future__ import annotations

import glob
import math
import os
from typing import TYPE_CHECKING

import torch

from ds_lint.smoke.expected.roundoff import U
from ds_lint.smoke.expected.update_rules import Optimizer
from ds_lint.smoke.observe import sampled_step
from ds_lint.smoke.records.comparison import Recomputed
from ds_lint.smoke.records.job import FUSED, UpdateRule

if TYPE_CHECKING:
    from torch import Tensor

    from ds_lint.smoke.observe.sampled_step import SampledStep, SampledUpdate

STEP = "step.pt"  # the file of a rank
# The optimizers whose hyperparameters are all in their groups, by class, with the kind of their rule.
_KINDS = {
    "torch.optim.adamw.AdamW": "adamw",
    "torch.optim.adam.Adam": "adam",
    "deepspeed.ops.adam.fused_adam.FusedAdam": "fused",
    "deepspeed.ops.adam.cpu_adam.DeepSpeedCPUAdam": "fused",
    "torch.optim.sgd.SGD": "sgd",
}
ROUNDOFF = {"float32": (2.0**-24, 2.0**-149), "bfloat16": (2.0**-8, 2.0**-133), "float16": (2.0**-11, 2.0**-24)}


def recompute(folder: str, rule: UpdateRule | None, clipping: float, *, is_on_gpus: bool = False) -> Recomputed | None:
    """Compare the step that the ranks sampled below a folder; None if they sampled none."""
    paths = sorted(glob.glob(os.path.join(folder, "rank-*", STEP)))
    ranks = [sampled_step.load(path) for path in paths]
    if not ranks or len(ranks) != ranks[0].ranks:
        return None
    found = Recomputed(optimizer=ranks[0].optimizer, elements=sum(_elements(one) for one in ranks))
    _compare_gradients(ranks, clipping, found)
    compare_update(ranks, rule or rule_of(ranks[0], is_on_gpus=is_on_gpus), found, is_of_script=rule is None)
    _compare_live(ranks, found)
    return found


def _elements(step: SampledStep) -> int:
    return sum(one.places.numel() for one in step.updates)


# ----------------------------------------------------------------------------------------------------- the gradients


def _compare_gradients(ranks: list[SampledStep], clipping: float, found: Recomputed) -> None:
    first = ranks[0]
    _compare_average(ranks, clipping, found)
    if "averaging" in found.mismatches and first.scale_after != first.scale:
        rescaled = Recomputed(found.optimizer, found.elements)
        _compare_average(ranks, clipping, rescaled, first.scale_after / first.scale)
        found.is_divided_by_next_scale = "averaging" not in rescaled.mismatches
    for name in sorted(set.intersection(*(set(rank.lacking) for rank in ranks))):
        if all(name in rank.local and bool(rank.local[name].any()) for rank in ranks):
            found.lacking.append(name)


def _compare_average(ranks: list[SampledStep], clipping: float, found: Recomputed, factor: float = 1.0) -> None:
    """Compare the gradients that the optimizer got, times a factor."""
    first = ranks[0]
    roundoff, smallest = max(ROUNDOFF.get(dtype, ROUNDOFF["float32"]) for one in ranks for dtype in one.dtypes)
    roundings = len(ranks) + first.windows + 4
    wide = math.expm1(roundings * math.log1p(roundoff))
    clip = _clip(first.norm, clipping)
    for one in (one for rank in ranks for one in rank.updates):
        if one.gradient is None or not all(one.name in rank.local for rank in ranks):
            continue
        expected = sum(rank.local[one.name] / rank.scale for rank in ranks)[one.samples] / len(ranks)
        absolute = sum(rank.absolute[one.name] / rank.scale for rank in ranks)[one.samples] / len(ranks)
        observed = one.gradient.double() * factor / clip
        bound = wide * absolute + roundings * smallest / first.scale + 8 * U * expected.abs()
        found.note("averaging", one.name, observed, expected, bound)


def _clip(norm: float | None, most: float) -> float:
    """The factor that clips gradients of this norm."""
    return most / (norm + 1e-6) if norm is not None and most and norm + 1e-6 > most else 1.0


# -------------------------------------------------------------------------------------------------------- the update


def compare_update(ranks: list[SampledStep], rule: UpdateRule | None, found: Recomputed, *, is_of_script: bool) -> None:
    """A group without a weight decay of its own has that of the config."""
    if rule is None:
        found.unable["update"] = f"no documented arithmetic of {ranks[0].optimizer} is known"
        return
    for name, (requested, used) in sorted({name: pair for rank in ranks for name, pair in rank.decays.items()}.items()):
        wanted = requested if requested is not None or is_of_script else rule.decay
        if wanted is not None and wanted != used:
            found.decays[name] = (wanted, used)
    for one in (one for rank in ranks for one in rank.updates):
        if one.gradient is None or not one.before.dtype == one.after.dtype == torch.float32:
            found.unable["update"] = "the optimizer does not update fp32 weights"
            return
        if rule.kind == "adam" and not {"exp_avg", "exp_avg_sq"} <= one.states.keys() and one.steps:
            found.unable["update"] = f"{ranks[0].optimizer} keeps its states in another form"
            return
        expected, bound = _stepped(one, rule)
        found.note("update", one.name, one.after.double(), expected, bound)


def _stepped(one: SampledUpdate, rule: UpdateRule) -> tuple[Tensor, Tensor]:
    """The weights after the step with the documented arithmetic, and how far float32 may be from them."""
    elements = one.places.numel()
    optimizer = Optimizer(rule, elements)
    first = one.states.get("exp_avg", one.states.get("momentum_buffer"))
    second = one.states.get("exp_avg_sq", one.states.get("sum"))
    # torch's SGD counts no steps: it has a momentum from the first one on.
    steps = one.steps if first is None else max(one.steps, 1)
    optimizer.go_on_from(steps, *(None if state is None else state.double() for state in (first, second)))
    rate = torch.full((elements,), float(one.group["lr"]), dtype=torch.float64)
    decay = torch.full_like(rate, float(one.group.get("weight_decay", rule.decay)))
    assert one.gradient is not None  # noqa: S101 - the caller has looked
    made = optimizer.step(one.before.double(), one.gradient.double(), rate, decay)
    return made.weights, made.bound


def rule_of(step: SampledStep, *, is_on_gpus: bool) -> UpdateRule | None:
    """The rule of an optimizer that the script has made, with the hyperparameters of its groups."""
    kind, group = _KINDS.get(step.optimizer), step.updates[0].group
    name = step.optimizer.rpartition(".")[2]
    if kind is None or group.get("amsgrad") or group.get("maximize"):
        return None
    if kind == "sgd":
        momentum, dampening = (float(group.get(one) or 0.0) for one in ("momentum", "dampening"))
        is_nesterov = bool(group.get("nesterov"))
        return UpdateRule(name, kind, momentum=momentum, dampening=dampening, is_nesterov=is_nesterov)
    if "betas" not in group or "eps" not in group:
        return None
    first, second = group["betas"]
    is_decoupled = kind == "adamw" or bool(group.get("decoupled_weight_decay"))
    if kind == "fused":
        is_decoupled = step.is_decoupled
    corrects = bool(group.get("bias_correction", True))
    return UpdateRule(
        name, "adam", 0.0, (float(first), float(second)), float(group["eps"]), is_decoupled=is_decoupled,
        corrects_bias=corrects, is_fast=is_on_gpus and name.startswith(FUSED),
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------- the live weights


def _compare_live(ranks: list[SampledStep], found: Recomputed) -> None:
    for number, one in ((number, one) for number, rank in enumerate(ranks) for one in rank.updates):
        if one.live is None:
            continue
        expected = one.after.to(one.live.dtype)
        if not torch.equal(expected.view(torch.uint8), one.live.view(torch.uint8)):
            found.differ("weights", one.name, number)
            return
        found.compared["weights"] = found.compared.get("weights", 0) + one.live.numel()
    for number, step in enumerate(ranks[1:], start=1):
        for name, own in step.shared.items():
            first = ranks[0].shared.get(name)
            if first is not None and not torch.equal(first.view(torch.uint8), own.view(torch.uint8)):
                found.differ("weights", name, number)
                return
