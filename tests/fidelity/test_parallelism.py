"""Expert, tensor and sequence parallelism, compiling and SuperOffload: what the engine refuses, and what it leaves off.

Rank 0 of eight that are not there shows most of it; what concerns the other ranks, or a model with experts, runs on
real ranks (gloo).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from linted import lint_dict

pytest.importorskip("deepspeed")

from installed import INSTALLED, knowledge, measured_with_the_newest
from oracle import Oracle
from ranks import run

from ds_lint.diagnostics.finding import STAGES
from ds_lint.facts import Facts

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

ADAMW: dict[str, Any] = {"type": "AdamW", "params": {"lr": 1e-3}}
EXPERTS = {"enabled": True, "autoep_size": 4}
EXPERTS_OF_TWO = {"enabled": True, "autoep_size": 2}
TENSORS = {"autotp_size": 2, "preset_model": "llama"}
DEEPEP = {**EXPERTS, "comm_backend": "deepep", "comm_max_tokens_per_rank": 64}


def config(**settings: Any) -> dict[str, Any]:
    return {"train_micro_batch_size_per_gpu": 1, "optimizer": ADAMW, **settings}


def findings(linted: dict[str, Any], ranks: int = 8):
    return lint_dict(linted, target=INSTALLED, stack="deepspeed", facts=Facts(world_size=ranks)).findings


@pytest.fixture(scope="module")
def oracle():
    with Oracle() as running:
        yield running


# ----------------------------------------------------------------------------------- what deepspeed.initialize refuses

SETTINGS: dict[str, dict[str, Any]] = {
    "experts": {"expert_parallel": EXPERTS},
    "experts on every rank": {"expert_parallel": {"enabled": True}},
    "experts switched on by any text": {"expert_parallel": {"enabled": "no", "autoep_size": 3}},
    "experts switched off": {"expert_parallel": {"enabled": False, "autoep_size": 3, "score_apply": "x"}},
    "experts on three of eight": {"expert_parallel": {"enabled": True, "autoep_size": 3}},
    "deepep": {"expert_parallel": DEEPEP},
    "deepep without a limit": {"expert_parallel": {**EXPERTS, "comm_backend": "deepep"}},
    "rows fused without deepep": {"expert_parallel": {**EXPERTS, "row_weighting_impl": "fused"}},
    "rows fused": {"expert_parallel": {**DEEPEP, "row_weighting_impl": "fused"}},
    "rows fused for one": {"expert_parallel": {**DEEPEP, "autoep_size": 1, "row_weighting_impl": "fused"}},
    "gates fused": {"expert_parallel": {**EXPERTS, "gate_up_impl": "fused"}},
    "gates fused in a loop": {"expert_parallel": {**EXPERTS, "gate_up_impl": "fused", "use_grouped_mm": False}},
    "sums fused": {"expert_parallel": {**EXPERTS, "combine_impl": "fused_weighted_sum"}},
    "sums fused with deepep": {"expert_parallel": {**DEEPEP, "combine_impl": "fused_weighted_sum"}},
    "limited groups": {"expert_parallel": {**EXPERTS, "num_expert_groups": 2, "num_limited_groups": 3}},
    "no preset": {"expert_parallel": {**EXPERTS, "preset_model": "gpt2"}},
    "a path for a name": {"expert_parallel": {**EXPERTS, "router_pattern": "mlp.gate"}},
    "tensor parallelism within experts": {"expert_parallel": {**EXPERTS, "expert_tensor_parallel_size": 2}},
    "sizes that agree": {"tensor_parallel": {"tp": {"tp_size": 2}}},
    "sizes that do not": {"tensor_parallel": {**TENSORS, "tp": {"tp_size": 4}}},
    "a type of partition": {
        "tensor_parallel": {**TENSORS, "partition_config": {"layer_specs": [{"partition_type": "diagonal"}]}}
    },
    "folded over one": {"expert_parallel": {"enabled": True}, "tensor_parallel": TENSORS},
    "folded, split ahead": {"expert_parallel": {**EXPERTS, "async_split_plan": True}, "tensor_parallel": TENSORS},
    "folded, sums fused": {
        "expert_parallel": {**EXPERTS, "combine_impl": "fused_weighted_sum"},
        "tensor_parallel": TENSORS,
    },
    "folded and compiled": {
        "expert_parallel": EXPERTS,
        "tensor_parallel": TENSORS,
        "compile": {"deepcompile": True},
    },
    "folded, data first": {
        "expert_parallel": EXPERTS,
        "tensor_parallel": TENSORS,
        "use_data_before_expert_parallelism": True,
    },
    "folded and offloaded to nowhere": {
        "expert_parallel": EXPERTS,
        "tensor_parallel": TENSORS,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}},
    },
    "two presets": {
        "expert_parallel": {**EXPERTS, "preset_model": "mixtral"},
        "tensor_parallel": {"preset_model": "llama"},
    },
    "deepcompile": {"compile": {"deepcompile": True}, "zero_optimization": {"stage": 2}},
    "deepcompile, unmanaged": {"compile": {"deepcompile": True}, "managed_gradient_accumulation": False},
    "a mesh that is too large": {"sequence_parallel_size": 4, "data_parallel_size": 4},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_refused(oracle, name):
    linted = config(**SETTINGS[name])
    verdict = oracle.verdict(linted, level="initialize", world_size=8)
    assert verdict.undecided is None
    said = [finding.stage for finding in findings(linted) if finding.effect == "rejected"]
    assert min(said, key=STAGES.index, default=None) == verdict.rejected_at, verdict.error


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"zero_optimization": {"stage": 2}}, None),
        ({"zero_optimization": {"stage": 3}}, None),
        ({"zero_optimization": {"stage": 3, "zero_quantized_gradients": True}}, "zero_quantized_gradients"),
        ({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2}}, "hpZeRO"),
        ({"expert_parallel": {**EXPERTS_OF_TWO, "combine_impl": "fused_weighted_sum", "score_apply": "pre"}}, "pre"),
    ],
)
def test_a_model_with_experts(settings, words):
    done = run("experts", json.dumps(settings))
    assert done.is_complete, "\n".join(done.errors)
    errors = {answer["error"] for answer in done.answers}
    assert errors == {None} if words is None else all(words in str(error) for error in errors)
    said = {finding.code for finding in findings(config(**{"expert_parallel": EXPERTS_OF_TWO, **settings}), ranks=2)}
    assert ("DS809" in said) == (words is not None)


# ------------------------------------------------------------------------------------------------ what changes nothing


def groups(engine: Any) -> dict[str, Any]:
    import torch

    return {"ranks": torch.distributed.get_world_size(engine.seq_data_parallel_group)}


def test_tp_size_alone_leaves_tensor_parallelism_off(oracle):
    linted = config(tensor_parallel={"tp": {"tp_size": 4}})
    assert oracle.verdict(linted, level="initialize", world_size=8, look=groups).facts["ranks"] == 8
    assert "DS805" in {finding.code for finding in findings(linted)}


@pytest.mark.parametrize(
    ("sizes", "errors"),
    [
        ({"sequence_parallel_size": 2, "data_parallel_size": 2}, [None, None, None, None]),
        ({"sequence_parallel_size": 2, "data_parallel_size": 1}, [None, None, "IndexError", "IndexError"]),
    ],
)
def test_a_mesh_that_leaves_ranks_over(sizes, errors):
    done = run("mesh", json.dumps(sizes), ranks=4)
    assert done.is_complete, "\n".join(done.errors)
    assert [answer.get("error") for answer in done.answers] == errors
    said = {finding.effect for finding in findings(config(**sizes), ranks=4) if finding.code == "DS807"}
    assert said == ({"rejected"} if any(errors) else set())


def sequence_groups(engine: Any) -> dict[str, Any]:
    """What the groups of sequence parallelism say that a script with Ulysses sets up."""
    from deepspeed.runtime.sequence_parallel import parallel_state_sp

    try:
        parallel_state_sp.initialize_sequence_parallel(sequence_parallel_size=engine.config["sequence_parallel_size"])
    except RuntimeError as error:
        return {"groups": str(error)}
    return {"groups": None}


@pytest.mark.parametrize(("size", "ranks"), [(3, "2.67"), (2, None)])
def test_ranks_that_a_group_does_not_divide_count_as_a_fraction(oracle, size, ranks):
    linted = config(sequence_parallel_size=size)
    written = linted | {"train_batch_size": 3, "gradient_accumulation_steps": 1}
    assert f"3 != 1 * 1 * {8 / size}" in str(oracle.verdict(written, level="parse", world_size=8).error)
    verdict = oracle.verdict(linted, level="initialize", world_size=8, look=sequence_groups)
    assert verdict.error is None
    assert ("divisible" in (verdict.facts["groups"] or "")) == (ranks is not None)
    said = [finding for finding in findings(linted) if finding.code == "DS807"]
    assert [finding.effect for finding in said] == (["risk"] if ranks else [])
    assert all(f"{ranks} ranks" in (finding.help or "") for finding in said)


# --------------------------------------------------------------------------------------------------------- SuperOffload


@pytest.fixture(scope="module")
def blind():
    """An oracle whose SuperOffload does not ask for a GPU before anything else."""
    with Oracle() as running, pytest.MonkeyPatch.context() as patched:
        from deepspeed.runtime.superoffload import superoffload_stage3

        patched.setattr(superoffload_stage3, "_validate_superoffload_accelerator", lambda: None)
        yield running


@pytest.mark.parametrize(
    ("optimizer", "offload"),
    [
        ("AdamW", {"device": "cpu"}),
        ("AdamW", {"device": "none"}),
        ("AdamW", {}),
        ("Lion", {"device": "cpu"}),
        ("Adagrad", {"device": "cpu"}),
        ("AdamW", {"device": "cpu", "cpuadam_cores_perc": 0}),
    ],
)
def test_super_offload_drives_adam_on_the_cpu(blind, optimizer, offload):
    linted = config(
        optimizer={"type": optimizer, "params": {"lr": 1e-3}},
        zero_optimization={"stage": 3, "offload_optimizer": {**offload, "super_offload": True}},
    )
    refused = blind.verdict(linted, level="initialize").rejected_at
    assert (refused == "initialize") == ("DS328" in {finding.code for finding in findings(linted, ranks=1)})


# -------------------------------------------------------------------------------------------------------- two buckets


def buckets(engine: Any) -> dict[str, Any]:
    engine.optimizer.ready_for_gradients = False
    engine.optimizer.setup_buckets()
    return {"buckets": [str(one.dtype) for bucket in engine.optimizer.ipg_buckets.values() for one in bucket.buffer]}


@pytest.mark.parametrize(
    ("stage", "sections", "dtype"),
    [
        (1, {}, "torch.float32"),
        (2, {}, "torch.float32"),
        (1, {"fp16": {"enabled": True}}, "torch.float16"),
        (1, {"fp16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}, "torch.float32"),
        (2, {"fp16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}, "torch.float16"),
    ],
)
def test_overlapping_communication_takes_two_buckets(oracle, stage, sections, dtype):
    zero = {"stage": stage, "overlap_comm": True, "reduce_bucket_size": 1000}
    verdict = oracle.verdict(config(zero_optimization=zero, **sections), look=buckets)
    assert set(verdict.facts["buckets"]) == {dtype}
    assert len(verdict.facts["buckets"]) % 2 == 0


def test_every_behaviour_here_holds_for_the_newest_release():
    does = knowledge().does
    assert does("tensor-parallel-sizes-must-agree")
    assert does("expert-parallel-takes-stage-3")
    assert does("expert-parallel-folds-with-tensor-parallel")
    assert not does("folding-refuses-stage-3")
