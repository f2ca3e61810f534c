"""Weights without states of an optimizer: safetensors, pytorch_model.bin, their shards and index, adapters of peft."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.checkpoints.folder import join
from ds_lint.checkpoints.record import SavedFile, SavedFolder, TensorCount
from ds_lint.checkpoints.tensors import tensors_of

if TYPE_CHECKING:
    from ds_lint.checkpoints.folder import SavedPlace
    from ds_lint.checkpoints.tensors import SavedTensor

_SHARD = re.compile(r"(.+)-(\d{5,6})-of-(\d{5,6})\.(safetensors|bin)")
_PLAIN = ("pytorch_model.bin", "adapter_model.bin", "model.bin")
_MOST_SHARDS = 10_000


def weights_folder(place: SavedPlace, folder: str = "") -> SavedFolder | None:
    """What the folder holds; None if no weights are in it."""
    names = place.names(folder)
    weights = [name for name in names if is_weights(name)]
    indices = [name for name in names if name.endswith((".safetensors.index.json", ".bin.index.json"))]
    has_adapter = "adapter_config.json" in names or any(name.startswith("adapter_model.") for name in names)
    config = place.json(join(folder, "config.json"))
    is_model = isinstance(config, dict) and ("model_type" in config or "architectures" in config)
    if not weights and not indices and not has_adapter and not is_model:
        return None
    is_adapter = has_adapter and not any(name.startswith(("model", "pytorch_model")) for name in weights + indices)
    lacks_all = not (weights or indices or is_adapter)
    kind = "peft" if is_adapter else "safetensors" if _is_safe(weights + indices) or lacks_all else "weights"
    saved = SavedFolder(kind, partition="none")
    saved.why_none = "the folder has weights only, no states of an optimizer: a run can start from them, not resume"
    release = config.get("transformers_version") if isinstance(config, dict) else None
    if isinstance(release, str):
        saved.writer["transformers"] = release[:40]
    expected, named = _expected(place, folder, weights, indices, saved)
    if is_adapter and not weights:
        expected.append("adapter_model.safetensors")
    elif lacks_all:
        expected.append("model.safetensors")
    _read(place, folder, expected, named, saved)
    return saved


def is_weights(name: str) -> bool:
    """Whether a name is that of a file with weights."""
    return name.endswith(".safetensors") or name in _PLAIN or bool(_SHARD.fullmatch(name))


def _is_safe(names: list[str]) -> bool:
    return any(".safetensors" in name for name in names)


def _expected(
    place: SavedPlace, folder: str, weights: list[str], indices: list[str], saved: SavedFolder
) -> tuple[list[str], dict[str, set[str]]]:
    """The files that should be there, and the tensors that an index says they have."""
    expected = list(weights)
    named: dict[str, set[str]] = {}
    for index in indices:
        content = place.json(join(folder, index))
        mapped = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(mapped, dict):
            status = place.status(join(folder, index))
            why = "it is not JSON with a weight_map"
            saved.files.append(SavedFile(join(folder, index), "empty" if status == "empty" else "truncated", None, why))
            saved.failures.append(f"{index} is {saved.files[-1].status}: {why}")
            continue
        saved.files.append(SavedFile(join(folder, index), "ok"))
        for tensor, file in mapped.items():
            if isinstance(file, str):
                named.setdefault(file, set()).add(tensor)
        expected += [file for file in named if file not in expected]
    shards = [match for name in weights if (match := _SHARD.fullmatch(name))]
    for match in shards[:1] if not indices else []:
        count = min(int(match[3]), _MOST_SHARDS)
        width = len(match[2])
        all_of_them = [f"{match[1]}-{number:0{width}d}-of-{match[3]}.{match[4]}" for number in range(1, count + 1)]
        expected += [name for name in all_of_them if name not in expected]
        index = f"{match[1]}.{match[4]}.index.json"
        saved.files.append(SavedFile(join(folder, index), "missing"))
        saved.failures.append(f"{index} is missing: from_pretrained() does not find the shards without it")
    return expected, named


def _read(place: SavedPlace, folder: str, expected: list[str], named: dict[str, set[str]], saved: SavedFolder) -> None:
    counted = TensorCount()
    for name in expected:
        path = join(folder, name)
        tensors: list[SavedTensor]
        if name.endswith(".safetensors"):
            header = place.header(path)
            status, tensors, why = header
        else:
            archive = place.archive(path)
            status, why = archive.status, archive.why if archive.status != "ok" else None
            tensors = list(tensors_of(archive.value))
        saved.files.append(SavedFile(path, status, None, why))
        if status != "ok":
            reason = f" ({why})" if why else ""
            raised = "SafetensorError" if name.endswith(".safetensors") and status != "missing" else (
                "OSError" if status == "missing" else "an exception of torch.load")  # fmt: skip
            saved.failures.append(f"{path} is {status}{reason}: {raised}")
            continue
        counted.add(tensors)
        lost = named.get(name, set()) - {".".join(tensor.path) for tensor in tensors}
        if lost:
            saved.failures.append(f"{path} lacks {len(lost)} tensors that the index has in it, as {min(lost)}")
    saved.tensors = counted
    if counted.empty:
        saved.failures.append(
            f"{len(counted.empty)} of {_tensors(counted, saved)} have no elements, as {counted.empty[0]}: saved at "
            "ZeRO stage 3 without gathering the weights"
        )


def _tensors(counted: TensorCount, saved: SavedFolder) -> str:
    return "the tensors" if counted.elements or saved.files else "all tensors"
