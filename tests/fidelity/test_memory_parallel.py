"""The part of the model that ds-lint says a rank holds is that of the real engine where ranks share a copy of it.

Parameters, gradients, master weights and states are counted by their storages (programs/held.py), to the element.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from installed import INSTALLED, measured_with_the_newest
from linted import config_of

pytest.importorskip("deepspeed")

from holdings import Case, differences, measure, setup_of_model
from ranks import run

from ds_lint.facts import Facts, tensors
from ds_lint.facts.model import Model
from ds_lint.footprint import partition, pipeline, setup, states
from ds_lint.footprint.activations import Pass, activations
from ds_lint.footprint.parallel_activations import in_parallel
from ds_lint.footprint.shared import Shared
from ds_lint.source import documents

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]


def case(model: str, stage: int, ranks: int, degree: int, preset=None, **more) -> Case:
    config = {"tensor_parallel": {"autotp_size": degree, "preset_model": preset}}
    return Case(model, stage, ranks, config=config, zero_init=False, **more)


TENSORS = [case("llama", 1, 8, 2)]
MORE = [
    case("qwen2", 2, 6, 3),
    case("llama", 1, 8, 2, "llama"),
    case("qwen2", 2, 8, 4, "qwen2"),
    *(case("llama", stage, 12, degree) for stage in (0, 2, 3) for degree in (2, 4)),
    case("llama", 2, 8, 2, zero={"offload_optimizer": {"device": "cpu"}}, accumulation_steps=2),
    case("gemma", 1, 8, 2),
    case("opt", 1, 6, 3),
    case("phi", 2, 8, 4),
    case("gpt_neox", 1, 4, 2),
    case("stablelm", 3, 8, 2),
    case("qwen2", 2, 8, 2, dtype="fp32"),
    case("qwen3", 2, 1024, 8),
]


@pytest.mark.parametrize("one", [*TENSORS, *(pytest.param(one, marks=pytest.mark.long) for one in MORE)], ids=repr)
def test_tensor_parallelism_divides_the_model_and_zero_what_is_left(one):
    setup = setup_of_model(one)
    # Ranks that share a copy follow each other, the one with the largest part first.
    held = measure(one._replace(rank=partition.holds_most(setup) * setup.part.degrees.tensors))
    assert [tensor.shape for tensor in setup.tensors] == [tensor.shape for tensor in held.tensors]
    assert setup.ranks * setup.part.degrees.tensors == one.ranks
    assert differences(one, held, setup) == []


# ----------------------------------------------------------------------------------------------------------- pipelines

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 97, "hidden_size": 40,
    "intermediate_size": 70, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip


class Pipeline(NamedTuple):
    """A pipeline on real ranks."""

    zero: int
    stages: int
    ranks: int
    dtype: str = "bf16"
    is_tied: bool = False
    method: str = "parameters"

    @property
    def config(self) -> dict[str, Any]:
        """The config of the run."""
        return {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 4,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": self.zero, "reduce_bucket_size": 1000},
            "pipeline": {"stages": self.stages},
            **({"bf16": {"enabled": True, "check_grad_overflow": False}} if self.dtype == "bf16" else {}),
        }


PIPELINES = [Pipeline(1, 2, 2, is_tied=True)]
MORE_PIPELINES = [
    Pipeline(1, 2, 4),
    Pipeline(1, 3, 3, is_tied=True),
    Pipeline(0, 2, 2),
    Pipeline(0, 2, 4, is_tied=True),
    Pipeline(0, 2, 2, "fp32"),
    Pipeline(1, 2, 4, "fp32", is_tied=True),
    Pipeline(1, 4, 4, method="uniform"),
    Pipeline(1, 2, 2, method="type:layer"),
]


@pytest.mark.parametrize("one", [*PIPELINES, *(pytest.param(one, marks=pytest.mark.long) for one in MORE_PIPELINES)])
def test_each_stage_of_a_pipeline_holds_what_is_said(one):
    model = {name: value for name, value in LLAMA.items() if name not in ("model_type", "architectures")}
    job = {"model": model, "config": one.config, "stages": one.stages, "tied": one.is_tied,
           "arguments": {"partition_method": one.method}}  # fmt: skip
    done = run("pipeline", json.dumps(job), ranks=one.ranks, timeout=240)
    assert done.is_complete, done.errors[0]
    facts = Facts(world_size=one.ranks)
    facts.model = Model("", {**LLAMA, "tie_word_embeddings": one.is_tied})
    document = documents.from_bytes(json.dumps(one.config).encode(), "config.json")
    found = setup.of(config_of(document, target=INSTALLED, stack="deepspeed", facts=facts))
    parameters = tuple(tensors.of(facts.model))
    degrees = found.part.degrees._replace(method=one.method)
    stages = pipeline.stages(parameters, facts.model.config, degrees)
    for number, stage in enumerate(stages):
        answers = [answer for answer in done.answers if answer["stage"] == number]
        assert sorted(one.size for one in stage.tensors) == sorted(answers[0]["sizes"])
        said = states.of(found._replace(tensors=stage.tensors, part=found.part._replace(stage=stage)))
        for kind in ("parameters", "master_weights", "optimizer_states", "gradients"):
            held = max(answer["boundary"][kind] for answer in answers)
            assert said[kind].gpu.bytes.least <= held <= said[kind].gpu.bytes.most, (number, kind)
            assert said[kind].gpu.bytes.is_exact


# ------------------------------------------------------------------------------------------------------------- experts


def experts(stage: int, ranks: int, degree: int, model: str = "mixtral", **more) -> Case:
    shared = {"enabled": True, "autoep_size": degree, "use_grouped_mm": False}  # whose kernel wants sizes that divide
    values = {"num_local_experts": 4} if model == "mixtral" else {"num_experts": 4}
    return Case(model, stage, ranks, config={"expert_parallel": shared}, zero_init=False, values=values, **more)


EXPERTS = [experts(1, 8, 2)]
MORE_EXPERTS = [experts(0, 8, 2), experts(2, 16, 4), experts(3, 8, 2), experts(2, 8, 4, "qwen3_moe"), experts(1, 4, 4)]


@pytest.mark.parametrize(
    "one", [*EXPERTS, *(pytest.param(one, marks=pytest.mark.long) for one in MORE_EXPERTS)], ids=repr
)
def test_experts_are_shared_before_zero_divides_their_states(one):
    found = setup_of_model(one)
    held = measure(one._replace(rank=partition.holds_most(found)))
    assert [tensor.size for tensor in found.tensors] == [tensor.size for tensor in held.tensors]
    # The other ranks are not there and send no tokens, so routers get no gradient.
    routers = sum(tensor.size for tensor in held.tensors if ".router." in tensor.name)
    said = states.of(found)["gradients"].gpu.elements
    (gradients,) = held.elements("gradients").values()
    assert said.least - routers <= gradients <= said.most
    assert [words for words in differences(one, held, found) if not words.startswith("gradients")] == []


# --------------------------------------------------------------------------------------------------------- activations

WIDE = {
    "model_type": "llama", "vocab_size": 300, "hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 8,
    "num_attention_heads": 8, "num_key_value_heads": 4, "tie_word_embeddings": False,
}  # fmt: skip


def long(*values):
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("way", "degree", "is_checkpointed", "around"),
    [
        long("tensors", 2, False, {}),
        ("sequences", 4, False, {}),
        long("tensors", 4, False, {"vocab_size": 6000}),
        long("tensors", 4, True, {}),
        long("tensors", 4, True, {"vocab_size": 6000}),
        long("sequences", 2, True, {"vocab_size": 6000}),
        long("sequences", 4, True, {}),
        long("sequences", 8, False, {"num_key_value_heads": 8}),
    ],
)
def test_what_a_step_holds_where_ranks_share_it(way, degree, is_checkpointed, around):
    model, length, micro_batch = {**WIDE, **around}, 256, 1  # of several sequences, a mask is likely
    job = {"model": model, "attention": "sdpa", "checkpointed": is_checkpointed, "way": way, "degree": degree,
           "ranks": degree, "length": length, "micro_batch": micro_batch}  # fmt: skip
    done = run("shared_step", json.dumps(job), ranks=1)
    assert done.is_complete, done.errors[0]
    shared = Shared(degree) if way == "tensors" else Shared(sequences=degree)
    part = length if way == "tensors" else length // degree
    computed = Pass(micro_batch, part, "bf16", is_checkpointed, "sdpa", kernels="transformers", loss="logits")
    said = activations(model, computed._replace(shared=shared))
    assert said.least <= done.answers[0]["peak"] <= said.most
    assert said.likely == pytest.approx(done.answers[0]["peak"], rel=0.08)


@pytest.mark.long
@pytest.mark.parametrize(("stages", "micro_batches", "interval"), [(2, 4, 0), (4, 8, 0), (2, 1, 0), (2, 4, 1)])
def test_a_stage_holds_the_micro_batches_in_flight(stages, micro_batches, interval):
    length = 128
    layers = {"activation_checkpoint_interval": interval, "checkpointable_layers": ["Layer"]} if interval else {}
    linted = {**Pipeline(1, stages, stages).config, "gradient_accumulation_steps": micro_batches}
    job = {"model": {name: value for name, value in WIDE.items() if name != "model_type"}, "config": linted,
           "stages": stages, "tied": False, "length": length,
           "arguments": {"partition_method": "type:layer", **layers}}  # fmt: skip
    done = run("pipeline", json.dumps(job), ranks=stages, timeout=240)
    assert done.is_complete, done.errors[0]
    facts = Facts(world_size=stages)
    facts.model, facts.sequence_length = Model("", WIDE), length
    document = documents.from_bytes(json.dumps(linted).encode(), "config.json")
    found = setup.of(config_of(document, target=INSTALLED, stack="deepspeed", facts=facts))
    found = found._replace(attention="eager", is_checkpointed=bool(interval))
    degrees = found.part.degrees._replace(method="type:layer")
    for stage in pipeline.stages(tuple(tensors.of(facts.model)), WIDE, degrees):
        said = in_parallel(found._replace(tensors=stage.tensors, part=found.part._replace(stage=stage)))
        (held,) = (answer["peak"] for answer in done.answers if answer["stage"] == stage.number)
        assert said.least <= held <= said.most, stage.number
        assert said.likely == pytest.approx(held, rel=0.12), stage.number
