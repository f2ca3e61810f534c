"""Whether a second start of the user's command continues from the checkpoint of the first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import CUDA, Check
from ds_lint.smoke.expected.expectation import Expectation, Requested
from ds_lint.smoke.verify.check import Repetition, ScriptRun, checked, skipped
from ds_lint.smoke.verify.saving import LOSS_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.engine_trace import Replayed

# Of a tied layer, one stage of a pipeline saves its copy; what other stages do not use of theirs need not come back.
_TIED = "parameter tied_modules."
_PASSES, _STEPS = "numbers of forward passes", "numbers of steps"


def resume(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """Every tensor of each rank after loading, and the steps after that."""
    offload = expectation.optimizer_offload
    key = offload.key if offload and offload.value == "nvme" else (expectation.stage.key if expectation.stage else None)
    yield from resumed(run, key)


def resumed(run: ScriptRun, key: str | None) -> Iterator[Check]:
    """The same, where a key of a config asks for the checkpoint or none does."""
    repetition = run.repetition
    if (why := run.ranks[0].no_room) is not None:
        yield skipped("resume", key, why)
        return
    if repetition is None:
        return
    if repetition.why_not is not None and not repetition.second:
        status = "error" if repetition.is_cut_off else "fail"
        verb = "did not finish its" if repetition.is_cut_off else "fails to"
        message = f"a second start {verb} resume: {repetition.why_not}"
        yield Check("resume", status, key, "every tensor and the next steps", None, None, message)
        return
    lost = sorted(
        {
            name
            for one, before, after in zip(run.train, repetition.first, repetition.second, strict=True)
            for name in _differing(one.fingerprint, after.restored)
            if before is not None
        }
    )
    whole = sum(len(one.fingerprint) for one in run.train)
    differing = _differing_steps(_in_common(repetition, run.steps_after), is_on_gpu=run.mode == CUDA)
    spare = [] if differing or not run.is_pipeline else [name for name in lost if name.startswith(_TIED)]
    lost = [name for name in lost if name not in spare]
    restored = f"all {whole} tensors" if not spare else f"{whole - len(spare)} of {whole} tensors"
    steps = min((len(one.rates) for one in repetition.first), default=0)
    if not steps and not lost:
        why = "the script ends with the step of the checkpoint, so no steps after it are repeated"
        yield skipped("resume", key, f"{why}; all {whole} tensors are restored")
        return
    unrecorded = next((one.unrecorded for one in repetition.first if one.unrecorded), None)
    if unrecorded is not None and not lost:
        why = f"{unrecorded}, so the steps after the checkpoint are not repeated"
        yield skipped("resume", key, f"{why}; all {whole} tensors are restored")
        return
    if not run.is_pipeline and not any(one.outputs for one in repetition.first) and not lost:
        why = "the script calls `engine.module` itself, so the steps after the checkpoint are not repeated"
        yield skipped("resume", key, f"{why}; all {whole} tensors are restored")
        return
    if differing and not lost and (other := _other_course(repetition)):
        why = f"{other}, so the steps after the checkpoint are not repeated"
        yield skipped("resume", key, f"{why}; all {whole} tensors are restored")
        return
    if _has_other_targets(repetition) and not lost:
        why = "the script computes its loss with tensors that do not fit the repeated inputs, so the steps after the"
        yield skipped("resume", key, f"{why} checkpoint are not repeated; all {whole} tensors are restored")
        return
    if repetition.is_cut_off and differing in (_PASSES, _STEPS) and not lost:
        message = f"a second start did not finish the steps after the checkpoint: {repetition.why_not}"
        yield Check("resume", "error", key, "every tensor and the next steps", None, None, message)
        return
    yield checked(
        "resume",
        Requested("every tensor and the next steps", key),
        f"{whole - len(lost) - len(spare)} of {whole} tensors" + (f", other {differing}" if differing else ""),
        not lost and not differing,
        unit="tensors",
        kept=f"a second start restores {restored} of the checkpoint, and {_repeated(repetition, run, steps)}",
        broken=f"a second start restores {whole - len(lost)} of {whole} tensors of the checkpoint"
        + (f", and {_other(differing, repetition)}" if differing else ""),
        help=f"Not restored: {', '.join(lost[:3])}." if lost else "",
    )


def _has_other_targets(repetition: Repetition) -> bool:
    """Whether the second start ends early, at a loss of its own for inputs of other shapes than the repeated ones."""
    return any(
        len(after.outputs) < len(before.outputs) and after.has_other_shapes and before.has_own_loss
        for before, after in zip(repetition.first, repetition.second, strict=True)
    )


def _other_course(repetition: Repetition) -> str:
    """Why the second start makes other steps, in words: what the script does by its own count of steps; else empty."""
    for before, after in zip(repetition.first, repetition.second, strict=True):
        if any(one != other for one, other in zip(before.passes, after.passes, strict=False)):
            return "the second start takes other numbers of micro steps, as at the end of an epoch"
        for one, other in zip(before.settings, after.settings, strict=False):
            if (changed := next((name for name, value in one.items() if other.get(name) != value), None)) is not None:
                return f"the script itself changes the model by its step ({changed})"
    return ""


def _in_common(repetition: Repetition, steps_after: int) -> Repetition:
    """The passes and steps that both starts make: a script that ends early makes fewer after the checkpoint."""
    if all(len(one.rates) == steps_after for one in repetition.first):
        return repetition
    pairs = [_shortened(*pair) for pair in zip(repetition.first, repetition.second, strict=True)]
    return repetition._replace(first=[before for before, _ in pairs], second=[after for _, after in pairs])


def _shortened(before: Replayed, after: Replayed) -> tuple[Replayed, Replayed]:
    names = ("outputs", "norms", "losses", "rates")
    lengths = {name: min(len(getattr(one, name)) for one in (before, after)) for name in names}
    before, after = (
        one.but(last={}, **{name: getattr(one, name)[:length] for name, length in lengths.items()})
        for one in (before, after)
    )
    return before, after


def _differing(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [name for name, digest in before.items() if after.get(name) != digest]


def _differing_steps(repetition: Repetition, *, is_on_gpu: bool) -> str:
    """What of the repeated steps differs, in words; empty if nothing does."""
    pairs = list(zip(repetition.first, repetition.second, strict=True))
    if any(len(before.outputs) != len(after.outputs) for before, after in pairs):
        return _PASSES
    if any(len(after.losses) < len(before.losses) or len(after.rates) < len(before.rates) for before, after in pairs):
        return _STEPS
    if is_on_gpu:  # some kernels have no deterministic form, and NCCL chooses its algorithm in each process again
        if any(not all(map(_are_close, before.norms, after.norms)) for before, after in pairs):
            return "outputs of the model"
        are_close = all(before.has_own_loss or _are_close(before.losses, after.losses) for before, after in pairs)
        return "" if are_close else "losses"
    if any(before.outputs != after.outputs for before, after in pairs):
        return "outputs of the model"
    if any(before.rates != after.rates for before, after in pairs):
        return "learning rates"
    return "weights after them" if any(_differing(before.last, after.last) for before, after in pairs) else ""


def _are_close(before: list[float], after: list[float]) -> bool:
    return len(before) == len(after) and all(
        math.isclose(one, other, rel_tol=LOSS_TOLERANCE) or (math.isnan(one) and math.isnan(other))
        for one, other in zip(before, after, strict=True)
    )


def _other(differing: str, repetition: Repetition) -> str:
    """What a second start does instead of repeating the steps."""
    if differing in (_PASSES, _STEPS) and repetition.why_not is not None:
        return f"does not repeat the steps after it: {repetition.why_not}"
    return f"repeats the steps after it with other {differing}"


def _repeated(repetition: Repetition, run: ScriptRun, steps: int) -> str:
    is_on_gpu = run.mode == CUDA
    outputs = "norms of the outputs of the model" if is_on_gpu else "outputs of the model"
    what = outputs if repetition.first[0].has_own_loss else "losses"
    how = f"to {LOSS_TOLERANCE:.1%}, as a GPU allows" if is_on_gpu else "bitwise"
    return f"with the inputs of the next {f'{steps} steps' if steps > 1 else 'step'} it repeats their {what} {how}"
