"""Gradient checkpointing of a frozen model at stage 3: the behaviour of older releases that the oracle cannot show."""

from __future__ import annotations

import json

import pytest
from linted import lint_bytes

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from installed import INSTALLED, knowledge
from training import train

from ds_lint.facts import Sources
from ds_lint.facts.readers import gather

pytestmark = pytest.mark.fidelity

CONFIG = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_clipping": "auto",
    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
}


@pytest.mark.parametrize("is_reentrant", [False, True])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_recomputation_with_frozen_parameters(is_reentrant, is_frozen):
    arguments = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": is_reentrant}}
    loses_them = knowledge().does("recomputation-loses-frozen-parameters") and is_frozen and not is_reentrant
    run = train(CONFIG, {**arguments, "save_strategy": "steps", "save_steps": 4}, frozen=is_frozen)
    assert ("CheckpointError" in str(run.error)) == loses_them
    said = {**arguments, "use_peft": True} if is_frozen else arguments
    report = lint_bytes(
        json.dumps(CONFIG).encode(), "config.json", target=INSTALLED, facts=gather(Sources(trainer_args=said))
    )
    assert any(finding.name == "frozen-parameters-recomputed" for finding in report.findings) == loses_them
