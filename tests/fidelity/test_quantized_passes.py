"""What the passes of a model with quantized weights hold, operation by operation, in the real classes on a CPU.

There, layers of 8 bit compute with ``MatMul8bitFp``, which keeps the same input in the same place as ``MatMul8bitLt``.
"""

from __future__ import annotations

import tempfile

import pytest
from installed import measured_with_the_newest
from linted import config_of

pytest.importorskip("peft")
pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed; its build for CPUs is enough")
import peft
import torch
import transformers

from ds_lint.facts import Facts
from ds_lint.facts.lora import Adapters
from ds_lint.facts.model import Model
from ds_lint.facts.packed_weights import parsed
from ds_lint.footprint import quantized, setup
from ds_lint.source import documents
from tools.activations.timeline import record

pytestmark = [pytest.mark.fidelity, pytest.mark.long, measured_with_the_newest]

SIZES = {
    "vocab_size": 500, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 4, "tie_word_embeddings": False,
}  # fmt: skip
SAMPLES, LENGTH = 2, 128
TARGETS = ("q_proj", "v_proj")
NF4 = {"load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16"}
ROOM = 0.03


def peak(quantization: dict | None, *, is_checkpointed: bool, is_reentrant: bool = False) -> int:
    """The most bytes at once in one step, beside parameters and their gradients."""
    config = transformers.LlamaConfig(**SIZES, use_cache=False)
    with tempfile.TemporaryDirectory() as folder:
        transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
        more = {"quantization_config": transformers.BitsAndBytesConfig(**quantization)} if quantization else {}
        model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, use_cache=False, **more)
    adapters = peft.LoraConfig(r=8, target_modules=list(TARGETS), task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, adapters, autocast_adapter_dtype=False)
    if is_checkpointed:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": is_reentrant})
    model.train()
    ids = torch.randint(0, SIZES["vocab_size"], (SAMPLES, LENGTH))
    return record(model, {"input_ids": ids, "labels": ids}).peak


def said(weights: str) -> setup.TrainingSetup:
    facts = Facts(world_size=1)
    facts.model, facts.packed = Model("", {"model_type": "llama", **SIZES}), parsed(weights)
    facts.lora = Adapters(8, TARGETS)
    text = b'{"bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}'
    found = setup.of(config_of(documents.from_bytes(text, "config.json"), stack="deepspeed", facts=facts))
    assert found is not None
    return found._replace(sequence_length=LENGTH, is_checkpointed=True)


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_layers_of_4_bit_keep_nothing_more(is_checkpointed):
    """The weight that is unpacked in the backward pass is there while less is kept than at the peak."""
    usual = peak(None, is_checkpointed=is_checkpointed)
    unpacked = quantized.unpacked(said("nf4"))
    assert usual <= peak(NF4, is_checkpointed=is_checkpointed) <= usual + unpacked.most


def test_computing_in_fp32_takes_copies_of_a_layer():
    usual, full = (peak(way, is_checkpointed=True) for way in (NF4, {"load_in_4bit": True}))
    unpacked = quantized.unpacked(said("nf4")._replace(weights=parsed("nf4")._replace(computes_in_full=True)))
    assert usual < full <= usual + unpacked.most


def test_layers_of_8_bit_keep_their_inputs_if_recomputation_is_not_reentrant():
    usual, reentrant = peak(None, is_checkpointed=True), peak(None, is_checkpointed=True, is_reentrant=True)
    int8 = {"load_in_8bit": True}
    kept = quantized.kept_inputs(said("int8"))
    more = peak(int8, is_checkpointed=True) - usual
    assert kept.likely * (1 - ROOM) <= more <= kept.most
    # Those of one layer at a time, in which a weight is unpacked, as on a GPU in the backward pass.
    of_a_layer = kept.likely / SIZES["num_hidden_layers"] * (1 + ROOM) + quantized.unpacked(said("int8")).most
    assert peak(int8, is_checkpointed=True, is_reentrant=True) - reentrant <= of_a_layer
