"""What is in the folders that the user's script has its weights from: ``python -m`` this, with a job in a file."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe import saved_weights
from ds_lint.smoke.observe.probes import digest
from ds_lint.smoke.script.loaded_weights import FoundWeights

if TYPE_CHECKING:
    from ds_lint.smoke.script.loaded_weights import WeightsFolder

_DTYPES = ("float32", "bfloat16", "float16")


def find(one: WeightsFolder) -> FoundWeights:
    """Load a folder again; a tensor of a file that has the name of a parameter is what that should be."""
    module, _, name = one.model_class.rpartition(".")
    dtype: Any = getattr(torch, one.dtype)
    try:
        loader = getattr(importlib.import_module(module), name)
        model, info = loader.from_pretrained(one.path, dtype=dtype, output_loading_info=True)
        stored = dict(saved_weights.stored(one.path))
    except Exception as error:  # noqa: BLE001 - the error is the result
        return FoundWeights({}, [], f"{type(error).__name__}: {error}")
    digests = {}
    for parameter, own in model.named_parameters(remove_duplicate=False):
        in_file = stored.get(parameter)
        wanted = in_file.to(dtype) if in_file is not None and in_file.shape == own.shape else own.data
        digests[parameter] = [digest(wanted.to(getattr(torch, kind))) for kind in _DTYPES]
    return FoundWeights(digests, sorted(info["missing_keys"]))


def main() -> None:
    """Find the weights of the folders that a pickled list names, and write them beside it."""
    (path,) = sys.argv[1:]
    with open(path, "rb") as file:
        folders: list[WeightsFolder] = pickle.load(file)  # noqa: S301 - the driver has written it
    found = {one.path: find(one) for one in folders}
    with open(f"{path}.new", "wb") as file:
        pickle.dump(found, file)
    os.replace(f"{path}.new", f"{path}.found")


if __name__ == "__main__":
    main()
