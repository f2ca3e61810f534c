"""What is said of a run that only evaluates is what the real Trainer does: it has no optimizer and no schedule."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

from installed import INSTALLED, measured_with_the_newest
from linted import lint_document
from ranks import run

from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.source import documents

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

STAGE_3 = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
BASE = {"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", "zero_optimization": STAGE_3}
AUTO = {"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
DECAY = {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto", "total_num_steps": 8}}
OFFLOAD = {**STAGE_3, "offload_optimizer": {"device": "cpu"}}
CASES = {
    "plain": (BASE, {}),
    "optimizer and schedule": ({**BASE, **AUTO, "scheduler": {"type": "WarmupLR", "params": {}}}, {}),
    "another schedule": ({**BASE, **AUTO, "scheduler": {"type": "WarmupLR", "params": {}}}, {"lr_scheduler_type": "cosine"}),
    "no such optimizer": ({**BASE, "optimizer": {"type": "Nope", "params": {}}}, {}),
    "no such parameter": ({**BASE, "optimizer": {"type": "AdamW", "params": {"foo": 1}}}, {}),
    "no such schedule": ({**BASE, **AUTO, "scheduler": {"type": "Nope", "params": {}}}, {}),
    "one bit": ({**BASE, "optimizer": {"type": "OneBitAdam", "params": {"lr": "auto"}}}, {}),
    "own optimizer with offload": ({**BASE, "zero_optimization": OFFLOAD}, {"optim": "adafactor"}),
    "states on NVMe": ({**BASE, "zero_optimization": {**STAGE_3, "offload_optimizer": {"device": "nvme"}}}, {}),
    "polynomial": (BASE, {"lr_scheduler_type": "polynomial"}),
    "prescaled gradients": ({**BASE, "prescale_gradients": True}, {}),
    "16-bit master weights": ({**BASE, "bf16": {"enabled": True, "bf16_master_weights_and_grads": True}}, {"bf16": True}),
    "another learning rate": ({**BASE, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}, {}),
    "steps of the training": ({**BASE, **AUTO, "scheduler": DECAY}, {"max_steps": 8}),
    "another clipping": ({**BASE, "gradient_clipping": 0.3}, {}),
    "stage 2": ({**BASE, "zero_optimization": {"stage": 2}}, {}),
    "no section": ({**BASE, "zero_optimization": {"stage": 0}}, {}),
}  # fmt: skip


@pytest.fixture(scope="module")
def real():
    done = run("evaluation", json.dumps(CASES), ranks=1)
    assert done.is_complete, "\n".join(done.errors)
    return done.answers[0]


@pytest.mark.parametrize("name", CASES)
def test_an_evaluation_is_refused_where_a_finding_says(name, real):
    config, arguments = CASES[name]
    report = lint_document(
        documents.from_bytes(json.dumps(config).encode(), "config.json"),
        stack="trainer",
        target=INSTALLED,
        facts=gather(Sources(trainer_args={**arguments, "do_eval": True})),
    )
    codes = {one.code for one in report.findings}
    error = real[name].get("error", "")
    raises = "DS641" if "ZeRO inference" in error else "DS610" if "mismatch" in error else error
    assert codes == ({raises} if raises else set())
    assert error or real[name]["optimizer"] == "DeepSpeedZeRoOffload"  # which is none
