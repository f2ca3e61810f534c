"""Whether the user's script trains the model that it has: its mode, its parameters, and the size of its loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.expected.expectation import Expectation, Requested
from ds_lint.smoke.verify.check import ScriptRun, checked, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.engine_trace import EngineTrace

TRAINING = "training"
_WANTED = "the model in training mode, gradients of all trained parameters, and an average over micro steps"
_MOST = 0.5  # of the trained elements: a script that leaves out more of them trains something else than it says
_BEFORE = "Call `requires_grad_(False)` before `deepspeed.initialize` or `accelerator.prepare`."
_MODE = "Call `model.train()` before the loop and after each evaluation; `from_pretrained` returns a model without it."


def training(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """What the script itself does to its training, and DeepSpeed cannot see."""
    if run.is_pipeline or run.lacks_backward:
        why = "each rank of a pipeline has layers of its own" if run.is_pipeline else "DeepSpeed sees no backward pass"
        yield skipped(TRAINING, None, why)
        return
    found = [*_in_evaluation(run), *_divided_again(expectation, run), *_without_gradient(expectation, run)]
    yield from found
    if not found:
        yield _kept(run)


def _kept(run: ScriptRun) -> Check:
    """Nothing is wrong; parameters without a gradient that no step changes are named."""
    lacking = sorted(run.without_gradient)
    number = len(run.trained_names)
    what = f"gradients reach all {number} parameters of the optimizer"
    observed: str | None = f"gradients of {number - len(lacking)} of {number} parameters"
    if not any(one.is_coverage_known for one in run.ranks):
        what = "the script calls `engine.module` itself, so which parameters get gradients is not known"
        observed = None
    elif lacking:
        names = _firsts(lacking)
        what = f"gradients reach {number - len(lacking)} of {number} parameters of the optimizer, but not {names}"
    return checked(TRAINING, Requested(_WANTED, None), observed, is_kept=True, kept=what, broken="")


def _in_evaluation(run: ScriptRun) -> Iterator[Check]:
    """Training in evaluation mode, if the model has modules for which that makes a difference."""
    one: EngineTrace = run.ranks[0]
    steps = [step for step in one.in_evaluation if step <= run.steps]
    if not steps or not one.idle:
        return
    when = "every step" if len(steps) == run.steps else f"step {', '.join(map(str, steps))}"
    yield Check(
        TRAINING, "warn", None, "training mode", "evaluation mode", None,
        f"the model is in evaluation mode in {when}, so it trains without {' and '.join(one.idle)}", _MODE,
    )  # fmt: skip


def _divided_again(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """A loss that is divided by the micro steps more than once in every micro step, on every rank."""
    times = {times for one in run.ranks for times in one.divided_again}
    if len(times) != 1 or 0 in times or not all(one.divided_again for one in run.ranks):
        return
    windows = run.engine.accumulation_steps
    who = "the Trainer" if run.ranks[0].stack == "trainer" else "`engine.backward`"
    who = "`accelerator.backward`" if run.ranks[0].stack == "accelerate" else who
    (more,) = times
    yield Check(
        TRAINING, "fail", expectation.key("gradient_accumulation_steps"), 1 / windows, 1 / windows ** (more + 1), None,
        f"the script divides the loss by the {windows} micro steps of a step, and {who} divides it again: gradients "
        f"are {windows**more:,} times smaller than their average",
        "Remove the division from the script.",
    )  # fmt: skip


def _without_gradient(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """Parameters of the optimizer that never get a gradient: frozen too late, or cut off from the loss."""
    lacking = run.without_gradient
    if not lacking:
        return
    frozen = lacking & run.on_every_rank("frozen_later")
    changed = {name for one in run.ranks for name in one.changed_anyway}
    has_masters = bool(max(run.held("master weights"), default=0))
    key = expectation.stage.key if expectation.stage is not None else None
    wanted = "gradients of all parameters of the optimizer"
    number = len(frozen)
    if frozen and (has_masters or frozen & changed):
        does = "changes them by weight decay or momentum" if frozen & changed else ""
        keeps = "keeps their fp32 weights and states" if has_masters else ""
        yield Check(
            TRAINING, "warn", key, wanted, f"{number} are frozen", None,
            f"the script freezes {number} parameter{'s' * (number != 1)} after the engine is made ({_firsts(frozen)}): "
            f"the optimizer {' and '.join(filter(None, (keeps, does)))}",
            _BEFORE,
        )  # fmt: skip
    unused = lacking - frozen
    sizes = {one.name: one.elements for one in run.train[0].parameters if one.is_trainable}
    share = sum(sizes[name] for name in unused if name in sizes) / max(1, sum(sizes.values()))
    cut_off = unused & run.on_every_rank("cut_off")
    if not cut_off and share < _MOST and not unused & changed:
        return
    number = len(unused)
    why = ": their modules compute with gradients switched off" if cut_off else ""
    moves = f"{'; ' if why else ': '}the optimizer changes them all the same" if unused & changed else ""
    yield Check(
        TRAINING, "warn", key, wanted, f"{number} get none", None,
        f"{number} of {len(run.trained_names)} parameters of the optimizer get no gradient in {run.steps} steps "
        f"({_firsts(unused)}){why}{moves}",
        "Freeze them before the engine is made, or compute the loss with them: `torch.no_grad` and `detach` cut them "
        "off.",
    )  # fmt: skip


def _firsts(names: set[str] | list[str]) -> str:
    first = sorted(names)[:3]
    return ", ".join(first) + (", ..." if len(names) > len(first) else "")
