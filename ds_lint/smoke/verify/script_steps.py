"""The batch of a step of the user's own script, and whether the ranks train on different data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.semantics.batch import BATCH_SIZES
from ds_lint.smoke.driver.expectation import Batch, Expectation, Requested
from ds_lint.smoke.verify import steps
from ds_lint.smoke.verify.check import Runs, checked, skipped, spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check


def batch(expectation: Expectation, runs: Runs) -> Iterator[Check]:
    """The batch sizes with which the engine counts, and the backward passes that a step really takes.

    The rows of what the model gets are told and not compared: packed and paired samples have other numbers of rows.
    At the end of an epoch Accelerate and the Trainer step with the micro steps that are left.
    """
    wanted = expectation.batch(runs.data_parallel)
    if wanted is None:
        return
    engine = runs.engine
    observed = Batch(engine.train_batch_size, engine.micro_batch_size, engine.accumulation_steps)
    passes = {made for one in runs.script for made in one.micro_steps}
    keys = [key for name in BATCH_SIZES if (key := expectation.key(name)) is not None]
    rows = sorted({rows for one in runs.script for rows in one.rows if rows})
    seen = f"; the model gets tensors of {_listed(rows)} rows" if rows and rows != [observed.micro] else ""
    is_counted = bool(passes) and not runs.is_pipeline
    is_kept = observed == wanted and (not is_counted or max(passes) == observed.accumulation_steps)
    if is_counted and min(passes) < max(passes):
        seen += f"; some steps take {_listed(sorted(passes - {max(passes)}))} micro steps, as at the end of an epoch"
    yield checked(
        "batch",
        Requested(wanted.train, keys[0] if keys else None),
        observed.train,
        is_kept,
        unit="samples a step",
        kept=f"a step takes {observed.in_words(runs.data_parallel)} samples{seen}",
        broken=f"a step takes {observed.in_words(runs.data_parallel)} samples, but the config asks for "
        f"{wanted.in_words(runs.data_parallel)}"
        if observed != wanted
        else f"the script makes {_listed(sorted(passes))} backward passes for a step, but the config asks for "
        f"{observed.accumulation_steps} micro steps",
        help=next(
            filter(None, (spelling(expectation, Requested(None, expectation.key(name))) for name in BATCH_SIZES)), ""
        ),
    )


def learning_rates(expectation: Expectation, runs: Runs) -> Iterator[Check]:
    """The learning rates, if it is the config or the Trainer that sets them."""
    one, key = runs.script[0], expectation.key("scheduler") or expectation.key("optimizer", "params", "lr")
    scheduler = one.scheduler.rpartition(".")[2]
    is_trainer = expectation.config.stack == "trainer"
    if not is_trainer and expectation.schedule is None and expectation.optimizer is None:
        return  # the config asks for none
    if not is_trainer and expectation.schedule is None and scheduler:
        yield skipped("learning-rate", key, f"the {scheduler} of the script sets the learning rates")
    elif one.own_rates is not None:
        yield skipped("learning-rate", key, f"{one.own_rates}, so the learning rates need not be those of the config")
    else:
        yield from steps.learning_rates(expectation, runs)


def samples(_expectation: Expectation, runs: Runs) -> Iterator[Check]:
    """Whether two ranks get the same inputs in a micro step."""
    if runs.world_size == 1 or runs.data_parallel != runs.world_size:
        yield skipped("samples", None, "the ranks do not all train on samples of their own")
        return
    if not any(digest for one in runs.script for step in one.batches for digest in step):
        yield skipped("samples", None, "the engine itself gets no tensors as inputs")
        return
    same = _same(runs)
    yield checked(
        "samples",
        Requested("other samples on each rank", None),
        same or "other samples on each rank",
        same is None,
        bad="warn",
        kept="no two ranks train on the same inputs in a micro step",
        broken=f"{same} train on the same inputs in every step: the batch has fewer samples than it counts",
        help="Give each rank a part of the data of its own, with a DistributedSampler or `accelerator.prepare`.",
    )


def _same(runs: Runs) -> str | None:
    """Ranks whose inputs are equal in each micro step, in words; None if there are none."""
    by_rank = [[digest for step in one.batches for digest in step] for one in runs.script]
    for first, one in enumerate(by_rank):
        for second in range(first + 1, len(by_rank)):
            if one and any(one) and one == by_rank[second]:
                return f"ranks {first} and {second}"
    return None


def _listed(numbers: list[int]) -> str:
    return " or ".join(f"{number:,}" for number in numbers)
