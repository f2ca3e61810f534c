"""One step of a model of FSDP again, and its saved files, in a process of its own: ``python -m`` this, with a folder.

1. What is left of the gradients after the last backward pass is the average over ranks of the sums over micro steps of
   what autograd computed on each, within the bounds of ``recomputed.py``.
2. What the optimizer gets is that, multiplied by one factor: the one that the documented clipping gives.
3. From the weights and states before the step and that gradient, the documented arithmetic gives the weights after it.
4. In the next forward pass, each rank computes with the shards of all ranks, cast as the script asks.
5. The saved model has what the shards make together.
"""

from __future__ import annotations

import glob
import math
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.expected.roundoff import U
from ds_lint.smoke.observe import fsdp_step, saved_weights
from ds_lint.smoke.observe.sampled_step import SampledStep, samples_of
from ds_lint.smoke.records.comparison import Recomputed
from ds_lint.smoke.records.fsdp_inspection import ClippedStep, FsdpInspection, SavedModel
from ds_lint.smoke.script.recomputed import ROUNDOFF, compare_update, rule_of

if TYPE_CHECKING:
    from torch import Tensor

    from ds_lint.smoke.observe.fsdp_step import SampledShards

SHARDS = "shards.pt"
AVERAGING, WEIGHTS = "averaging", "weights"
_NORM = 2.0
_LEAST = 1e-4  # relative, of the factor that clips
_SMALL, _TINY = 1e-30, 1e-12


def inspect(folder: str, divisors: list[float], *, is_on_gpus: bool) -> FsdpInspection:
    """Compare what the ranks have left below a folder."""
    paths = sorted(glob.glob(os.path.join(folder, "rank-*", fsdp_step.STEP)), key=_rank_of)
    ranks = [fsdp_step.load(path) for path in paths]
    found = FsdpInspection(saved=compare_saved(folder))
    if not ranks or len(ranks) != ranks[0].ranks:
        return found
    found.recomputed = Recomputed(ranks[0].optimizer, sum(one.places.numel() for rank in ranks for one in rank.updates))
    factor = ranks[0].ranks / divisors[-1] if divisors else 1.0
    _compare_average(ranks, factor, found)
    _compare_clipping(ranks, found)
    _compare_update(ranks, found.recomputed, is_on_gpus=is_on_gpus)
    _compare_live(ranks, found)
    return found


def _rank_of(path: str) -> int:
    return int(os.path.basename(os.path.dirname(path)).rpartition("-")[2])


def _compare_average(ranks: list[SampledShards], factor: float, found: FsdpInspection) -> None:
    recomputed = found.recomputed
    assert recomputed is not None  # noqa: S101 - the caller has made it
    names = sorted(set.intersection(*(set(one.local) for one in ranks)))
    roundoff, smallest = max(ROUNDOFF.get(dtype, ROUNDOFF["float32"]) for one in ranks for dtype in one.dtypes)
    roundings = len(ranks) + max(one.micro_steps for one in ranks) + 4
    wide = math.expm1(roundings * math.log1p(roundoff))
    stepped = {update.name for one in ranks for update in one.updates}
    for name in names:
        expected = sum(one.local[name] for one in ranks) / len(ranks) * factor
        absolute = sum(one.absolute[name] for one in ranks) / len(ranks) * factor
        if not any(name in one.reduced and one.reduced[name][0].numel() for one in ranks):
            if bool(expected.any()):
                found.lacking.append(name)
            continue
        if name not in stepped:
            continue  # no optimizer has it, so nothing clears its gradient either
        for one in ranks:
            if name not in one.reduced or not one.reduced[name][0].numel():
                continue
            samples, observed = one.reduced[name]
            bound = wide * absolute[samples] + roundings * smallest + 8 * U * expected[samples].abs()
            recomputed.note(AVERAGING, name, observed, expected[samples], bound)
    if not names:
        recomputed.unable[AVERAGING] = "no gradient of a parameter was seen on every rank"


def _compare_clipping(ranks: list[SampledShards], found: FsdpInspection) -> None:
    """The factors between what is left after the last backward pass and what the optimizer gets, by rank."""
    factors = {number: _factor(one) for number, one in enumerate(ranks)}
    known = {number: one for number, one in factors.items() if one is not None}
    if not known or any(math.isnan(one) for one in known.values()):
        if known:
            found.changed_by_script = "the script changes the gradients between its backward pass and its step"
        return
    clips = [clip for one in ranks for clip in one.clips]
    rough = 4 * max(ROUNDOFF.get(dtype, ROUNDOFF["float32"])[0] for one in ranks for dtype in one.dtypes)
    if not clips:
        if max(known.values()) > min(known.values()) * (1 + _LEAST + rough):
            found.changed_by_script = "the script changes the gradients between its backward pass and its step"
        return
    clip = clips[-1]
    if clip.kind != _NORM or len({(one.most, one.kind) for one in clips}) > 1 or not set(ranks[0].squares):
        return
    norm = math.sqrt(math.fsum(value for one in ranks for value in one.squares.values()))
    scale = 2.0 ** round(math.log2(norm / clip.norm)) if clip.norm > 0 and norm > 0 else 1.0
    if not any(math.isclose(norm / scale, one.norm, rel_tol=_LEAST + rough) for one in clips):
        scale = 1.0
    expected = min(1.0, clip.most / (norm / scale + 1e-6)) / scale
    is_wrong = any(not math.isclose(one, expected, rel_tol=2 * (_LEAST + rough)) for one in known.values())
    found.clipped = ClippedStep(clip.most, norm / scale, expected * scale, known, is_wrong=is_wrong)


def _factor(one: SampledShards) -> float | None:
    """The factor of all gradients of a rank; NaN if there are several, None if the rank has none."""
    before, after = [], []
    for update in one.updates:
        if update.gradient is not None and update.name in one.reduced:
            before.append(one.reduced[update.name][1])
            after.append(update.gradient.double())
    if not before:
        return None
    reduced, given = torch.cat(before), torch.cat(after)
    most = float(reduced.abs().max()) if reduced.numel() else 0.0
    if most < _SMALL:
        return None
    factor = float(given[reduced.abs().argmax()]) / float(reduced[reduced.abs().argmax()])
    roundoff = max(ROUNDOFF.get(dtype, ROUNDOFF["float32"])[0] for dtype in one.dtypes)
    tolerance = (_LEAST + 4 * roundoff) * abs(factor) * reduced.abs() + _TINY
    return factor if bool(((given - reduced * factor).abs() <= tolerance).all()) else math.nan


def _compare_update(ranks: list[SampledShards], found: Recomputed, *, is_on_gpus: bool) -> None:
    steps = [_sampled(one) for one in ranks]
    filled = next((one for one in steps if one.updates), None)
    if filled is None:
        found.unable["update"] = "the optimizer steps on nothing that could be sampled"
        return
    compare_update(steps, rule_of(filled, is_on_gpus=is_on_gpus), found, is_of_script=True)


def _sampled(one: SampledShards) -> SampledStep:
    """The notes as the arithmetic of optimizers takes them."""
    return SampledStep(
        local=one.local, absolute=one.absolute, scale=1.0, scale_after=1.0, norm=None, dtypes=one.dtypes,
        windows=one.micro_steps, ranks=one.ranks, optimizer=one.optimizer, is_decoupled=True, updates=one.updates,
        shared={}, lacking=[], decays={},
    )  # fmt: skip


def _compare_live(ranks: list[SampledShards], found: FsdpInspection) -> None:
    recomputed = found.recomputed
    assert recomputed is not None  # noqa: S101 - the caller has made it
    names = sorted({name for one in ranks for name in one.live})
    for name in names:
        pieces = [one.shards[name] for one in ranks if name in one.shards]
        first = next(one.live[name] for one in ranks if name in one.live)
        whole = torch.full((first.numel(),), math.nan, dtype=torch.float64)
        for samples, values in pieces:
            whole[samples] = values.double()
        for number, one in enumerate(ranks):
            if name not in one.live or bool(whole.isnan().any()):
                continue
            expected = whole.to(one.live[name].dtype)
            recomputed.compared[WEIGHTS] = recomputed.compared.get(WEIGHTS, 0) + expected.numel()
            if not torch.equal(expected, one.live[name]) and WEIGHTS not in recomputed.mismatches:
                recomputed.differ(WEIGHTS, name, number)
    for one in ranks:
        for update in one.updates:
            if update.name in one.shards and not torch.equal(one.shards[update.name][1], update.after):
                found.changed_by_script = found.changed_by_script or "the script changes weights after its step"


# ------------------------------------------------------------------------------------------------------ the saved files


def compare_saved(folder: str) -> SavedModel | None:
    """The exported model beside the weights of the shards; None if no rank has written shards."""
    paths = glob.glob(os.path.join(folder, "rank-*", SHARDS))
    export = os.path.join(folder, "export")
    if not paths:
        return None
    saved = SavedModel(files=saved_weights.files_of(export))
    try:
        stored = dict(saved_weights.stored(export))
    except Exception as error:  # noqa: BLE001 - the error is the result
        saved.unable = f"{type(error).__name__}: {error}".replace(f"{export}{os.sep}", "")
        return saved
    whole, gaps = _whole(paths)
    saved.tensors = len(whole)
    by_content = {_content(one): name for name, one in stored.items()}
    for name, tensor in whole.items():
        if name in gaps:
            continue
        other = stored.get(name)
        if other is None:
            tied = any(_content(tensor.to(dtype)) in by_content for dtype in {one.dtype for one in stored.values()})
            if tied:
                saved.same += 1
            else:
                saved.missing.append(name)
        elif _is_same(tensor, other):
            saved.same += 1
        else:
            saved.wrong.append(name)
    return saved


def _whole(paths: list[str]) -> tuple[dict[str, Tensor], set[str]]:
    """The weights that the shards make, flat, and those of which some elements are on no rank."""
    whole: dict[str, Tensor] = {}
    seen: dict[str, Tensor] = {}
    for path in paths:
        for name, size, start, piece in torch.load(path, weights_only=True):
            if name not in whole:
                whole[name] = torch.zeros(size, dtype=piece.dtype)
                seen[name] = torch.zeros(size, dtype=torch.bool)
            whole[name][start : start + piece.numel()] = piece
            seen[name][start : start + piece.numel()] = True
    return whole, {name for name, one in seen.items() if not bool(one.all())}


def _is_same(flat: Tensor, stored: Tensor) -> bool:
    """Whether a file has a tensor as it is, or rounded to the dtype of the file."""
    other = stored.reshape(-1)
    if other.numel() != flat.numel():
        return False
    return bool(torch.equal(flat.to(other.dtype).view(torch.uint8), other.contiguous().view(torch.uint8)))


def _content(tensor: Tensor) -> tuple[int, float, float]:
    """Enough of a tensor to find one that is tied to it."""
    flat = tensor.reshape(-1)
    some = flat[samples_of(flat.numel())].double()
    return flat.numel(), float(some.sum()), float(some.square().sum())


def main() -> None:
    """Inspect what a pickled job names, and write the result beside it."""
    (path,) = sys.argv[1:]
    with open(path, "rb") as file:
        job: dict[str, Any] = pickle.load(file)  # noqa: S301 - the driver has written it
    found = inspect(job["folder"], job["divisors"], is_on_gpus=job["is_on_gpus"])
    with open(f"{path}.new", "wb") as file:
        pickle.dump(found, file)
    os.replace(f"{path}.new", f"{path}.found")


if __name__ == "__main__":
    main()
