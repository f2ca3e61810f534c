"""How many buffers Adam needs on NVMe: a model whose partitions are large enough to be swapped is trained with fewer.

A partition below 1 MB stays in memory, so the oracle's model is made larger here.
"""

from __future__ import annotations

import pytest
from linted import lint_dict

pytest.importorskip("deepspeed")

import oracle
from installed import INSTALLED, measured_with_the_newest

from ds_lint.facts import Facts

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

SEVERAL = 1  # a sub_group_size with which each parameter is a sub-group of its own


def config(count: int, **offload):
    section = {"device": "nvme", "nvme_path": "swap", "buffer_count": count, **offload}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": {"stage": 3, "sub_group_size": SEVERAL, "offload_optimizer": section},
    }


@pytest.fixture(scope="module")
def running():
    with pytest.MonkeyPatch.context() as patch, oracle.Oracle() as running:
        patch.setattr(oracle, "HIDDEN", 640)  # 640 * 640 * 4 bytes
        yield running


@pytest.mark.parametrize(
    ("count", "pipeline", "runs"),
    [
        (3, None, False),
        (4, None, True),
        (7, "pipeline_read", False),
        (8, "pipeline_read", True),
        (7, "pipeline_write", False),
        (8, "pipeline_write", True),
    ],
)
def test_buffers_of_adam(running, count, pipeline, runs):
    given = config(count, **({pipeline: True} if pipeline else {}))
    verdict = running.verdict(given, steps=3)
    assert (verdict.rejected_at is None) == runs, verdict.error
    assert runs or "swap_tensor" in verdict.facts["where"]
    found = lint_dict(given, target=INSTALLED, stack="deepspeed", facts=Facts(world_size=1)).findings
    assert runs == ("DS361" not in {finding.code for finding in found})
