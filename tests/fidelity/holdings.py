"""What a real engine holds and what ds-lint says it does, of one small model with one config."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import transformers
from installed import INSTALLED
from linted import config_of
from ranks import run

from ds_lint.facts import Facts
from ds_lint.facts.lora import Adapters
from ds_lint.facts.model import Model
from ds_lint.facts.safetensors import Parameter
from ds_lint.facts.tensors import Tensor
from ds_lint.footprint import host, partition, setup, states
from ds_lint.footprint.band import exactly
from ds_lint.footprint.placed import Placed
from ds_lint.source import documents

if TYPE_CHECKING:
    from ds_lint.footprint.setup import TrainingSetup

Elements = dict[str, int]  # by dtype
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4, "uint8": 1, "int8": 1}
KINDS = {  # of states, with the roles that programs/held.py tells apart
    "parameters": ("parameters", "persistent", "secondary", "quantization"),
    "gradients": ("gradients",),
    "master_weights": ("master_weights",),
    "optimizer_states": ("optimizer_states",),
}


_NOTHING: dict[str, Any] = {}
_RATE: dict[str, Any] = {"lr": 1e-3}


class Case(NamedTuple):
    """A model, a config and one rank of many."""

    model: str
    stage: int
    ranks: int
    dtype: str = "bf16"
    rank: int = 0
    zero: dict[str, Any] = _NOTHING  # of the section zero_optimization
    config: dict[str, Any] = _NOTHING  # of all others
    optimizer: str = "AdamW"
    parameters: dict[str, Any] = _RATE  # of the optimizer
    steps: int = 2
    accumulation_steps: int = 1
    lora: dict[str, Any] | None = None
    by_trainer: bool = False
    zero_init: bool = True  # at stage 3, whether the model is built in parts
    values: dict[str, Any] = _NOTHING  # of the model's config, beside those of ``MODELS``
    frozen: str = ""  # in the names of parameters that are not trained
    quantization: dict[str, Any] | None = None  # the arguments of BitsAndBytesConfig
    prepares: bool = True  # the quantized model with peft's ``prepare_model_for_kbit_training``

    @property
    def model_config(self) -> dict[str, Any]:
        """The ``config.json`` of the model, with what is not the default of its class."""
        model = MODELS[self.model]
        model_type = getattr(transformers, model["config"]).model_type
        return {"model_type": model_type, "architectures": [model["class"]], **model["values"], **self.values}

    @property
    def deepspeed_config(self) -> dict[str, Any]:
        """The whole config."""
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": self.accumulation_steps,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "zero_optimization": {"stage": self.stage, "reduce_bucket_size": 1000, **self.zero},
            **self.config,
        }
        if not self.by_trainer:
            config["optimizer"] = {"type": self.optimizer, "params": self.parameters}
        if self.dtype != "fp32":
            # Lamb demands a scale that changes, and a step only comes if it does not overflow.
            fixed = {"initial_scale_power": 1} if self.optimizer == "Lamb" else {"loss_scale": 1}
            scale = fixed if self.dtype == "fp16" else {"check_grad_overflow": False}
            config[self.dtype] = {"enabled": True, **scale, **self.config.get(self.dtype, {})}
        return config


class Held(NamedTuple):
    """What the engine of a rank held."""

    tensors: tuple[Tensor, ...]
    moments: dict[str, dict[str, Elements]]
    reduced: int  # elements of the largest tensor that was reduced

    def elements(self, kind: str, moment: str = "boundary") -> Elements:
        """The elements of a kind of states by dtype."""
        found: Elements = {}
        for role in KINDS.get(kind, (kind,)):
            for dtype, count in self.moments[moment][role].items():
                found[dtype] = found.get(dtype, 0) + count
        return found


_OF_JOB = ("ranks", "rank", "dtype", "steps", "lora", "frozen", "by_trainer", "quantization", "prepares")
_measured: dict[str, Held] = {}


def measure(case: Case) -> Held:
    """Make the engine and train, once for each case."""
    if repr(case) not in _measured:
        _measured[repr(case)] = _measure(case)
    return _measured[repr(case)]


def _measure(case: Case) -> Held:
    model = MODELS[case.model]
    job = {
        "model": {**model, "values": {**model["values"], **case.values}},
        "config": case.deepspeed_config,
        "zero_init": case.zero_init and case.stage == 3,
        **{name: getattr(case, name) for name in _OF_JOB},
    }
    done = run("held", json.dumps(job), ranks=1, timeout=120)
    assert done.is_complete, done.errors[0]
    (answer,) = done.answers
    assert answer is not None
    tensors = tuple(Tensor(*rest, shape=tuple(shape)) for *rest, shape in answer["tensors"])
    return Held(tensors, answer["moments"], answer["reduced"])


def measure_most(case: Case) -> tuple[Case, Held]:
    """The same of the rank that is said to hold most."""
    held = measure(case)
    rank = partition.holds_most(setup_of(case, held.tensors))
    case = case._replace(rank=rank)
    return (case, measure(case)) if rank else (case, held)


def setup_of(case: Case, tensors: tuple[Tensor, ...]) -> TrainingSetup:
    """The setup that ds-lint reads from the config, with the parameters of the model."""
    facts = Facts(world_size=case.ranks)
    if case.quantization is not None:
        _take_quantized(facts, case)
    else:
        facts.model = Model("", {}, parameters=[Parameter(one.name, (one.size,), "BF16") for one in tensors])
    document = documents.from_bytes(json.dumps(case.deepspeed_config).encode(), "config.json")
    found = setup.of(config_of(document, target=INSTALLED, stack="deepspeed", facts=facts))
    assert found is not None
    if case.quantization is not None:
        return found
    found = found._replace(tensors=tensors, uses_zero_init=case.zero_init)
    return found._replace(decays_apart=True, optimizer="adamw_torch") if case.by_trainer else found


def _take_quantized(facts: Facts, case: Case) -> None:
    """The model with what its ``config.json`` says of its weights, and the adapters; ds-lint works out the rest."""
    quantization = {"quant_method": "bitsandbytes", **(case.quantization or {})}
    facts.model = Model("", {**case.model_config, "quantization_config": quantization})
    assert case.lora is not None
    facts.lora = Adapters(case.lora["r"], tuple(case.lora["target_modules"]))


def setup_of_model(case: Case) -> TrainingSetup:
    """The setup that ds-lint reads from the config and the ``config.json`` of the model, however ranks share it."""
    facts = Facts(world_size=case.ranks)
    facts.model = Model("", case.model_config)
    document = documents.from_bytes(json.dumps(case.deepspeed_config).encode(), "config.json")
    found = setup.of(config_of(document, target=INSTALLED, stack="deepspeed", facts=facts))
    assert found is not None
    return found._replace(uses_zero_init=case.zero_init)


def differences(case: Case, held: Held, setup: TrainingSetup | None = None) -> list[str]:
    """What ds-lint says otherwise than the engine, of each kind of states, in words."""
    setup = setup or setup_of(case, held.tensors)
    said = states.of(setup)
    said["buckets"] = said["buckets"].plus(Placed(host=host.buffers(setup)))
    found = {kind: held.elements(kind) for kind in KINDS}
    others = held.elements("other")
    if case.quantization is not None:  # bitsandbytes has tables in fp32 for all weights together
        others = {dtype: count for dtype, count in others.items() if dtype != "float32"}
    found["buckets"] = _sum(held.elements("buckets", "backward"), others)
    if case.stage == 0 and case.ranks > 1:
        found["buckets"] = {DTYPES[case.dtype]: held.reduced}
    if setup.uses_bf16_optimizer:  # reduces as stage 0 does, through copies that are gone at once
        del found["buckets"]
    if setup.optimizer_offload is not None and setup.optimizer_offload.device == "nvme":
        # Gradients on their way to NVMe have no name that tells them from the buffers.
        found["gradients"] = _sum(found["gradients"], found.pop("buckets"))
        said["gradients"] = said["gradients"].plus(said["buckets"])
    if case.optimizer == "Muon":  # keeps momentum and updates in places of its own
        for kind in ("optimizer_states", "buckets"):
            found["gradients"] = _sum(found["gradients"], found.pop(kind))
            said["gradients"] = said["gradients"].plus(said[kind])
    return [words for kind in found if (words := _difference(kind, said[kind], found[kind]))]


def _sum(one: Elements, other: Elements) -> Elements:
    return {dtype: one.get(dtype, 0) + other.get(dtype, 0) for dtype in WIDTHS}


def _difference(kind: str, said: Placed, held: Elements) -> str:
    """Whether the elements and the bytes that are said are those that are held, GPU and host together."""
    elements = sum(held.get(dtype, 0) for dtype in WIDTHS)
    size = sum(count * WIDTHS.get(dtype, 0) for dtype, count in held.items())
    counts, sizes = said.gpu.elements.plus(said.host.elements), said.gpu.bytes.plus(said.host.bytes)
    if kind == "parameters" and {"uint8", "int8"} & held.keys():  # scales have bytes alone
        counts = exactly(elements)
    if counts.least <= elements <= counts.most and sizes.least <= size <= sizes.most:
        return ""
    return f"{kind}: {elements:,} elements, {size:,} bytes; said {counts}, {sizes}"


def is_exact(case: Case, held: Held) -> bool:
    """Whether ds-lint gives one number for each kind of states, and not a band."""
    said = states.of(setup_of(case, held.tensors))
    return all(place.elements.is_exact and place.bytes.is_exact for placed in said.values() for place in placed)


# ------------------------------------------------------------------------------------- models of sizes that are odd


def _model(name: str, config: str, **values: Any) -> dict[str, Any]:
    return {"class": name, "config": config, "values": values}


_SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 40, "intermediate_size": 70, "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip
MODELS = {
    "llama": _model("LlamaForCausalLM", "LlamaConfig", **_SIZES, num_key_value_heads=2),
    "gpt2": _model("GPT2LMHeadModel", "GPT2Config", vocab_size=97, n_embd=36, n_layer=2, n_head=3, n_positions=33),
    "t5": _model(
        "T5ForConditionalGeneration", "T5Config",
        vocab_size=101, d_model=36, d_kv=7, d_ff=59, num_layers=2, num_heads=3, decoder_start_token_id=0,
    ),
    "bert": _model("BertForMaskedLM", "BertConfig", **_SIZES, max_position_embeddings=31),
    "gemma": _model("GemmaForCausalLM", "GemmaConfig", **_SIZES, num_key_value_heads=1, head_dim=12),
    "opt": _model(
        "OPTForCausalLM", "OPTConfig",
        vocab_size=97, hidden_size=36, ffn_dim=61, num_hidden_layers=2, num_attention_heads=3, word_embed_proj_dim=36,
        max_position_embeddings=31,
    ),
    "bloom": _model("BloomForCausalLM", "BloomConfig", vocab_size=103, hidden_size=36, n_layer=2, n_head=3),
    "phi": _model("PhiForCausalLM", "PhiConfig", **_SIZES, partial_rotary_factor=0.4),
    "mixtral": _model(
        "MixtralForCausalLM", "MixtralConfig", **_SIZES, num_key_value_heads=2, num_local_experts=3
    ),
    "qwen3_moe": _model(
        "Qwen3MoeForCausalLM", "Qwen3MoeConfig",
        **_SIZES, num_key_value_heads=2, head_dim=10, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=23,
    ),
    "deepseek_v3": _model(
        "DeepseekV3ForCausalLM", "DeepseekV3Config",
        **_SIZES, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
        moe_intermediate_size=21, first_k_dense_replace=1, q_lora_rank=13, kv_lora_rank=11, qk_rope_head_dim=6,
        qk_nope_head_dim=7, v_head_dim=9,
    ),
    "paligemma": _model(
        "PaliGemmaForConditionalGeneration", "PaliGemmaConfig",
        text_config={"model_type": "gemma", **_SIZES, "num_key_value_heads": 1, "head_dim": 12},
        vision_config={
            "model_type": "siglip_vision_model", "hidden_size": 20, "intermediate_size": 31, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 12, "patch_size": 3, "vision_use_head": False,
        },
        projection_dim=40, hidden_size=40, image_token_index=96,
    ) | {"image": {"token": 96, "tokens": 16, "shape": [1, 3, 12, 12]}},
    "gpt_bigcode": _model(
        "GPTBigCodeForCausalLM", "GPTBigCodeConfig", vocab_size=97, n_embd=36, n_layer=2, n_head=3, n_positions=33,
    ),
    "falcon": _model(
        "FalconForCausalLM", "FalconConfig", vocab_size=97, hidden_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_kv_heads=2,
    ),
    "cohere": _model("CohereForCausalLM", "CohereConfig", **_SIZES, num_key_value_heads=2, eos_token_id=5),
    "stablelm": _model("StableLmForCausalLM", "StableLmConfig", **_SIZES, num_key_value_heads=2),
    "starcoder2": _model("Starcoder2ForCausalLM", "Starcoder2Config", **_SIZES, num_key_value_heads=2),
    "gpt_neox": _model("GPTNeoXForCausalLM", "GPTNeoXConfig", **_SIZES),
    "qwen2": _model("Qwen2ForCausalLM", "Qwen2Config", **_SIZES, num_key_value_heads=2),
    "qwen3": _model("Qwen3ForCausalLM", "Qwen3Config", **_SIZES, num_key_value_heads=2, head_dim=10),
    "olmo2": _model("Olmo2ForCausalLM", "Olmo2Config", **_SIZES, num_key_value_heads=2),
    # Of this one, partitions on two ranks are large enough to be swapped to NVMe.
    "wide": _model(
        "LlamaForCausalLM", "LlamaConfig",
        vocab_size=3001, hidden_size=640, intermediate_size=1501, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    ),
}  # fmt: skip
