"""A model of random weights on the disk, as ``safetensors bfloat16`` or ``bin float32``, each in several files.

transformers no longer writes ``.bin`` files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
import transformers

if TYPE_CHECKING:
    from pathlib import Path

_OF_A_FILE = 60_000_000  # bytes


def write(what: str, config: dict[str, Any], folder: Path) -> None:
    """Write a model with a config."""
    kind, dtype = what.split()
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config))
    model = model.to(getattr(torch, dtype))
    model.config.dtype = getattr(torch, dtype)
    if kind == "safetensors":
        model.save_pretrained(folder, max_shard_size=_OF_A_FILE)
        return
    model.config.save_pretrained(folder)
    _write_bin(model.state_dict(), folder)


def _write_bin(tensors: dict[str, Any], folder: Path) -> None:
    shards: list[dict[str, Any]] = [{}]
    for name, tensor in tensors.items():
        if sum(one.nbytes for one in shards[-1].values()) > _OF_A_FILE:
            shards.append({})
        shards[-1][name] = tensor.clone()
    index: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = f"pytorch_model-{number:05}-of-{len(shards):05}.bin"
        torch.save(shard, folder / name)
        index |= dict.fromkeys(shard, name)
    size = sum(one.nbytes for one in tensors.values())
    written = json.dumps({"metadata": {"total_size": size}, "weight_map": index})
    (folder / "pytorch_model.bin.index.json").write_text(written, encoding="utf-8")
