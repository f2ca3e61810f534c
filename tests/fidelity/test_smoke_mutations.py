"""A promise that is broken in the engine, or in what it saved, fails its check, and no other."""

from __future__ import annotations

import json

import pytest
from installed import measured_with_the_newest

from ds_lint.smoke.small_run.options import RunOptions

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

BASE = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.25,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
}
BF16 = {**BASE, "bf16": {"enabled": True}}
STAGE_1 = {**BF16, "zero_optimization": {"stage": 1}}
STAGE_2 = {**BF16, "zero_optimization": {"stage": 2}}
ROUND_ROBIN = {**BF16, "zero_optimization": {"stage": 2, "round_robin_gradients": True}}
STAGE_3 = {**BF16, "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}}
FP16 = {**BASE, "fp16": {"enabled": True}, "zero_optimization": {"stage": 2}}
OFFLOADED = {**BF16, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
AUTOCAST = {**BASE, "torch_autocast": {"enabled": True, "dtype": "bfloat16"}, "zero_optimization": {"stage": 2}}
GROUPS = {**STAGE_3, "zero_optimization": {**STAGE_3["zero_optimization"], "zero_hpz_partition_size": 2}}
SCHEDULED = {**STAGE_2, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 9, "warmup_type": "linear"}}}

MUTATIONS = [
    ("other stage", STAGE_2, {"stage", "gradients"}),
    ("whole gradients", STAGE_2, {"gradients"}),
    pytest.param("persistent parameters", STAGE_3, {"parameters", "memory"}, marks=pytest.mark.long),
    ("weights are never freed", STAGE_3, {"memory", "resume"}),
    ("hidden copy", STAGE_2, {"memory"}),
    pytest.param("hidden copy", STAGE_3, {"memory"}, marks=pytest.mark.long),
    pytest.param("hidden copy in a hook", STAGE_3, {"memory"}, marks=pytest.mark.long),
    pytest.param("hidden copy in a hook", STAGE_1, {"memory"}, marks=pytest.mark.long),
    pytest.param("hidden partition", STAGE_1, {"memory"}, marks=pytest.mark.long),
    pytest.param("hidden partition", OFFLOADED, {"memory"}, marks=pytest.mark.long),
    pytest.param("hidden buffer", STAGE_2, {"memory"}, marks=pytest.mark.long),
    ("gradients are never freed", STAGE_2, {"memory"}),
    pytest.param("gradients are never freed", FP16, {"memory"}, marks=pytest.mark.long),
    pytest.param("whole parameter", STAGE_3, {"parameters"}, marks=pytest.mark.long),
    pytest.param("unsharded state", STAGE_1, {"optimizer-states"}, marks=pytest.mark.long),
    ("unsharded state", STAGE_3, {"optimizer-states"}),
    pytest.param("lost state", STAGE_2, {"optimizer-states"}, marks=pytest.mark.long),
    pytest.param("unsharded masters", STAGE_2, {"master-weights"}, marks=pytest.mark.long),
    ("masters in 16 bit", STAGE_2, {"dtypes"}),
    pytest.param("parameter in fp32", STAGE_2, {"dtypes"}, marks=pytest.mark.long),
    ("autocast does not cast", AUTOCAST, {"dtypes"}),
    ("no secondary partitions", GROUPS, {"parameters"}),
    ("offload flag off", OFFLOADED, {"offload"}),
    pytest.param("clips to less", STAGE_2, {"clipping"}, marks=pytest.mark.long),
    pytest.param("clips to less", STAGE_3, {"clipping"}, marks=pytest.mark.long),
    ("does not clip", STAGE_2, {"clipping"}),
    pytest.param("double rate", STAGE_2, {"learning-rate"}, marks=pytest.mark.long),
    pytest.param("larger batch", STAGE_2, {"batch", "samples"}, marks=pytest.mark.long),
    ("a sample too few", STAGE_2, {"batch"}),
    ("loss is not a number", STAGE_2, {"loss"}),
    ("unscaled loss", FP16, {"loss-scale"}),
    ("schedule is not restored", SCHEDULED, {"resume"}),
    ("states are not restored", STAGE_2, {"resume"}),
    pytest.param("truncated states", STAGE_2, {"resume", "recovery"}, marks=pytest.mark.long),
    pytest.param("removed states", STAGE_2, {"resume", "recovery"}, marks=pytest.mark.long),
    ("changed masters", STAGE_2, {"resume", "recovery"}),
    pytest.param("changed weight", STAGE_2, {"export"}, marks=pytest.mark.long),
    ("changed weight", STAGE_3, {"export"}),
    pytest.param("empty weight", STAGE_2, {"export"}, marks=pytest.mark.long),
    pytest.param("removed weight", STAGE_2, {"export"}, marks=pytest.mark.long),
    pytest.param("removed weights", STAGE_2, {"export"}, marks=pytest.mark.long),
]


def broken(verdict):
    assert verdict.error is None
    return {check.id for check in verdict.checks if check.status not in ("pass", "skip")}


@pytest.mark.parametrize(("name", "config", "checks"), MUTATIONS)
def test_a_broken_promise_fails_its_check(prove, mutating, name, config, checks):
    pool = mutating(name)
    verdict = prove(config, pool=pool)
    assert (verdict.status, broken(verdict)) == ("fail", checks)


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.long), 3])
@pytest.mark.parametrize(
    ("name", "config", "checks"),
    [
        pytest.param("changed low bits", ROUND_ROBIN, {"resume", "recovery"}, marks=pytest.mark.long),
        ("changed low bits", STAGE_3, {"resume", "recovery"}),
        pytest.param("shuffled partitions", STAGE_1, {"resume", "recovery"}, marks=pytest.mark.long),
        ("shuffled partitions", ROUND_ROBIN, {"resume", "recovery"}),
        pytest.param("shuffled names", STAGE_2, {"recovery"}, marks=pytest.mark.long),
        ("shuffled names", ROUND_ROBIN, {"recovery"}),
        pytest.param("shuffled names", STAGE_3, {"recovery"}, marks=pytest.mark.long),
    ],
)
def test_a_checkpoint_with_other_weights_fails_on_any_number_of_ranks(prove, mutating, name, config, checks, ranks):
    pool = mutating(name)
    verdict = prove(config, pool=pool, options=RunOptions(ranks=ranks))
    assert (verdict.status, broken(verdict)) == ("fail", checks)


TIED = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True}


@pytest.mark.parametrize(
    ("name", "config", "checks"),
    [
        ("nothing", STAGE_2, set()),
        pytest.param("nothing", STAGE_3, set(), marks=pytest.mark.long),
        ("untied in the file", STAGE_2, {"export"}),
    ],
)
def test_weights_that_are_not_tied_any_more_fail(prove, mutating, tmp_path, name, config, checks):
    pool = mutating(name)
    (tmp_path / "config.json").write_text(json.dumps(TIED))
    verdict = prove(config, pool=pool, model=str(tmp_path))
    assert broken(verdict) - {"persistence"} == checks
    tied = [check for check in verdict.checks if check.id == "export" and "one tensor" in check.message]
    assert [check.status for check in tied] == ["fail" if checks else "pass"]
    assert "`lm_head.weight` and `model.embed_tokens.weight`" in tied[0].message


FIRST = {(1, "fp32", 3), (2, "fp16", 3)}  # the others take half a minute
IN_TURN = [
    pytest.param(stage, precision, ranks, marks=() if (stage, precision, ranks) in FIRST else pytest.mark.long)
    for stage in (1, 2)
    for precision in ("bf16", "fp16", "fp32")
    for ranks in (2, 3, 5)
]


@pytest.mark.parametrize(("stage", "precision", "ranks"), IN_TURN)
def test_gradients_in_turn_are_no_reason_to_fail(prove, stage, precision, ranks):
    """What a function of DeepSpeed says of these weights is wrong, and the checkpoint is right."""
    zero = {"zero_optimization": {"stage": stage, "round_robin_gradients": True}}
    verdict = prove(
        {**BASE, **zero} | ({} if precision == "fp32" else {precision: {"enabled": True}}),
        options=RunOptions(ranks=ranks),
    )
    assert broken(verdict) == set()


def test_a_config_that_loads_universal_checkpoints_resumes_from_its_own(prove):
    verdict = prove({**ROUND_ROBIN, "checkpoint": {"load_universal": True}})
    assert broken(verdict) == set()
    assert "checkpoint.load_universal" in {one.key for one in verdict.adaptations}


UNBROKEN = [AUTOCAST, GROUPS, SCHEDULED]  # the others pass in test_smoke_catches.py, too
UNBROKEN += [pytest.param(config, marks=pytest.mark.long) for config in (STAGE_1, STAGE_2, STAGE_3, FP16, OFFLOADED)]


@pytest.mark.parametrize("config", UNBROKEN, ids=str)
def test_unbroken_they_pass(prove, mutating, config):
    pool = mutating("nothing")
    verdict = prove(config, pool=pool)
    left_out = {"persistence"}  # takes --model
    if config is AUTOCAST:
        left_out |= {"samples", "averaging", "update", "weights"}  # plain torch does not repeat it
    assert {check.id for check in verdict.checks if check.status != "pass"} <= left_out
    assert max(step.gradient_norm for step in verdict.steps) > config["gradient_clipping"]  # so that it is clipped


@pytest.mark.parametrize(
    ("name", "config", "checks"),
    [
        ("unsharded state", STAGE_3, {"optimizer-states"}),
        ("masters in 16 bit", STAGE_2, {"dtypes"}),
        ("does not clip", STAGE_2, {"clipping"}),
        ("double rate", STAGE_2, {"learning-rate"}),
        ("schedule is not restored", SCHEDULED, {"resume"}),
        ("states are not restored", STAGE_2, {"resume"}),
        ("changed masters", STAGE_2, {"resume", "recovery"}),
        ("nothing", SCHEDULED, set()),
    ],
)
@pytest.mark.long
def test_a_broken_promise_fails_its_check_with_accelerate(prove, mutating, name, config, checks):
    pool = mutating(name)
    verdict = prove(config, stack="accelerate", pool=pool)
    assert (verdict.status, broken(verdict)) == ("fail" if checks else "pass", checks)
