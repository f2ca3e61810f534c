"""The samples of all steps of all ranks, compared with the data of the run, which are known to the last token.

Each sample is there for one micro step of one rank. The order in which a sampler of the Trainer or of Accelerate draws
them is not known, but nothing comes twice.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.rank import data, training_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.smoke.rank.passes import WindowOfRank
    from ds_lint.smoke.records.job import Job, ReferencePlan

_BITS = 48  # that tell samples apart
_KEYS = ("input_ids", "attention_mask", "labels")
_MOST = 4096  # samples that are made again; of more, only that none comes twice is known


def wrong_samples(job: Job, plan: ReferencePlan, ranks: Sequence[Sequence[WindowOfRank]]) -> str | None:
    """What is wrong with the samples of the run, in words; None if nothing is."""
    given = ranks[0][0].micro_steps[0].inputs if ranks[0] and ranks[0][0].micro_steps else {}
    keys = tuple(key for key in _KEYS if key in given)  # label smoothing keeps the labels from the model
    there = _there(job, plan, keys)
    may_repeat = _may_repeat(training_model.recipe_of(job))
    drawn: Counter[bytes] = Counter()
    first: dict[bytes, tuple[int, int]] = {}  # by sample, the rank and the step that had it first
    for number in range(min(map(len, ranks))):
        for rank, steps in enumerate(ranks):
            for sample in _samples(steps[number], keys):
                drawn[sample] += 1
                before, at = first.setdefault(sample, (rank, number))
                if there is not None and sample not in there:
                    return f"rank {rank} trains in step {number + 1} on a sample that the data do not have for it"
                if drawn[sample] == 1 or may_repeat:
                    continue
                if at < number:
                    who = f"rank {rank} trains" if before == rank else f"rank {rank} trains, as rank {before} did,"
                    return f"{who} in step {number + 1} on a sample of step {at + 1} again"
                if before == rank:
                    return f"rank {rank} trains on a sample twice in step {number + 1}"
                return f"ranks {before} and {rank} train on the same samples in a step"
    return None


def _there(job: Job, plan: ReferencePlan, keys: tuple[str, ...]) -> set[bytes] | None:
    """The samples of the data; None if they are not made again."""
    recipe, ranks = training_model.recipe_of(job), job.world_size
    places = (job.steps + job.steps_after + 1) * plan.windows
    if not 0 < places * plan.micro_batch * ranks <= _MOST:
        return None
    if job.stack == "deepspeed":
        batches = (data.batch(recipe, plan.micro_batch, at, rank) for at in range(places) for rank in range(ranks))
        return {sample for one in batches for sample in _rows(one, keys)}
    sequences = data.Tokens(recipe, places * plan.micro_batch * ranks)
    every = ({key: value[None] for key, value in sequences[at].items()} for at in range(len(sequences)))
    return {sample for one in every for sample in _rows(one, keys)}


def _may_repeat(recipe: training_model.Recipe) -> bool:
    """Whether chance may make two equal samples, as of a model with positions for a few tokens."""
    tokens = recipe.vocabulary - len(recipe.special_tokens)
    return recipe.sequence_length * math.log2(max(2, tokens)) < _BITS


def _samples(step: WindowOfRank, keys: tuple[str, ...]) -> Iterator[bytes]:
    for micro_step in step.micro_steps:
        yield from _rows(micro_step.inputs, keys)


def _rows(batch: dict[str, Any], keys: tuple[str, ...]) -> Iterator[bytes]:
    """A digest of each sample of a batch: of its tokens, and of what is to be predicted of them."""
    tensors = [batch[key] for key in keys if torch.is_tensor(batch.get(key))]
    for row in zip(*tensors, strict=True):
        mark = hashlib.sha1(usedforsecurity=False)
        for one in row:
            mark.update(one.contiguous().numpy().tobytes())
        yield mark.digest()
