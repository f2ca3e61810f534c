"""A model of random weights on the disk: ``files.py 'bin bfloat16' CONFIG FOLDER``, its config as JSON.

``safetensors`` and ``bin`` are in several files, ``one bin`` is one. transformers no longer writes ``.bin`` files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

_OF_A_FILE = 60_000_000  # bytes


def main() -> None:
    """Write what the arguments say."""
    (kind, dtype), (config, folder) = sys.argv[1].rsplit(" ", 1), sys.argv[2:]
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**json.loads(config)))
    model = model.to(getattr(torch, dtype))
    model.config.dtype = getattr(torch, dtype)
    if kind == "safetensors":
        model.save_pretrained(folder, max_shard_size=_OF_A_FILE)
        return
    model.config.save_pretrained(folder)
    _write_bin(model.state_dict(), Path(folder), is_one=kind == "one bin")


def _write_bin(tensors: dict[str, Any], folder: Path, *, is_one: bool) -> None:
    if is_one:
        torch.save(tensors, folder / "pytorch_model.bin")
        return
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


if __name__ == "__main__":
    main()
