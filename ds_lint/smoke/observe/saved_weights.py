"""The weights in the files that a run has saved; without transformers, which a script may not have."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe.probes import digest
from ds_lint.smoke.observe.tied import tied

if TYPE_CHECKING:
    from ds_lint.smoke.records.job import Exported


def files_of(folder: str) -> list[str]:
    """The names of the files in a folder; none if there is no such folder."""
    return sorted(name for name in os.listdir(folder)) if os.path.isdir(folder) else []


def stored(folder: str) -> Any:
    """The tensors of the weights files by name."""
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        from safetensors.torch import load_file  # whoever has such files has the library

        yield from load_file(path).items()
    for path in sorted(glob.glob(os.path.join(folder, "pytorch_model*.bin"))):
        yield from torch.load(path, map_location="cpu", weights_only=True).items()


def stored_below(folder: str) -> Any:
    """The same with those of all folders below, under the names ``FOLDER/NAME``."""
    for place, _, _ in os.walk(folder):
        below = os.path.relpath(place, folder)
        yield from ((name if below == "." else f"{below}/{name}", tensor) for name, tensor in stored(place))


def note_loaded(model: Any, info: dict[str, Any], weights: dict[str, Any], exported: Exported) -> None:
    """What ``from_pretrained`` made of the weights of files, and reported of them."""
    exported.tied = tied(model)
    exported.missing = sorted(info["missing_keys"])
    # Some models keep modules in fp32 that were trained, and saved, in 16 bit (T5's _keep_in_fp32_modules).
    exported.loaded = {
        name: digest(parameter.data.to(weights[name].dtype) if name in weights else parameter.data)
        for name, parameter in model.named_parameters()
    }


def recover(folder: str, exported: Exported) -> None:
    """The fp32 weights of a checkpoint."""
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    found = get_fp32_state_dict_from_zero_checkpoint(folder)
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    exported.recovered = {name: [digest(tensor.to(dtype)) for dtype in dtypes] for name, tensor in found.items()}
