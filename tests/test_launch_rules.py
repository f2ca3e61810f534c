"""Group sizes that do not divide the world size, in releases that use them and in releases that do not."""

from __future__ import annotations

import json

import pytest
from linted import lint_bytes

from ds_lint.facts import Facts
from ds_lint.knowledge.keys import Target

SIZES = {"train_micro_batch_size_per_gpu": 1, "sequence_parallel_size": 3}


@pytest.mark.parametrize(
    ("deepspeed", "stack", "is_found"),
    [
        ("0.16.9", "deepspeed", False),  # reads the size only for a mesh
        ("0.16.9", "trainer", False),
        ("0.18.5", "deepspeed", False),  # looks for it in a dict only, and gets a path
        ("0.18.5", "trainer", True),
        ("0.18.6", "deepspeed", True),
    ],
)
def test_a_sequence_parallel_size_divides_the_world_size_of_releases_that_read_it(deepspeed, stack, is_found):
    target = Target(deepspeed=deepspeed)
    text = json.dumps(SIZES).encode()
    report = lint_bytes(text, "d.json", target=target, stack=stack, facts=Facts(world_size=8))
    assert ("DS807" in {finding.code for finding in report.findings}) == is_found
