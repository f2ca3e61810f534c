"""A run keeps batch sizes that fit its ranks; tests/fidelity/test_batch_sizes.py shows which DeepSpeed takes."""

from __future__ import annotations

import pytest
from linted import config_of
from newest import NEWEST

from ds_lint.knowledge.keys import Target
from ds_lint.smoke.expected.adaptation import adapt
from ds_lint.source import documents

TENSOR = {"tensor_parallel": {"autotp_size": 2}}
SEQUENCE = {"sequence_parallel_size": 2}


@pytest.mark.parametrize(
    ("release", "parallel", "train"),
    [
        (NEWEST["deepspeed"], {}, 8),
        (NEWEST["deepspeed"], TENSOR, 8),
        ("0.16.9", SEQUENCE, 8),
        ("0.16.9", {**SEQUENCE, "data_parallel_size": 1}, 4),
        (NEWEST["deepspeed"], SEQUENCE, 4),
    ],
)
def test_sizes_that_fit_two_ranks_are_kept(release, parallel, train, tmp_path):
    sizes = {"train_batch_size": train, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}
    document = documents.from_dict({**sizes, **parallel})
    config = config_of(document, target=Target(deepspeed=release), stack="deepspeed")
    assert adapt(config, str(tmp_path), ranks=2, mode="cpu", steps=2).edits == []
