"""The training run with whichever DeepSpeed is installed: a good config passes, and a mistyped section is caught."""

import pytest

pytest.importorskip("deepspeed")

from installed import knowledge

pytestmark = [
    pytest.mark.fidelity,
    pytest.mark.skipif(knowledge().is_newest, reason="of the newest, test_smoke_catches.py shows the same"),
]

GOOD = {
    "train_micro_batch_size_per_gpu": 2,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
}


@pytest.mark.parametrize("stack", ["deepspeed", "trainer"])
def test_a_good_config_passes(prove, stack):
    verdict = prove(GOOD, stack=stack)
    assert [check for check in verdict.checks if check.status not in ("pass", "skip")] == []
    assert {"parameters", "optimizer-states", "resume", "export", "recovery"} <= {check.id for check in verdict.checks}


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_a_good_config_passes_at_every_stage(prove, stage):
    verdict = prove(GOOD | {"zero_optimization": {"stage": stage}})
    assert [check for check in verdict.checks if check.status not in ("pass", "skip")] == []


def test_a_mistyped_section_is_caught(prove):
    config = {name: value for name, value in GOOD.items() if name != "zero_optimization"}
    verdict = prove(config | {"zero_optimizations": {"stage": 2}})
    assert {check.id for check in verdict.checks if check.status == "fail"} >= {"stage", "gradients"}
