"""The launcher of DeepSpeed on a machine without the GPUs that a command names."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ds_lint.smoke.probe import cpu


@pytest.mark.parametrize(
    ("inclusion", "slots"),
    [("localhost:0,1", 2), ("localhost:1,3", 4), ("localhost:0", 1), ("", 1), ("worker-1:0,1", 1), ("localhost", 1)],
)
def test_the_gpus_that_a_command_names_are_slots(inclusion, slots):
    """As CUDA_VISIBLE_DEVICES does: DeepSpeed makes it an inclusion."""
    runner = SimpleNamespace(parse_inclusion_exclusion=lambda pool, *_: pool)
    cpu._of_launcher(runner)
    assert runner.parse_inclusion_exclusion({"localhost": 1}, inclusion, "") == {"localhost": slots}
