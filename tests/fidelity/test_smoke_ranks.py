"""On any number of ranks, a rank holds what the shapes say, to the element, at every stage of both stacks."""

from __future__ import annotations

import json

import pytest
from installed import measured_with_the_newest

from ds_lint.smoke.small_run.options import RunOptions

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

BASE = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "bf16": {"enabled": True},
}
ZERO_3 = {"stage3_gather_16bit_weights_on_model_save": True, "stage3_param_persistence_threshold": 0}
# Sizes of which none is a multiple of a number of ranks, so that every share is padded and every border is in a tensor.
UNEVEN = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 30,
    "intermediate_size": 47,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "num_hidden_layers": 2,
    "vocab_size": 61,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
QUICK = {("deepspeed", 1, 3), ("trainer", 3, 3)}
CASES = [
    pytest.param(stack, stage, ranks, marks=() if (stack, stage, ranks) in QUICK else pytest.mark.long)
    for stack in ("deepspeed", "trainer")
    for stage in range(4)
    for ranks in (2, 3, 4, 5, 8)
]


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """The folder of a model of uneven sizes."""
    folder = tmp_path_factory.mktemp("uneven")
    (folder / "config.json").write_text(json.dumps(UNEVEN))
    return str(folder)


def zero(stage, **more):
    return {"zero_optimization": {"stage": stage, **(ZERO_3 if stage == 3 else {}), **more}}


def passes(verdict):
    assert verdict.error is None
    assert [check for check in verdict.checks if check.status not in ("pass", "skip")] == []
    return {check.id: check for check in verdict.checks}


@pytest.mark.parametrize(("stack", "stage", "ranks"), CASES)
def test_every_stage_on_any_number_of_ranks(prove, uneven, stack, stage, ranks):
    checks = passes(prove({**BASE, **zero(stage)}, stack=stack, model=uneven, options=RunOptions(ranks)))
    if stage:
        gradients = checks["gradients"]
        assert gradients.expected == gradients.observed
        assert len(gradients.observed) == ranks


@pytest.mark.parametrize(
    ("ranks", "config"),
    [
        (3, zero(2, round_robin_gradients=True, parameter_alignment=True)),
        (3, {**zero(2), "optimizer": {"type": "Muon", "params": {"lr": 1e-3}}}),
        (3, {**zero(2), "data_types": {"grad_accum_dtype": "fp32"}}),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in [
                (4, {**zero(2), "optimizer": {"type": "Lion", "params": {"lr": 1e-3}}}),
                (5, zero(2, round_robin_gradients=True)),
                (5, zero(1, parameter_alignment=True)),
                (5, zero(2, offload_optimizer={"device": "cpu"}, parameter_alignment=True)),
                (5, {**zero(1), "optimizer": {"type": "Muon", "params": {"lr": 1e-3}}}),
                (3, zero(3, zero_hpz_partition_size=2)),
                (8, zero(3, zero_hpz_partition_size=3)),
            ]
        ),
    ],
)
def test_what_moves_the_borders_of_shares(prove, uneven, ranks, config):
    passes(prove({**BASE, **config}, model=uneven, options=RunOptions(ranks)))


def test_16_bit_masters_in_host_memory_have_the_gradients_of_what_they_update(prove, uneven):
    config = {**BASE, **zero(2, offload_optimizer={"device": "cpu"})}
    config["bf16"] = {"enabled": True, "bf16_master_weights_and_grads": True}
    verdict = prove(config, model=uneven, options=RunOptions(3))
    gradients = next(check for check in verdict.checks if check.id == "gradients")
    assert (gradients.status, gradients.observed) == ("pass", [6490, 6490, 6490])


@pytest.mark.long
@pytest.mark.parametrize(("is_in_config", "share"), [(True, 2434), (False, 2436)])
def test_an_optimizer_of_the_config_is_one_group_under_the_trainer(prove, uneven, is_in_config, share):
    """Two groups, with and without weight decay, are padded apart."""
    config = {**BASE, **zero(2)}
    if not is_in_config:
        del config["optimizer"]
    checks = passes(prove(config, stack="trainer", model=uneven, options=RunOptions(8)))
    assert checks["master-weights"].expected == [share] * 8
