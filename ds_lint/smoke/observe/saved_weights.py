"""The weights in the files that a run has saved; without transformers, which a script may not have."""

from __future__ import annotations

import functools
import glob
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe.probes import digest
from ds_lint.smoke.observe.tied import tied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ds_lint.smoke.records.job import Exported

_UNKNOWN: Mapping[str, str] = MappingProxyType({})


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


def dtype_to_load(weights: dict[str, Any]) -> Any:
    """The dtype in which no weight of the files is rounded: the widest of theirs.

    That of the config.json may be the one before training: a script may load a model in bf16 and train it in fp16.
    ``save_pretrained`` writes that of the first weight, and the config beside the weights of ``save_16bit_model`` has
    the old one. fp8 has no wider dtype in torch, and is loaded as the config says.
    """
    dtypes = sorted({tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}, key=str)
    try:
        return functools.reduce(torch.promote_types, dtypes) if dtypes else "auto"
    except RuntimeError:
        return "auto"


def note_loaded(
    model: Any, info: dict[str, Any], weights: dict[str, Any], exported: Exported, dtypes: Mapping[str, str] = _UNKNOWN
) -> None:
    """What ``from_pretrained`` made of the weights of files, and reported of them; ``dtypes`` are those of training."""
    exported.tied = tied(model)
    exported.missing = sorted(info["missing_keys"])
    # Some models keep modules in fp32 that were trained, and saved, in 16 bit (T5's _keep_in_fp32_modules).
    exported.loaded = {
        name: digest(
            as_trained(
                parameter.data.to(weights[name].dtype) if name in weights else parameter.data, dtypes.get(name, "")
            )
        )
        for name, parameter in model.named_parameters()
    }


def as_trained(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """A tensor in the dtype that it trains in, unless that changes a value of it."""
    wanted: Any = getattr(torch, dtype, tensor.dtype) if dtype else tensor.dtype
    if wanted == tensor.dtype or not tensor.is_floating_point() or not wanted.is_floating_point:
        return tensor
    cast = tensor.to(wanted)
    is_exact = torch.equal(cast.to(tensor.dtype).nan_to_num(), tensor.nan_to_num())
    return cast if is_exact else tensor


def recover(folder: str, exported: Exported) -> None:
    """The fp32 weights of a checkpoint."""
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    found = get_fp32_state_dict_from_zero_checkpoint(folder)
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    exported.recovered = {name: [digest(tensor.to(dtype)) for dtype in dtypes] for name, tensor in found.items()}


def sentence_of(error: Exception, folder: str) -> str:
    """An error, with the files of a folder that is removed by their names in it."""
    return f"{type(error).__name__}: {error}".replace(f"{folder}{os.sep}", "")
