"""``generate`` under ZeRO-3: it ends on ranks that stop at different lengths, with the tokens of the whole model."""

from __future__ import annotations

import os

import pytest
from command_line import ROOT
from installed import measured_with_the_newest

from ds_lint.smoke.small_run.options import RunOptions

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

MODELS = os.path.join(ROOT, "tests", "models")
GATHERED = {"stage3_gather_16bit_weights_on_model_save": True}
BASE = {
    "train_micro_batch_size_per_gpu": 2,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
}
AUTO = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}}
CONFIGS = {"deepspeed": BASE, "trainer": AUTO, "accelerate": AUTO}
ARGUMENTS = {"trainer": {"bf16": True}}


def zero(stage, **more):
    return {"zero_optimization": {"stage": stage, **GATHERED, **more}}


def of_generate(verdict):
    return [check for check in verdict.checks if check.id == "generate"]


@pytest.mark.parametrize(
    ("stack", "ranks"),
    [
        ("deepspeed", 3), ("trainer", 2),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in [("deepspeed", 2), ("trainer", 3), ("accelerate", 2), ("accelerate", 3)]
        ),
    ],
)  # fmt: skip
def test_ranks_that_stop_at_different_lengths_all_end(prove, stack, ranks):
    verdict = prove(
        {**CONFIGS[stack], **zero(3)}, stack=stack, arguments=ARGUMENTS.get(stack), options=RunOptions(ranks=ranks)
    )
    assert verdict.status == "pass", verdict.error
    (found,) = of_generate(verdict)
    assert (found.status, found.adapted, found.key) == ("pass", True, "zero_optimization.stage")
    assert [len(tokens) for tokens in found.observed] == [6, 8, 10][:ranks]  # with a prompt of four


@pytest.mark.parametrize("model", ["t5", pytest.param("gpt2", marks=pytest.mark.long)])
def test_models_that_generate(prove, model):
    folder = os.path.join(MODELS, model)
    (found,) = of_generate(prove({**BASE, **zero(3)}, model=folder))
    assert found.status == "pass"


@pytest.mark.parametrize("offload", ["offload_param", pytest.param("offload_optimizer", marks=pytest.mark.long)])
def test_with_offloading(prove, offload):
    (found,) = of_generate(prove({**BASE, **zero(3, **{offload: {"device": "cpu"}})}))
    assert found.status == "pass"


@pytest.mark.long
def test_swapping_does_not_disturb_the_ranks_that_resume(prove):
    """Both run at the same time; DeepSpeed restores a part of the states on NVMe, and raises at a wrong file."""
    nvme = {"device": "nvme", "nvme_path": "/local_nvme"}
    verdict = prove({**AUTO, **zero(3, offload_optimizer=nvme)}, stack="trainer", arguments=ARGUMENTS["trainer"])
    assert of_generate(verdict)[0].status == "pass"
    (resumed,) = (check for check in verdict.checks if check.id == "resume")
    assert "a new process restores" in resumed.message


def test_below_stage_3_and_on_one_rank_nothing_is_gathered(prove):
    assert of_generate(prove({**BASE, **zero(2)})) == []
    assert of_generate(prove({**BASE, **zero(3)}, options=RunOptions(ranks=1))) == []


@pytest.mark.parametrize("stack", ["trainer", pytest.param("accelerate", marks=pytest.mark.long)])
@pytest.mark.long
def test_a_stage_in_quotes_hangs(prove, stack):
    """Transformers does not recognize stage 3, so a rank that has stopped gathers nothing more."""
    verdict = prove({**CONFIGS[stack], **zero("3")}, stack=stack, arguments=ARGUMENTS.get(stack))
    (found,) = of_generate(verdict)
    assert (found.status, found.observed, found.key) == ("fail", "a hang", "zero_optimization.stage")
    assert found.message == "generate hangs: rank 1 waits for weights of rank 0, which has no more tokens to make"
    assert "without quotes" in found.help
    assert next(check for check in verdict.checks if check.id == "resume").status == "pass"


def test_other_tokens_fail(prove, mutating):
    verdict = prove({**BASE, **zero(3)}, pool=mutating("other tokens"))
    assert [check.id for check in verdict.checks if check.status == "fail"] == ["generate"]
    assert "2 of 2 ranks generate other tokens than the whole model" in of_generate(verdict)[0].message
