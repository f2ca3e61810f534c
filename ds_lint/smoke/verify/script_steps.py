"""The batch of a step of the user's own script, and whether the ranks train on different data."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.semantics.batch import BATCH_SIZES, STEPS
from ds_lint.smoke.expected.expectation import Batch, Expectation, Requested
from ds_lint.smoke.verify.arithmetic import AVERAGING
from ds_lint.smoke.verify.check import ScriptRun, checked, skipped, spelling

if TYPE_CHECKING:
    from collections.abc import Iterator


WITHOUT_BACKWARD = "the script does not call `engine.backward` before `engine.step`"
# Source: `_backward_prologue` in deepspeed/runtime/engine.py, which 0.18.2 calls in `engine.backward` only.
CALL_BACKWARD = (
    "Call `engine.backward(loss)`. With ZeRO, DeepSpeed sees `loss.backward()` from 0.18.3 on, if `loss` is computed "
    "from what `engine(...)` returns."
)
# Source: `DeepSpeedEngineWrapper.backward` in accelerate/utils/deepspeed.py.
_ACCUMULATE = (
    "Compute the loss and call `accelerator.backward` inside `with accelerator.accumulate(model):`: outside it, "
    "Accelerate makes a step after each backward pass."
)
_CHANCE = 0.5  # of the micro steps, the last ones: inputs of few values or a small data set may repeat in some


def batch(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """The batch sizes with which the engine counts, and the backward passes that a step really takes.

    The rows of what the model gets are reported and not compared: packed and paired samples have other numbers of rows.
    At the end of an epoch Accelerate and the Trainer step with the micro steps that are left. Several backward passes
    in the last micro step may be several losses of the same samples, or a batch in parts.
    """
    wanted = expectation.counted_batch(run.ranks[0].counted_ranks)
    if wanted is None:
        return
    engine = run.engine
    observed = Batch(engine.train_batch_size, engine.micro_batch_size, engine.accumulation_steps)
    passes = sorted({made for one in run.ranks for made in one.micro_steps})
    if observed == wanted and passes and not run.is_pipeline:
        other = _other_passes(expectation, run, passes)
        if other is not None:
            yield other
            return
    rows = sorted({rows for one in run.ranks for rows in one.rows if rows})
    seen = f"; the model gets tensors of {_listed(rows)} rows" if rows and rows != [observed.micro] else ""
    if len(passes) > 1 and not run.is_pipeline:
        seen += f"; some steps take {_listed(passes[:-1])} micro steps, as at the end of an epoch"
    keys = _keys(expectation)
    yield checked(
        "batch",
        Requested(wanted.train, keys[0] if keys else None),
        observed.train,
        observed == wanted,
        unit="samples a step",
        kept=f"a step takes {_in_words(observed, run)} samples{seen}",
        broken=f"a step takes {_in_words(observed, run)} samples, but the config asks for {_in_words(wanted, run)}",
        help=next(filter(None, (spelling(expectation, Requested(None, key)) for key in keys)), ""),
    )


def _other_passes(expectation: Expectation, run: ScriptRun, passes: list[int]) -> Check | None:
    """Backward passes of a step that are not its micro steps; None if one step at least has all of them."""
    steps, most = run.engine.accumulation_steps, passes[-1]
    key = expectation.key(STEPS) or next(iter(_keys(expectation)), None)
    if run.lacks_backward:
        message = f"{WITHOUT_BACKWARD}, so DeepSpeed does not average its gradients"
        return Check("batch", "fail", key, steps, 0, None, message, CALL_BACKWARD)
    if most == steps:
        return None
    added = max((last for one in run.ranks for last in one.last_micro_steps), default=1)
    if most == steps + added - 1 and added > 1:
        if run.recomputed is not None and AVERAGING in run.recomputed.mismatches:
            return Check(
                "batch", "warn", key, steps, most, None,
                f"the script calls `engine.backward` {added:,} times before `engine.step`, but at stage "
                f"{run.engine.stage} their gradients are not added up",
                "Add up the losses, and call `engine.backward` once.",
            )  # fmt: skip
        return Check(
            "batch", "warn", key, steps, most, None,
            f"the script calls `engine.backward` {added:,} times before `engine.step`: their gradients are added up in "
            "one micro step",
            "Right for several losses of the same samples. If they are parts of a batch, set "
            f"`gradient_accumulation_steps` to {most:,} and call `engine.step` after each `engine.backward`.",
        )  # fmt: skip
    return Check(
        "batch", "fail", key, steps, most, None,
        f"the script makes {_listed(passes)} backward pass{'es' * (passes != [1])} for a step, but the config asks for "
        f"{steps} micro step{'s' * (steps != 1)}",
        _ACCUMULATE if run.ranks[0].stack == "accelerate" and passes == [1] else "",
    )  # fmt: skip


def _keys(expectation: Expectation) -> list[str]:
    """The batch sizes that the config has."""
    return [key for name in BATCH_SIZES if (key := expectation.key(name)) is not None]


def _in_words(sizes: Batch, run: ScriptRun) -> str:
    """The samples of a step; ranks that share the tensors of a model train on the same ones."""
    ranks_of_samples = max(1, run.ranks[0].multiplied_by // run.data_parallel)
    return sizes._replace(train=sizes.train // ranks_of_samples).in_words(run.data_parallel)


def samples(_expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """Whether two ranks get the same inputs in every micro step, or in all from one on."""
    yield from samples_of(run)


def samples_of(run: ScriptRun) -> Iterator[Check]:
    """The same of any run of a script."""
    if run.world_size == 1 or run.data_parallel != run.world_size:
        yield skipped("samples", None, "the ranks do not all train on samples of their own")
        return
    if not any(digest for one in run.ranks for step in one.batches for digest in step):
        yield skipped("samples", None, "the engine itself gets no tensors as inputs")
        return
    same = _same(run)
    yield checked(
        "samples",
        Requested("other samples on each rank", None),
        same or "no two ranks with the same inputs",
        same is None,
        bad="warn",
        kept="no two ranks train on the same inputs in a micro step",
        broken=f"{same}: the batch has fewer samples than it counts",
        help="Give each rank a part of the data of its own, with a DistributedSampler or `accelerator.prepare`.",
    )


def _same(run: ScriptRun) -> str | None:
    """Ranks whose inputs are equal from a micro step on, in words; None if there are none."""
    by_rank = [[digest for step in one.batches for digest in step] for one in run.ranks]
    for (first, one), (second, other) in itertools.combinations(enumerate(by_rank), 2):
        pairs = list(zip(one, other, strict=False))
        equal = len(list(itertools.takewhile(lambda pair: pair[0] and pair[0] == pair[1], reversed(pairs))))
        if equal and equal == len(pairs):
            return f"ranks {first} and {second} train on the same inputs in every step"
        if equal > 1 and equal >= _CHANCE * len(pairs):
            start = len(pairs) - equal + 1
            return f"ranks {first} and {second} train on the same inputs from micro step {start} on"
    return None


def _listed(numbers: list[int]) -> str:
    return " or ".join(f"{number:,}" for number in numbers)
