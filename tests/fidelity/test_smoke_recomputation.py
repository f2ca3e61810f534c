"""Recomputed activations: a training run sees whether layers run again in the backward pass, and what runs them."""

from __future__ import annotations

import json
import os

import pytest
from command_line import ROOT
from installed import INSTALLED, measured_with_the_newest
from linted import lint_bytes

from ds_lint.diagnostics.verdict import COVERAGE
from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.smoke.small_run.options import RunOptions

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

LLAMA = os.path.join(ROOT, "tests", "models", "llama")
AUTO = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "bf16": {"enabled": "auto"},
}
SECTION = {"activation_checkpointing": {"partition_activations": True, "cpu_checkpointing": True}}
ON = {"bf16": True, "gradient_checkpointing": True}
NEWER = {"bf16": True, "activation_checkpointing": True}
REENTRANT = {**ON, "gradient_checkpointing_kwargs": {"use_reentrant": True}}
EVERY_SECOND = {**NEWER, "activation_checkpointing_kwargs": {"every_n_layers": 2}}


def zero(stage):
    gathers = {"stage3_gather_16bit_weights_on_model_save": True} if stage == 3 else {}
    return {**AUTO, "zero_optimization": {"stage": stage, **gathers}}


def of_recomputation(verdict):
    assert verdict.error is None
    return [check for check in verdict.checks if check.id == "recomputation"]


@pytest.mark.parametrize(
    ("stage", "arguments", "layers"),
    [
        (3, ON, 2),
        (2, NEWER, 2),
        (2, EVERY_SECOND, 1),
        pytest.param(3, REENTRANT, 2, marks=pytest.mark.long),
        pytest.param(1, ON, 2, marks=pytest.mark.long),
        pytest.param(2, REENTRANT, 2, marks=pytest.mark.long),
        pytest.param(3, NEWER, 2, marks=pytest.mark.long),
    ],
)
def test_layers_run_again_in_the_backward_pass(prove, stage, arguments, layers):
    verdict = prove(zero(stage), stack="trainer", arguments=arguments)
    assert verdict.status == "pass"
    (found,) = of_recomputation(verdict)
    assert (found.status, found.observed) == ("pass", layers)


@pytest.mark.parametrize("model", ["t5", *(pytest.param(name, marks=pytest.mark.long) for name in ("gpt2", "mixtral"))])
def test_layers_of_other_models(prove, model):
    verdict = prove(zero(2), stack="trainer", arguments=ON, model=os.path.join(ROOT, "tests", "models", model))
    (found,) = of_recomputation(verdict)
    assert found.status == "pass"


@pytest.mark.parametrize("arguments", [{"bf16": True}, {**ON, "gradient_checkpointing": False}])
def test_what_is_not_asked_for_is_not_checked(prove, arguments):
    assert of_recomputation(prove(zero(2), stack="trainer", arguments=arguments)) == []


@pytest.mark.parametrize(
    "name", ["nothing is recomputed", pytest.param("the head is recomputed", marks=pytest.mark.long)]
)
def test_recomputation_that_is_silently_off_fails(prove, mutating, name):
    verdict = prove(zero(2), stack="trainer", arguments=ON, pool=mutating(name))
    assert {check.id for check in verdict.checks if check.status not in ("pass", "skip")} == {"recomputation"}
    (found,) = of_recomputation(verdict)
    assert (found.status, found.observed) == ("fail", 0)
    assert "`gradient_checkpointing` is set, but the backward pass runs none of the 2 layers again" in found.message


@pytest.mark.long
@pytest.mark.parametrize("ranks", [3, 5])
def test_it_is_noticed_on_any_number_of_ranks(prove, mutating, ranks):
    pool = mutating("nothing is recomputed")
    verdict = prove(zero(2), stack="trainer", arguments=ON, pool=pool, options=RunOptions(ranks=ranks))
    assert {check.id for check in verdict.checks if check.status not in ("pass", "skip")} == {"recomputation"}


@pytest.mark.parametrize("arguments", [{"bf16": True}, ON])
def test_the_section_of_deepspeed_recomputes_nothing(prove, arguments):
    """The rule about the text alone and the run agree, also if torch recomputes what DeepSpeed does not."""
    config = {**zero(2), **SECTION}
    verdict = prove(config, stack="trainer", arguments=arguments, model=LLAMA)
    *by_torch, by_deepspeed = of_recomputation(verdict)
    assert (by_deepspeed.status, by_deepspeed.key, by_deepspeed.observed) == ("warn", "activation_checkpointing", 0)
    assert [(check.status, check.observed) for check in by_torch] == ([("pass", 2)] if arguments == ON else [])
    assert not any("activation_checkpointing" in (one.key or "") for one in verdict.checks if one.id == COVERAGE)
    facts = gather(Sources(trainer_args=arguments, model=LLAMA))
    findings = lint_bytes(
        json.dumps(config).encode(), "a.json", stack="trainer", target=INSTALLED, facts=facts
    ).findings
    assert "DS353" in {finding.code for finding in findings}


@pytest.mark.parametrize("stack", ["trainer", pytest.param("accelerate", marks=pytest.mark.long)])
def test_without_a_model_nothing_is_claimed_about_the_section(prove, stack):
    arguments = {"bf16": True} if stack == "trainer" else None
    verdict = prove({**zero(2), **SECTION}, stack=stack, arguments=arguments)
    assert of_recomputation(verdict) == []
    listed = {one.key for one in verdict.checks if one.id == COVERAGE}
    assert listed >= {f"activation_checkpointing.{name}" for name in SECTION["activation_checkpointing"]}
