"""What ``ds-lint memory`` says, against runs on a GPU: every peak of tensors that was measured, in every phase."""

from __future__ import annotations

import json

import pytest

from tools.gpu.page import RESULTS
from tools.gpu.parts import memory

FILES = sorted(RESULTS.glob("*/memory.json"))
MEASURED = [(path, one) for path in FILES for one in memory.in_order(json.loads(path.read_text())["items"])]
RUNS = [pytest.param(one, id=f"{path.parent.name}, {one['name']}") for path, one in MEASURED if "observed" in one]


@pytest.mark.parametrize("run", RUNS)
def test_tensors_are_what_is_estimated(run):
    assert all(run["tensors_within"].values()), run["tensors_within"]
    assert run["within"]["step"]


@pytest.mark.parametrize("run", RUNS)
def test_the_likely_peak_is_near(run):
    for phase, readings in memory.by_estimate(run["observed"]).items():
        tensors = max(one["peak_allocated"] for one in readings) - (
            run["workspaces"] if phase != "initialization" else 0
        )
        assert run["estimate"][phase]["tensors"]["likely"] == pytest.approx(tensors, rel=0.05)


def test_there_are_runs_of_every_stage():
    assert {param.values[0]["setup"]["stage"] for param in RUNS} == {0, 1, 2, 3}
