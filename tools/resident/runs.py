"""The runs that are measured: stages, ranks, offload, dtypes, how the model is loaded, and what is saved."""

from __future__ import annotations

from typing import Any

MODEL: dict[str, Any] = {  # 57 million parameters: the model states are far more than a process without them
    "model_type": "llama",
    "vocab_size": 16000,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
_BUCKETS = {  # far below the model, as the usual ones are below models of billions
    "reduce_bucket_size": 4_000_000,
    "allgather_bucket_size": 4_000_000,
    "stage3_prefetch_bucket_size": 1_000_000,
    "stage3_param_persistence_threshold": 10_000,
}
NVME = "NVME"  # stands for a folder


def _run(
    name: str,
    ranks: int,
    stage: int,
    *,
    dtype: str = "bfloat16",
    optimizer: str | None = None,
    parameters: str | None = None,
    steps: int = 1,
    files: str | None = None,
    **others: Any,
) -> dict[str, Any]:
    """A run; ``files`` is how the model lies on the disk, as ``safetensors bfloat16``."""
    zero: dict[str, Any] = {"stage": stage, **_BUCKETS}
    buffers = {"buffer_size": 20_000_000, "max_in_cpu": 0}
    for section, device in (("offload_optimizer", optimizer), ("offload_param", parameters)):
        if device is not None:
            nvme = {"nvme_path": NVME, **(buffers if section == "offload_param" else {})} if device == "nvme" else {}
            zero[section] = {"device": device, **nvme}
    gathers = others.pop("gathers", False)
    if gathers:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    precision = {"bf16": {"enabled": True}} if dtype == "bfloat16" else {}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": steps,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": zero,
        **precision,
    }
    saves = ["gathered"] if gathers else []
    return {
        "name": name, "ranks": ranks, "dtype": dtype, "model": MODEL, "config": config, "files": files,
        "stack": "deepspeed", "saves": [*saves, "checkpoint"], **others,
    }  # fmt: skip


_SAFE, _BIN = "safetensors bfloat16", "bin bfloat16"
RUNS: tuple[dict[str, Any], ...] = (
    _run("loaded in partitions", 3, 3, files=_SAFE),
    _run("loaded", 2, 2, files=_SAFE),
    _run("offload", 2, 2, optimizer="cpu"),
    _run("offload of both", 2, 3, optimizer="cpu", parameters="cpu", gathers=True),
    _run("Trainer", 2, 3, stack="trainer", files=_SAFE, gathers=True, optimizer="cpu", parameters="cpu"),
    _run("NVMe", 2, 3, optimizer="nvme"),
    _run("gathered", 2, 3, gathers=True),
    _run("loaded in fp32", 2, 2, files=_BIN, load="float32"),
    _run("made from its config", 2, 0),
    _run("offload", 1, 3, optimizer="cpu"),
    _run("Trainer", 2, 2, stack="trainer", files=_SAFE),
    _run("offload in two micro batches", 3, 2, optimizer="cpu", steps=2),
    _run("made from its config", 5, 3),
    _run("resumed", 2, 2, saves=["checkpoint", "resume"]),
    _run("NVMe for both", 2, 3, optimizer="nvme", parameters="nvme"),
    _run("loaded from fp32", 2, 2, files="safetensors float32", load="bfloat16"),
    _run("loaded whole", 2, 3, files=_SAFE, zero_init=False),
    _run("fp32", 2, 2, dtype="float32"),
    _run("loaded", 2, 2, files=_BIN),
    _run("offload", 2, 1, optimizer="cpu"),
    _run("made from its config", 1, 2),
    _run("resumed", 2, 3, saves=["checkpoint", "resume"], optimizer="cpu"),
    _run("offload of both", 3, 3, optimizer="cpu", parameters="cpu"),
    _run("Trainer with workers", 2, 2, stack="trainer", files=_SAFE, workers=2, saves=[]),
    _run("Trainer", 2, 2, stack="trainer", files=_BIN, optimizer="cpu"),
    _run("made from its config", 2, 1),
    _run("made from its config", 5, 2),
    _run("fp32", 2, 0, dtype="float32"),
    _run("fp32", 2, 3, dtype="float32"),
    _run("loaded in fp32", 2, 2, files=_SAFE, load="float32"),
    _run("loaded from fp32", 2, 2, files="bin float32", load="bfloat16"),
    _run("loaded in partitions", 3, 3, files=_BIN),
    _run("made from its config", 1, 3),
    _run("offload", 1, 2, optimizer="cpu"),
    _run("offload of both", 1, 3, optimizer="cpu", parameters="cpu"),
)
