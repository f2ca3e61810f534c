"""The training runs of part ``memory``, and what ``ds-lint memory`` says of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts import Facts
from ds_lint.facts.lora import Adapters
from ds_lint.facts.model import Model
from ds_lint.footprint import setup as training_setup
from ds_lint.footprint.band import NOTHING
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.kernels import Kernels
from ds_lint.knowledge import keys
from ds_lint.linter.choice import choose
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.source import documents
from ds_lint.targets.distributions import installed

if TYPE_CHECKING:
    from ds_lint.footprint.estimate import Estimate
    from tools.gpu.setting import Result

# The phases that are measured, each with the phase of an estimate that is to cover it.
PHASES = {"initialization": "initialization", "first step": "step", "second step": "step", "saving": "saving"}
DOES_NOT_FIT, OUT_OF_MEMORY = "does not fit", "out of memory"  # what an estimate says before a run, and what a run says
CHECKPOINT, WEIGHTS, LEFT_OUT = "checkpoint", "16-bit weights", "left out"  # what is saved
_MOST_SAVED = 2_000_000_000  # bytes; more takes longer to write than all the rest
_RANK = 16


def _llama(hidden: int, intermediate: int, layers: int, heads: int, groups: int, vocabulary: int = 32000) -> Result:
    return {
        "model_type": "llama", "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": groups, "vocab_size": vocabulary,
        "max_position_embeddings": 4096, "tie_word_embeddings": False,
    }  # fmt: skip


MODELS: dict[str, Result] = {
    "llama 0.1B": _llama(768, 2048, 12, 12, 12),
    "llama 0.35B": _llama(1024, 2816, 24, 16, 16),
    "llama 1.1B": _llama(2048, 5632, 22, 32, 4),  # as TinyLlama
    "llama 3B": _llama(3072, 8192, 28, 24, 8, 128256) | {"tie_word_embeddings": True},  # as Llama 3.2
    "llama 7B": _llama(4096, 11008, 32, 32, 32),  # as Llama 2
    "gpt2 0.35B": {
        "model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16, "n_positions": 1024, "vocab_size": 50257,
    },
    "qwen2 0.5B": {  # as Qwen2.5: a small model with a large vocabulary
        "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    },
}  # fmt: skip


class MemorySetup(NamedTuple):
    """A training run of one rank."""

    model: str
    stage: int
    micro_batch: int = 1
    sequence_length: int = 512
    dtype: str = "bf16"
    offload: str = ""  # what goes to the CPU: "optimizer", or "optimizer and parameters"
    is_pinned: bool = False
    is_checkpointed: bool = False
    attention: str = "sdpa"
    accumulation_steps: int = 1
    is_adapted: bool = False  # LoRA

    @property
    def name(self) -> str:
        """In words."""
        words = [
            self.model,
            f"stage {self.stage}",
            f"{self.micro_batch} x {self.sequence_length}",
            self.dtype,
            f"{self.offload} on the CPU" if self.offload else "",
            "page-locked" if self.is_pinned else "",
            "gradient checkpointing" if self.is_checkpointed else "",
            self.attention,
            f"{self.accumulation_steps} micro batches" if self.accumulation_steps > 1 else "",
            "LoRA" if self.is_adapted else "",
        ]
        return ", ".join(word for word in words if word)

    @property
    def seconds(self) -> float:
        """What the run takes: a start, more for a large model, and the pages of the host for what lies there."""
        billions = float(self.model.split()[1].rstrip("B"))
        return 5 + billions + (9 * billions if self.offload else 0) + (3 if self.is_adapted else 0)


_BOTH = "optimizer and parameters"
_S = MemorySetup
# The most telling first: whatever number of them is measured, it has several stages, sizes and places.
SETUPS: tuple[MemorySetup, ...] = (
    _S("llama 0.35B", 2),
    _S("llama 0.35B", 3),
    _S("llama 1.1B", 2, sequence_length=2048),
    _S("llama 0.35B", 2, offload="optimizer"),
    _S("llama 0.35B", 1),
    _S("llama 0.35B", 0),
    _S("llama 1.1B", 3, sequence_length=2048, is_checkpointed=True),
    _S("llama 0.35B", 3, offload=_BOTH),
    _S("llama 7B", 2, sequence_length=2048, is_checkpointed=True, is_adapted=True),
    _S("qwen2 0.5B", 2, 2, 2048),
    _S("llama 1.1B", 2, sequence_length=2048, attention="eager"),
    _S("llama 3B", 2, sequence_length=2048, is_checkpointed=True),
    _S("llama 7B", 2, is_checkpointed=True),
    _S("gpt2 0.35B", 2, 2, 1024),
    _S("llama 0.35B", 2, dtype="fp32"),
    _S("llama 0.35B", 3, dtype="fp16"),
    _S("llama 0.1B", 2, 8),
    _S("llama 1.1B", 1),
    _S("llama 1.1B", 0, is_checkpointed=True),
    _S("llama 0.35B", 1, accumulation_steps=2),
    _S("llama 0.35B", 2, accumulation_steps=2),
    _S("llama 0.35B", 3, accumulation_steps=2),
    _S("llama 0.35B", 2, 4, 2048),
    _S("llama 0.35B", 2, 4, 2048, is_checkpointed=True),
    _S("llama 0.35B", 3, 4, 2048),
    _S("llama 0.35B", 2, 4, 2048, attention="eager"),
    _S("llama 0.35B", 3, 4, 2048, is_checkpointed=True, attention="eager"),
    _S("llama 7B", 3, sequence_length=2048, is_checkpointed=True, is_adapted=True),
    _S("llama 1.1B", 2, offload="optimizer"),
    _S("llama 0.1B", 0),
    _S("llama 0.1B", 1),
    _S("llama 0.1B", 2),
    _S("llama 0.1B", 3),
    _S("llama 0.1B", 2, dtype="fp16"),
    _S("llama 0.1B", 3, dtype="fp32"),
    _S("llama 0.1B", 0, dtype="fp32"),
    _S("llama 0.1B", 1, offload="optimizer"),
    _S("llama 0.1B", 2, offload="optimizer", is_pinned=True),
    _S("llama 0.1B", 3, offload=_BOTH, is_pinned=True),
    _S("qwen2 0.5B", 3, 2, 2048, is_checkpointed=True),
    _S("gpt2 0.35B", 3, 2, 1024, is_checkpointed=True),
    _S("gpt2 0.35B", 0, 1, 512, attention="eager"),
    _S("llama 0.35B", 2, offload="optimizer", is_pinned=True, accumulation_steps=2),
    _S("llama 1.1B", 2, 4, 2048, is_checkpointed=True),
    _S("llama 1.1B", 3, 2, 2048),
    _S("llama 7B", 0, is_checkpointed=True, is_adapted=True),
    _S("llama 7B", 2, is_adapted=True),
    _S("llama 3B", 3, is_checkpointed=True),
    _S("llama 3B", 0, is_checkpointed=True),
    _S("llama 1.1B", 3, offload="optimizer"),
    _S("llama 3B", 2, sequence_length=2048, offload="optimizer", is_checkpointed=True),
    _S("llama 3B", 3, sequence_length=2048, offload=_BOTH, is_checkpointed=True),
    _S("llama 7B", 3, offload=_BOTH, is_checkpointed=True),
)


def saving(setup: MemorySetup, parameters: int) -> str:
    """What a run with so many parameters saves."""
    states = 0 if setup.is_adapted else 12  # bytes of each; of adapters they are few
    width = 4 if setup.dtype == "fp32" else 2
    if parameters * (width + states) <= _MOST_SAVED:
        return CHECKPOINT
    return WEIGHTS if parameters * width <= _MOST_SAVED and setup.dtype != "fp32" else LEFT_OUT


def config(setup: MemorySetup, saved: str) -> Result:
    """The DeepSpeed config of a run; sizes of buckets and thresholds are DeepSpeed's own."""
    zero: Result = {"stage": setup.stage}
    place = {"device": "cpu", "pin_memory": setup.is_pinned}
    if setup.offload:
        zero["offload_optimizer"] = place
    if setup.offload == _BOTH:
        zero["offload_param"] = place
    if setup.stage == 3 and saved == WEIGHTS:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    precision: Result = {} if setup.dtype == "fp32" else {setup.dtype: {"enabled": True}}
    if setup.dtype == "fp16":
        precision["fp16"]["loss_scale"] = 128  # no step is skipped
    return {
        "train_micro_batch_size_per_gpu": setup.micro_batch,
        "gradient_accumulation_steps": setup.accumulation_steps,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
        "zero_optimization": zero,
        "steps_per_print": 1000,
        **precision,
    }


def adapters(setup: MemorySetup) -> int:
    """The rank of the adapters in the modules that peft chooses; 0 if the whole model is trained."""
    return _RANK if setup.is_adapted else 0


def expected(setup: MemorySetup) -> Estimate:
    """What ``ds-lint memory`` says of the run when it knows everything that the run does."""
    facts = Facts(world_size=1, nodes=1)
    facts.model = Model("", MODELS[setup.model])
    facts.micro_batch, facts.sequence_length = setup.micro_batch, setup.sequence_length
    if setup.is_adapted:
        facts.lora = Adapters(adapters(setup))
    basis = Basis(keys.knowledge(choose("", {}, installed("")).newest), "deepspeed", facts)
    found = _read(config(setup, LEFT_OUT), basis)
    found = _read(config(setup, saving(setup, found.parameter_count)), basis)
    layers = found.adapters._replace(has_dropout=False) if found.adapters is not None else None
    return estimate(
        found._replace(
            is_checkpointed=setup.is_checkpointed,
            attention=setup.attention,
            adapters=layers,
            kernels=Kernels("transformers", "logits"),
            is_length_known=True,
            uses_zero_init=setup.stage == 3,
            loaded_width=NOTHING,  # it is made on the GPU
        )
    )


def _read(given: Result, basis: Basis) -> training_setup.TrainingSetup:
    text = json.dumps(given).encode()
    found = training_setup.of(configs.from_document(documents.from_bytes(text, "config.json"), basis))
    assert found is not None  # noqa: S101 - every fact is there
    return found


def shrunk(model: Result) -> Result:
    """A model of the same type that a CPU trains in no time."""
    sizes = {
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 500,
    }  # fmt: skip
    return {key: sizes.get(key, value) for key, value in model.items()}
