"""What ``ds-lint memory`` says, against runs on a GPU: every peak of tensors that was measured, in every phase."""

from __future__ import annotations

import json

import pytest

from tools.gpu.page import RESULTS
from tools.gpu.parts import memory

FILES = sorted(RESULTS.glob("*/memory.json"))
MEASURED = [(path, one) for path in FILES for one in memory.in_order(json.loads(path.read_text())["items"])]
# What a GPU showed and the estimate does not explain yet: backward passes of many tokens hold 5 to 16% less than is
# likely, stage 1 holds as much as stage 2 where the backward pass, not the optimizer, makes the peak, and with the
# optimizer on the CPU the step holds 10 to 20% less at stage 3, and 6% more at stage 2, than is likely.
OFF_BY_MORE_THAN_5_PERCENT = {
    "llama 0.35B, stage 3, 4 x 2048, bf16, sdpa",
    "llama 7B, stage 3, 1 x 2048, bf16, gradient checkpointing, sdpa, LoRA",
    "llama 0.1B, stage 1, 1 x 512, bf16, sdpa",
    "llama 0.1B, stage 3, 1 x 512, fp32, sdpa",
    "llama 0.1B, stage 1, 1 x 512, bf16, optimizer on the CPU, sdpa",
    "qwen2 0.5B, stage 3, 2 x 2048, bf16, gradient checkpointing, sdpa",
    "llama 1.1B, stage 3, 2 x 2048, bf16, sdpa",
    "llama 1.1B, stage 3, 1 x 512, bf16, optimizer on the CPU, sdpa",
    "llama 3B, stage 2, 1 x 2048, bf16, optimizer on the CPU, gradient checkpointing, sdpa",
    "llama 3B, stage 3, 1 x 2048, bf16, optimizer and parameters on the CPU, gradient checkpointing, sdpa",
}
OUTSIDE_THE_BAND = {  # in tensors
    "llama 7B, stage 3, 1 x 2048, bf16, gradient checkpointing, sdpa, LoRA",
}


def _runs(unexplained):
    """Every run; one that is not explained has to fail, so that what explains it takes it from the table."""
    return [
        pytest.param(
            one,
            id=f"{path.parent.name}, {one['name']}",
            marks=[pytest.mark.xfail(strict=True)] * (one["name"] in unexplained),
        )
        for path, one in MEASURED
        if "observed" in one
    ]


@pytest.mark.parametrize("run", _runs(OUTSIDE_THE_BAND))
def test_tensors_are_what_is_estimated(run):
    assert all(run["tensors_within"].values()), run["tensors_within"]
    assert run["within"]["step"]


@pytest.mark.parametrize("run", _runs(OFF_BY_MORE_THAN_5_PERCENT))
def test_the_likely_peak_is_near(run):
    for phase, readings in memory.by_estimate(run["observed"]).items():
        tensors = max(one["peak_allocated"] for one in readings) - (
            run["workspaces"] if phase != "initialization" else 0
        )
        assert run["estimate"][phase]["tensors"]["likely"] == pytest.approx(tensors, rel=0.05)


def test_there_are_runs_of_every_stage():
    assert {one["setup"]["stage"] for _, one in MEASURED if "observed" in one} == {0, 1, 2, 3}
