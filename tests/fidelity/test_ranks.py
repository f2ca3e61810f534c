"""What several ranks show: experts that differ between them, parameters that stay whole, and what states take."""

from __future__ import annotations

import json
import re

import pytest
from linted import config_of_dict, lint_dict

from ds_lint.knowledge import keys

pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

from installed import INSTALLED, knowledge
from ranks import run

from ds_lint.facts import Facts
from ds_lint.facts.model import Model
from ds_lint.facts.safetensors import Parameter
from ds_lint.footprint import host, setup, states

pytestmark = pytest.mark.fidelity

PARTED = "gloo/transport|Detected a disagreement"  # what the ranks raise that wait for others
OUTDATED = "'numactl'|modified inplace"  # a program that 0.14 asks for its cores; 0.18 with today's torch

needs_stage_3_leaves = pytest.mark.skipif(
    knowledge().find(("zero_optimization", "leaf_module")) is None, reason="DeepSpeed has no leaf_module"
)


def first_answer(done):
    """What the first rank found out; a run that stops whatever the config says tells nothing about it."""
    if any(re.search(OUTDATED, error) for error in done.errors):
        pytest.skip(f"DeepSpeed {INSTALLED.deepspeed} does not run here on two ranks")
    assert done.is_complete, "\n".join(done.errors)
    return done.answers[0]


# ------------------------------------------------------------------------------------------------------------- DS350


def codes(model_type: str, leaf: str) -> list[str]:
    facts = Facts(world_size=2)
    facts.model = Model("", {"model_type": model_type, "num_experts": 8, "num_local_experts": 8})
    zero = {"stage": 3} if leaf == "default" else {"stage": 3, "leaf_module": {"classes": [leaf]}}
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": zero}
    report = lint_dict(config, target=INSTALLED, stack="deepspeed", facts=facts)
    return [finding.code for finding in report.findings if finding.code == "DS350"]


@needs_stage_3_leaves
@pytest.mark.parametrize(
    ("model_type", "leaf"),
    [
        ("switch_transformers", "default"),
        ("switch_transformers", "LEAF"),
        ("mixtral", "default"),
        ("phimoe", "default"),
    ],
)
def test_ranks_that_run_different_experts_part_ways(model_type, leaf):
    facts = keys.knowledge(INSTALLED).of_model("chosen_experts", model_type)
    if leaf == "LEAF":
        leaf = facts["blocks"][0].rpartition(".")[2]
    done = run("mixture", model_type, leaf, timeout=90)
    assert done.is_complete == (codes(model_type, leaf) == []), "\n".join(done.errors)
    assert done.is_complete or done.hung or any(re.search(PARTED, error) for error in done.errors), done.errors


# ------------------------------------------------------------------------------------------------------------- DS351


@pytest.mark.parametrize(("one", "together"), [(100_000, 2**62), (64, 2**62), (1024, 1100), (0, 2**62)])
def test_parameters_below_the_threshold_stay_whole(one, together):
    done = run("persistence", str(one), str(together))
    answer = first_answer(done)
    model = Model(
        "",
        {"model_type": "llama"},
        parameters=[Parameter(name, (size,), "F32") for name, size in answer["sizes"].items()],
        parameter_count=sum(answer["sizes"].values()),
    )
    facts = Facts(world_size=2)
    facts.model = model
    thresholds = {"stage3_param_persistence_threshold": one, "stage3_model_persistence_threshold": together}
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, **thresholds}}
    report = lint_dict(config, target=INSTALLED, stack="deepspeed", facts=facts)
    said = [finding.effect for finding in report.findings if finding.code == "DS351"]
    whole = sum(answer["sizes"][name] for name in answer["whole"])
    total = model.parameter_count
    assert said == (["no-effect"] if whole == total else ["risk"] if 2 * whole >= total else [])


# ------------------------------------------------------------------------------------------------- DS851 and DS852


STATES = ("parameters", "gradients", "master_weights", "optimizer_states")


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_states_take_what_is_said_and_little_more(stage):
    """DS851 and DS852: bytes of all tensors that a rank holds."""
    done = run("states", str(stage))
    answer = first_answer(done)
    facts = Facts(world_size=2)
    layers = 8  # of one size
    parameters = [Parameter(str(layer), (answer["parameters"] // layers,), "BF16") for layer in range(layers)]
    facts.model = Model("", {"dtype": "bfloat16"}, parameters=parameters, parameter_count=answer["parameters"])
    config = {
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage},
    }
    parts = states.of(setup.of(as_config(config, facts)))
    said = sum(parts[name].gpu.bytes.least for name in STATES)
    print(f"stage {stage}: at least {said:,.0f} bytes, measured {answer['bytes']:,}")
    assert said <= answer["bytes"] < 2 * said


@pytest.mark.parametrize(
    ("stage", "pin_memory", "sub_group_size"),
    [(3, True, 20_000), (3, False, 20_000), (3, True, 10**9), (2, True, 10**9)],
)
def test_the_host_holds_what_is_said(stage, pin_memory, sub_group_size):
    """DS851: the states on the host, and what page-locked buffers take beside them."""
    answer = first_answer(run("host", str(stage), json.dumps(pin_memory), str(sub_group_size), ranks=1))
    facts = Facts(world_size=1)
    parameters = [Parameter(str(place), (size,), "BF16") for place, size in enumerate(answer["sizes"])]
    facts.model = Model("", {}, parameters=parameters, parameter_count=sum(answer["sizes"]))
    offload = {"device": "cpu", "pin_memory": pin_memory}
    zero = {"stage": stage, "offload_optimizer": offload, "sub_group_size": sub_group_size}
    config = {
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "bf16": {"enabled": True},
        "zero_optimization": zero | ({"offload_param": offload} if stage == 3 else {}),
    }
    wanted = setup.of(as_config(config, facts))
    held = {name: placed.host.bytes.likely for name, placed in states.of(wanted).items()}
    assert held["parameters"] == answer["held"]["weights"]
    assert held["gradients"] == answer["held"]["gradients"]
    assert held["master_weights"] + held["optimizer_states"] == answer["held"]["optimizer"]
    buffers = host.rounding(wanted).likely
    if stage == 3:
        assert buffers == sum(taken(*one) for one in answer["pinned"])
    else:
        assert 0 < buffers <= sum(taken(*one) for one in answer["pinned"])


def taken(maker: str, size: int) -> int:
    """What a pinned buffer takes beyond what is counted as held: torch rounds it up to a power of two."""
    block = 1
    while block < size:
        block *= 2
    if maker == "_partition_param":  # moved into one flat buffer; torch keeps the block
        return block
    return block - size


def as_config(config, facts):
    return config_of_dict(config, target=INSTALLED, stack="deepspeed", facts=facts)
