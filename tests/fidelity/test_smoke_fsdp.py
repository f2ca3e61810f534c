"""Files for ``accelerate launch`` that ask for FSDP: healthy ones pass a run, and a broken promise fails it."""

from __future__ import annotations

import os

import pytest
import yaml
from command_line import ROOT
from installed import INSTALLED, measured_with_the_newest

from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.smoke.small_run import proof
from ds_lint.smoke.small_run.options import RunOptions
from ds_lint.source import documents

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

MODELS = os.path.join(ROOT, "tests", "models")
LAYERS = {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}
FULL = {**LAYERS, "fsdp_state_dict_type": "FULL_STATE_DICT"}
FLAT = {**FULL, "fsdp_use_orig_params": False}
SHARDED = {**LAYERS, "fsdp_state_dict_type": "SHARDED_STATE_DICT"}


def file_of(version, precision="bf16", more=None, **settings):
    return {
        "distributed_type": "FSDP",
        "num_processes": 2,
        "mixed_precision": precision,
        "fsdp_config": {"fsdp_version": version, **settings},
        **(more or {}),
    }


@pytest.fixture(scope="module")
def prove_file(pool):
    def prove(content, *, ranks=2, model=None, pool=pool):
        (verdict,) = proof.prove(
            pool,
            documents.from_bytes(yaml.safe_dump(content).encode(), "accelerate.yaml"),
            stack="accelerate",
            facts=gather(Sources(model=model and os.path.join(MODELS, model))),
            target=INSTALLED,
            options=RunOptions(ranks=ranks, simulates=False),
        )
        return verdict

    return prove


def broken(verdict):
    assert verdict.error is None
    return {check.id for check in verdict.checks if check.status not in ("pass", "skip")}


# ------------------------------------------------------------------------------------------------------------ healthy

HYBRID = {"parallelism_config": {"parallelism_config_dp_replicate_size": 2, "parallelism_config_dp_shard_size": 2}}


@pytest.mark.parametrize(
    ("content", "ranks", "model"),
    [
        (file_of(2, **FULL), 2, None),
        (file_of(1, **FULL), 2, None),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in [
                (file_of(2, "no", **LAYERS), 3, None),
                (file_of(2, **SHARDED), 2, None),
                (file_of(2, **FULL, fsdp_reshard_after_forward=False), 2, None),
                (file_of(2, "no"), 2, None),
                (file_of(2, **FULL, fsdp_offload_params=True), 2, None),
                (file_of(2, **FULL, fsdp_activation_checkpointing=True), 2, None),
                (file_of(2, "no", **FULL, fsdp_cpu_ram_efficient_loading=False), 2, None),
                (file_of(2, "fp16", **FULL), 2, None),
                (file_of(2, "no", **FULL), 5, None),
                (file_of(2, more=HYBRID, **FULL), 4, None),
                (file_of(2, **FULL), 2, "gpt2"),
                (file_of(2, **FULL), 2, "mixtral"),
                (file_of(1, **FULL), 3, None),
                (file_of(1, **FLAT), 5, None),
                (file_of(1, **FULL, fsdp_sharding_strategy="SHARD_GRAD_OP"), 2, None),
                (file_of(1, **FULL, fsdp_sharding_strategy="NO_SHARD"), 2, None),
                (file_of(1, "no", **FULL, fsdp_sharding_strategy="HYBRID_SHARD"), 4, None),
                (file_of(1, fsdp_auto_wrap_policy="SIZE_BASED_WRAP", fsdp_min_num_params=5000), 2, None),
                (file_of(1, "no", fsdp_auto_wrap_policy="SIZE_BASED_WRAP"), 3, None),
                (file_of(1, "no"), 2, None),
                (file_of(1, **FULL, fsdp_offload_params=True), 2, None),
                (file_of(1, **FLAT, fsdp_offload_params=True), 2, None),
                (file_of(1, **FULL, fsdp_activation_checkpointing=True), 2, None),
                (file_of(1, "fp16", **FULL), 2, None),
                (file_of(1, **FULL), 2, "gpt2"),
                (file_of(1, **FLAT), 2, "t5"),
                (file_of(1, **FULL), 3, "qwen3_moe"),
            ]
        ),
    ],
)
def test_a_healthy_file_passes(prove_file, content, ranks, model):
    verdict = prove_file(content, ranks=ranks, model=model)
    assert broken(verdict) == set()
    version = content["fsdp_config"]["fsdp_version"]
    assert (verdict.status, verdict.strategy) == ("pass", f"fsdp{version}")
    compared = {check.id for check in verdict.checks if check.status == "pass"}
    assert compared >= {"parameters", "units", "samples", "averaging", "update", "weights", "resume", "export"}


@pytest.mark.long
def test_sharded_states_of_version_1_are_not_restored(prove_file):
    """Accelerate asks a fresh optimizer which states to load, and it has none."""
    verdict = prove_file(file_of(1, **SHARDED))
    (check,) = [check for check in verdict.checks if check.status == "fail"]
    assert (check.id, check.key) == ("resume", "fsdp_config.fsdp_state_dict_type")
    assert "exp_avg" in check.help


def test_a_number_of_ranks_that_the_file_does_not_allow(prove_file):
    verdict = prove_file(file_of(2, more=HYBRID, **FULL), ranks=2)
    assert (verdict.status, verdict.error) == (
        "error",
        "parallelism_config divides 4 ranks, but the run has 2: pass --smoke-ranks 4",
    )


def test_ranks_that_are_divided_in_another_way_than_by_fsdp(prove_file):
    verdict = prove_file(file_of(2, more={"parallelism_config": {"parallelism_config_cp_size": 2}}, **FULL), ranks=2)
    assert verdict.error == (
        "a run with FSDP has no tensor, context or sequence parallelism, and `parallelism_config_cp_size` is 2"
    )


# ------------------------------------------------------------------------------------------------------------- broken

FAULTS = {
    "not sharded": {"parameters", "gradients", "optimizer-states"},
    "larger last shard": {"parameters"},
    "a unit is missing": {"units"},
    "one unit": {"units"},
    "units of linear layers": {"units"},
    "kept after forward": {"units"},
    "whole states": {"optimizer-states"},
    "summed": {"averaging"},
    "averaged twice": {"averaging"},
    "lost first micro step": {"averaging"},
    "lost last micro step": {"averaging"},
    "double micro step": {"averaging"},
    "undivided loss": {"averaging"},
    "nothing exchanged": {"averaging"},
    "own norm": {"clipping", "averaging"},
    "does not clip": {"clipping", "averaging"},
    "no mixed precision": {"dtypes", "weights"},
    "reduced in fp32": {"dtypes"},
    "rounded masters": {"update"},
    "doubled buffers": {"averaging"},
    "cast buffers": {"dtypes"},
    "other betas": {"update"},
    "no decay": {"update"},
    "other epsilon": {"update"},
    "other rate": {"learning-rate"},
    "no bias correction": {"update"},
    "other weights": {"weights"},
    "unsent weights": {"update"},
    "same samples": {"samples"},
    "first batch again": {"samples"},
    "nothing runs again": {"recomputation"},
    "stale model": {"export"},
    "unloaded states": {"resume"},
    "unloaded weights": {"resume"},
    "missing part": {"resume", "recovery"},
    "changed checkpoint": {"resume", "recovery"},
    "missing tensor": {"export"},
}
OF_FAULT = {
    "nothing runs again": file_of(2, **FULL, fsdp_activation_checkpointing=True),
    "missing part": file_of(2, **SHARDED),
    "other epsilon": file_of(2, "no", **FULL),
}
IN_CI = ("own norm",)


@pytest.mark.parametrize(
    ("name", "checks"),
    [pytest.param(name, one, marks=[] if name in IN_CI else pytest.mark.long) for name, one in FAULTS.items()],
)
@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_broken_promise_fails_its_check(prove_file, mutating, name, checks, ranks):
    verdict = prove_file(OF_FAULT.get(name, file_of(2, **FULL)), ranks=ranks, pool=mutating(name))
    assert verdict.status == "fail"
    assert checks <= broken(verdict)


@pytest.mark.long
def test_layers_of_another_model_are_those_of_the_small_one(prove_file):
    layers = "fsdp_transformer_layer_cls_to_wrap"
    content = file_of(2, **FULL, **{layers: "GPT2Block"})
    verdict = prove_file(content)
    assert (verdict.status, broken(verdict)) == ("pass", set())
    (adapted,) = [one for one in verdict.adaptations if one.key == f"fsdp_config.{layers}"]
    assert (adapted.before, adapted.after) == ("GPT2Block", "LlamaDecoderLayer")
    assert prove_file(content, model="gpt2").status == "pass"
