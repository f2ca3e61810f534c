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
        exported.load_error = _sentence(error, saved.export)
    if saved.is_sharded:
        try:
            saved_weights.recover(saved.checkpoint, exported)
        except Exception as error:  # noqa: BLE001 - the error is the result
            exported.recovery_error = _sentence(error, saved.checkpoint)
    return exported


def _of_adapter(folder: str) -> str:
    """The folder of an adapter: peft saves one that has a name in a folder of that name."""
    folders = [folder, *(one.path for one in os.scandir(folder) if one.is_dir())] if os.path.isdir(folder) else []
    return next((one for one in folders if os.path.exists(os.path.join(one, "adapter_config.json"))), folder)


def _sentence(error: Exception, folder: str) -> str:
    """An error, with the files of a folder that is removed by their names in it."""
    return f"{type(error).__name__}: {error}".replace(f"{folder}{os.sep}", "")


def _load(saved: SavedFiles, weights: dict[str, Any], exported: Exported) -> None:
    if saved.has_adapters:
        names = {name: saved.adapter_names.get(name, lora.name_in_file(name)) for name in saved.trained}
        exported.missing = sorted(name for name, in_file in names.items() if in_file not in weights)
        exported.loaded = {name: exported.stored[names[name]] for name in names if names[name] in weights}
        return
    if not saved.model_class.startswith("transformers."):
        exported.loaded = _with_tied(exported.stored, saved.tied) if weights else None
        return
    module, _, name = saved.model_class.rpartition(".")
    loader = getattr(importlib.import_module(module), name)
    model, info = loader.from_pretrained(saved.export, dtype=_dtype_of(weights), output_loading_info=True)
    saved_weights.note_loaded(model, info, weights, exported)


def _dtype_of(weights: dict[str, Any]) -> Any:
    """The dtype to load weights in so that none is rounded; that of the config.json may be the one before training.

    A script may load a model in bf16 and train it in fp16. ``save_pretrained`` then writes the new dtype, but the
    config beside the weights of ``save_16bit_model`` has the old one.
    """
    dtypes = {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}
    return dtypes.pop() if len(dtypes) == 1 else "auto"


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
