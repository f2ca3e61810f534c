"""What is said of batch sizes where nobody knows how many ranks there are."""

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
        ((12, None, 5), "no number of ranks makes `train_batch_size` 12 out of 5 accumulation steps"),
        ((12, 5), "no number of ranks makes `train_batch_size` 12 out of a micro batch of 5"),
        (
            (12, 2, 5),
            "no number of ranks makes `train_batch_size` 12 out of a micro batch of 2 x 5 accumulation steps",
        ),
        ((3, 4), "no number of ranks makes `train_batch_size` 3 out of a micro batch of 4"),
        ((None, -1), "`train_micro_batch_size_per_gpu` is -1, and DeepSpeed needs more than 0"),
        ((1.5,), "`train_batch_size` 1.5 is no whole number, and DeepSpeed deals it out to ranks"),
        (
            (float("inf"), 2, 1),
            "no number of ranks makes `train_batch_size` inf out of a micro batch of 2 x 1 accumulation step",
        ),
    ],
)
def test_no_number_of_ranks_is_made_up(sizes, message):
    assert said(*sizes) == [message]


def test_ranks_that_share_a_sequence_are_told():
    (message,) = said(12, 5, sequence_parallel_size=2)
    assert message.endswith("out of a micro batch of 5: 2 ranks share a sequence and count as one")


def test_a_number_of_ranks_that_is_known_is_computed_with():
    assert said(12, None, 5, 2) == ["train_batch_size 12 is not 1 micro batch x 5 accumulation steps x 2 ranks"]


@pytest.mark.parametrize("sizes", [(12, 2, 3), (12, 4), (12, None, 4), (12,), (None, 4, 2)])
def test_what_some_number_of_ranks_fits_is_no_finding(sizes):
    assert said(*sizes) == []
