"""What a new process finds in the files that the user's script has saved: ``python -m`` this, with a job in a file."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.observe import lora, saved_weights
from ds_lint.smoke.observe.probes import digest
from ds_lint.smoke.records.job import Exported
from ds_lint.smoke.script.recomputed import recompute
from ds_lint.smoke.script.saved_files import Inspected

if TYPE_CHECKING:
    from ds_lint.smoke.script.saved_files import SavedFiles


def inspect(saved: SavedFiles) -> Exported:
    """Load the saved model as a user would, and the fp32 weights as zero_to_fp32 does."""
    export = _of_adapter(saved.export) if saved.has_adapters else saved.export
    exported = Exported(files=saved_weights.files_of(export))
    is_whole = saved.model_class.startswith("transformers.") or saved.has_adapters
    weights = dict(saved_weights.stored(export) if is_whole else saved_weights.stored_below(export))
    exported.empty = sorted(name for name, tensor in weights.items() if tensor.numel() == 0)
    exported.stored = {name: digest(tensor) for name, tensor in weights.items()}
    try:
        _load(saved, weights, exported)
    except Exception as error:  # noqa: BLE001 - the error is the result
        exported.load_error = saved_weights.sentence_of(error, saved.export)
    if saved.is_sharded:
        try:
            saved_weights.recover(saved.checkpoint, exported)
        except Exception as error:  # noqa: BLE001 - the error is the result
            exported.recovery_error = saved_weights.sentence_of(error, saved.checkpoint)
    return exported


def _of_adapter(folder: str) -> str:
    """The folder of an adapter: peft saves one that has a name in a folder of that name."""
    folders = [folder, *(one.path for one in os.scandir(folder) if one.is_dir())] if os.path.isdir(folder) else []
    return next((one for one in folders if os.path.exists(os.path.join(one, "adapter_config.json"))), folder)


def _load(saved: SavedFiles, weights: dict[str, Any], exported: Exported) -> None:
    if saved.has_adapters:
        names = {name: saved.adapter_names.get(name, lora.name_in_file(name)) for name in saved.trained}
        exported.missing = sorted(name for name, in_file in names.items() if in_file not in weights)
        exported.loaded = {
            name: _digest(weights[in_file], saved.dtypes.get(name, ""))
            for name, in_file in names.items()
            if in_file in weights
        }
        return
    if not saved.model_class.startswith("transformers."):
        as_trained = {name: _digest(tensor, saved.dtypes.get(name, "")) for name, tensor in weights.items()}
        exported.loaded = _with_tied(as_trained, saved.tied) if weights else None
        return
    module, _, name = saved.model_class.rpartition(".")
    loader = getattr(importlib.import_module(module), name)
    dtype = saved_weights.dtype_to_load(weights)
    model, info = loader.from_pretrained(saved.export, **loaded_in(dtype), output_loading_info=True)
    saved_weights.note_loaded(model, info, weights, exported, saved.dtypes)


def _digest(tensor: Any, dtype: str) -> str:
    return digest(saved_weights.as_trained(tensor, dtype))


def loaded_in(dtype: Any) -> dict[str, Any]:
    """The argument of ``from_pretrained`` for a dtype; before transformers 4.56, ``dtype`` is a value of the config."""
    from transformers import PretrainedConfig

    return {"dtype" if hasattr(PretrainedConfig(), "dtype") else "torch_dtype": dtype}


def _with_tied(stored: dict[str, str], tied: list[list[str]]) -> dict[str, str]:
    """The tensors of a file under all of their names: one that has several is stored once."""
    whole = dict(stored)
    for names in tied:
        found = next((stored[name] for name in names if name in stored), None)
        whole.update({name: found for name in names if found is not None})
    return whole


def main() -> None:
    """Inspect the files that a pickled record names, and write the result beside it."""
    (path,) = sys.argv[1:]
    with open(path, "rb") as file:
        saved: SavedFiles = pickle.load(file)  # noqa: S301 - the driver has written it
    recomputed = recompute(saved.samples, saved.rule, saved.clipping, is_on_gpus=saved.is_on_gpus)
    found = Inspected(inspect(saved) if saved.is_compared else None, recomputed)
    with open(f"{path}.new", "wb") as file:
        pickle.dump(found, file)
    os.replace(f"{path}.new", f"{path}.found")


if __name__ == "__main__":
    main()
