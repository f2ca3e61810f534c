"""What ds-lint says about batch sizes if it does not know the world size."""

from __future__ import annotations

import json

import pytest
from linted import lint_bytes

from ds_lint.facts import Facts


def said(train=None, micro=None, steps=None, world_size=None, **others):
    sizes = {
        "train_batch_size": train,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
    }
    config = {name: size for name, size in sizes.items() if size is not None} | others
    report = lint_bytes(json.dumps(config).encode(), "d.json", stack="deepspeed", facts=Facts(world_size=world_size))
    return [one.message for one in report.findings if one.code == "DS512"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((12, None, 5), "no world size satisfies `train_batch_size` 12 = micro batch x 5 accumulation steps x ranks"),
        ((12, 5), "no world size satisfies `train_batch_size` 12 = 5 per GPU x accumulation steps x ranks"),
        ((12, 2, 5), "no world size satisfies `train_batch_size` 12 = 2 per GPU x 5 accumulation steps x ranks"),
        ((3, 4), "no world size satisfies `train_batch_size` 3 = 4 per GPU x accumulation steps x ranks"),
        ((None, -1), "`train_micro_batch_size_per_gpu` is -1, but DeepSpeed needs a value above 0"),
        ((1.5,), "`train_batch_size` is 1.5, but DeepSpeed needs a whole number that it can split over the ranks"),
        (
            (float("inf"), 2, 1),
            "no world size satisfies `train_batch_size` inf = 2 per GPU x 1 accumulation step x ranks",
        ),
    ],
)
def test_no_number_of_ranks_is_made_up(sizes, message):
    assert said(*sizes) == [message]


def test_ranks_that_share_a_sequence_are_told():
    (message,) = said(12, 5, sequence_parallel_size=2)
    assert message.endswith("12 = 5 per GPU x accumulation steps x ranks (2 ranks share a sequence and count as one)")


def test_a_number_of_ranks_that_is_known_is_computed_with():
    assert said(12, None, 5, 2) == ["`train_batch_size` is 12, but 1 per GPU x 5 accumulation steps x 2 ranks = 10"]


@pytest.mark.parametrize("sizes", [(12, 2, 3), (12, 4), (12, None, 4), (12,), (None, 4, 2)])
def test_what_some_number_of_ranks_fits_is_no_finding(sizes):
    assert said(*sizes) == []


@pytest.mark.parametrize(
    ("micro", "steps", "is_rejected"),
    [
        (3_000_000_000, '"8"', True),
        (3_000_000_000, "[1]", True),
        (3_000_000_000, "NaN", True),
        (3_000_000_000, "-0.0", True),
        (3_000_000_000, "1e400", False),
        (3_000_000_000, "1" * 400, False),
        (10**400, "1" * 400, False),
        (10**400, "1e400", True),
        (10**400, "0.5", True),
    ],
)
def test_sizes_that_are_no_numbers_or_too_large_to_compute_with(micro, steps, is_rejected):
    """Python multiplies a text, too, and makes gigabytes of it; DeepSpeed compares that with 0, and raises."""
    text = f'{{"train_micro_batch_size_per_gpu": {micro}, "gradient_accumulation_steps": {steps}}}'
    report = lint_bytes(text.encode(), "ds.json", stack="deepspeed", facts=Facts(world_size=8))
    assert ("DS512" in {one.code for one in report.findings}) == is_rejected
