"""What quantized weights take, held to the storages that ``tools/quantized_layers.py`` counted in the real classes."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

from ds_lint.commands.parser import parse
from ds_lint.facts import tensors
from ds_lint.facts.model import Model
from ds_lint.facts.packed_weights import of_files, packed_tensors, parsed
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.frameworks import FRAMEWORKS
from ds_lint.frameworks.record import PackedWeights
from ds_lint.knowledge import tables

STORE = tables.load("quantization")
HALF = 2  # bytes


def taken(model: Model, weights) -> tuple[int, float]:
    """The bytes of the parameters, and of what lies beside them."""
    frozen = [one._replace(is_trained=False) for one in tensors.of(model)]
    found = packed_tensors(frozen, model, weights, run="bfloat16", has_linear_experts=False)
    width = {True: lambda one: one.packed.width, False: lambda _one: HALF}
    sizes = sum(one.size * width[one.packed is not None](one) for one in found)
    return sizes, sum(one.packed.beside[1] for one in found if one.packed is not None)


@pytest.mark.parametrize("one", STORE["counted"], ids=lambda one: f"{one['model']}-{one['quantization']}")
def test_a_quantized_model_takes_what_was_counted(one):
    config = {"model_type": one["model"], **STORE["models"][one["model"]]}
    weights = of_files(
        Model("", {**config, "quantization_config": {"quant_method": "bitsandbytes", **one["quantization"]}})
    )
    assert taken(Model("", config), weights) == (one["parameters"], one["beside"])


@pytest.mark.parametrize(
    ("text", "bits", "is_nested", "storage", "skipped"),
    [
        ("nf4", 4, False, "uint8", None),
        ("fp4,double", 4, True, "uint8", None),
        ("nf4,storage=bfloat16,skip=lm_head+mlp", 4, False, "bfloat16", ("lm_head", "mlp")),
        ("nf4,skip=lm_head+", 4, False, "uint8", ("lm_head",)),
        ("int8", 8, False, "uint8", None),
    ],
)
def test_the_option_describes_quantized_weights(text, bits, is_nested, storage, skipped):
    found = parsed(text)
    assert (found.bits, found.is_nested, found.storage, found.skipped) == (bits, is_nested, storage, skipped)


@pytest.mark.parametrize("text", ["q4", "int8,double", "nf4,storage=int3", "nf4,skip=", "none,double", ""])
def test_other_texts_are_refused(text):
    with pytest.raises(UnreadableFact):
        parsed(text)


def fields(framework: str, **given) -> PackedWeights | None:
    return FRAMEWORKS[framework].packed(given.get)


def test_frameworks_have_defaults_of_their_own():
    """Read in the sources of LLaMA-Factory 0.9.5, axolotl 0.19.0, ms-swift 4.6.0 and TRL 1.16.0."""
    found = {
        "LLaMA-Factory": fields("LLaMA-Factory", quantization_bit=4),
        "axolotl": fields("axolotl", adapter="qlora", load_in_4bit=True),
        "ms-swift": fields("ms-swift", quant_method="bnb", quant_bits=4),
        "TRL": fields("TRL", load_in_4bit=True),
    }
    assert {name: (one.bits, one.is_nested, one.storage) for name, one in found.items()} == {
        "LLaMA-Factory": (4, True, ""),  # the dtype of the run
        "axolotl": (4, True, "bfloat16"),
        "ms-swift": (4, True, "uint8"),
        "TRL": (4, False, "uint8"),
    }


def test_fields_of_frameworks_win_over_their_defaults():
    assert fields("LLaMA-Factory", quantization_bit="4", double_quantization="false").is_nested is False
    assert fields("LLaMA-Factory", quantization_bit=8).bits == 8
    assert fields("LLaMA-Factory", quantization_bit=4, quantization_method="hqq").method == "hqq"
    plain = {"bnb_4bit_use_double_quant": False}
    assert fields("axolotl", adapter="qlora", load_in_4bit=True, bnb_config_kwargs=plain).is_nested is False
    assert fields("axolotl", adapter="lora", load_in_4bit=True) is None
    assert fields("ms-swift", quant_method="eetq", quant_bits=8).method == "eetq"
    assert fields("TRL", load_in_4bit="True", use_bnb_nested_quant="True").is_nested is True
    assert fields("TRL", load_in_8bit=True).bits == 8


SCRIPT = """
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

args = TrainingArguments(output_dir="out", deepspeed="ds.json", bf16=True, per_device_train_batch_size=1)
way = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_use_double_quant={nested}, bnb_4bit_quant_storage=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("model", quantization_config=way)
model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"]))
Trainer(model, args).train()
"""
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 1024,
    "intermediate_size": 2816, "num_attention_heads": 16, "num_hidden_layers": 8, "num_key_value_heads": 16,
    "vocab_size": 32000,
}  # fmt: skip
Z2 = {"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}


@pytest.fixture
def reported(tmp_path, monkeypatch, capsys):
    """What ``ds-lint memory`` says as JSON of a project with these files."""

    def reported(files: dict, *arguments: str) -> dict:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        write_into(tmp_path)({"ds.json": Z2, "model/config.json": LLAMA, ".git/HEAD": "", **files})
        parse(["memory", *arguments, "--output-format", "json"])
        return json.loads(capsys.readouterr().out)

    return reported


@pytest.mark.parametrize(("nested", "double"), [("True", True), ("False", False), ("args.double", None)])
def test_a_script_tells_how_it_quantizes(reported, nested, double):
    files = {"train.py": SCRIPT.replace("{nested}", nested), "run.sh": "deepspeed --num_gpus 2 train.py\n"}
    found = reported(files, "run.sh")
    assert found["setup"]["quantization"] == {
        "method": "bitsandbytes",
        "bits": 4,
        "double": double,
        "source": "`load_in_4bit`, ./train.py:7",
    }
    held = found["rank"]["parameters"]["bytes"]
    assert (held["least"] < held["most"]) is (double is None)
    assert "unpacked" in found["rank"]


def test_what_a_script_may_quantize_is_said(reported):
    script = SCRIPT.replace("load_in_4bit=True", "load_in_4bit=args.four").replace("{nested}", "True")
    found = reported({"train.py": script, "run.sh": "deepspeed --num_gpus 2 train.py\n"}, "run.sh")
    assert any("may quantize the weights" in note for note in found["notes"])
    held = found["rank"]["parameters"]["bytes"]
    assert held["least"] < held["likely"] / 3
    answered = reported({}, "run.sh", "--quantization", "none")
    assert answered["rank"]["parameters"]["bytes"]["least"] == held["likely"]
    assert "quantization" not in answered["setup"]


def test_weights_of_8_bit_stay_whole_at_stage_3(reported):
    given = ("ds.json", "--stack", "deepspeed", "--model", "model", "--world-size", "8", "--lora", "r=8")
    bytes_of = {}
    for stage in (2, 3):
        config = {**Z2, "bf16": {"enabled": True}, "zero_optimization": {"stage": stage}}
        for way in ("nf4", "int8"):
            found = reported({"ds.json": config}, *given, "--quantization", way)
            bytes_of[stage, way] = found["rank"]["parameters"]["bytes"]["likely"]
    assert bytes_of[3, "nf4"] < bytes_of[2, "nf4"] / 2
    assert bytes_of[3, "int8"] > 8 * (4 * 1024**2 + 3 * 1024 * 2816)  # one byte for each weight of the layers


def test_files_of_another_method_are_what_is_held(reported, tmp_path):
    config = {**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4}}
    given = ("ds.json", "--stack", "deepspeed", "--model", "model", "--world-size", "2", "--lora", "r=8")
    assert "gptq" in reported({"model/config.json": config}, *given)["left_out"][0]
    header = {
        "model.layers.0.mlp.up_proj.qweight": {"dtype": "I32", "shape": [128, 2816], "data_offsets": [0, 1441792]}
    }
    text = json.dumps(header).encode()
    (tmp_path / "model" / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(1441792))
    found = reported({"model/config.json": config}, *given)
    assert found["left_out"] == ["activations (set --micro-batch and --sequence-length)"]
    assert 1441792 < found["rank"]["parameters"]["bytes"]["least"] < 3 * 1441792


def test_packed_weights_in_fp32_are_refused(reported, capsys, tmp_path):
    given = ("ds.json", "--stack", "deepspeed", "--model", "model", "--world-size", "2", "--lora", "r=8")
    reported({"ds.json": {**Z2, "bf16": {"enabled": True}}}, *given, "--quantization", "nf4")
    assert parse(["memory", *given, "--quantization", "nf4,storage=float32"]) == 2
    assert "are float32, and the engine casts them to bf16" in capsys.readouterr().err
