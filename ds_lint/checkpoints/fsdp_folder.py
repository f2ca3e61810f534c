"""A folder that FSDP has written: torch's distributed checkpoints with one file for each rank, or one file in all.

Accelerate and the Trainer write ``pytorch_model_fsdp_0/`` and ``optimizer_0/``, or ``pytorch_model_fsdp.bin`` and
``optimizer.bin`` (accelerate/utils/fsdp_utils.py). What a file of ranks has is in ``.metadata``
(torch/distributed/checkpoint/metadata.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ds_lint.checkpoints.folder import is_below, join
from ds_lint.checkpoints.losses import loss
from ds_lint.checkpoints.pickled import Call, Global
from ds_lint.checkpoints.record import SavedFile, SavedFolder, TensorCount
from ds_lint.checkpoints.tensors import product, shape_of, tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.checkpoints.folder import SavedPlace

_PART = re.compile(r"__(\d{1,6})_\d{1,6}\.distcp")
_LOCAL = re.compile(r"(pytorch_model_fsdp(?:_\d+)?)_rank(\d{1,6})\.bin")
_WHOLE = re.compile(r"pytorch_model_fsdp(_\d+)?\.bin")
_METADATA = ".metadata"
_LOST = "CheckpointException of torch.distributed.checkpoint, FileNotFoundError on the rank that reads it"


def fsdp_folder(place: SavedPlace, folder: str = "") -> SavedFolder | None:
    """What the folder holds; None if FSDP has not written it."""
    names = place.names(folder)
    parts = [name for name in place.folders(folder) if _is_distributed(place, join(folder, name))]
    if _is_distributed(place, folder):
        parts = [""]
    whole = [name for name in names if _WHOLE.fullmatch(name)]
    local = [match for name in names if (match := _LOCAL.fullmatch(name))]
    if not (parts or whole or local):
        return None
    saved = SavedFolder("fsdp", partition="any")
    counted = saved.tensors = TensorCount()
    for name in parts:
        is_model = not name.startswith("optimizer")
        _read_parts(place, join(folder, name) if name else folder, saved, counted if is_model else TensorCount())
    for name in whole:
        _add(place, join(folder, name), saved)
        counted.add(tensors_of(place.archive(join(folder, name)).value))
    if local:
        _read_local(place, folder, local, saved)
    _optimizer(place, folder, parts, whole, saved)
    return saved


def _is_distributed(place: SavedPlace, folder: str) -> bool:
    names = place.names(folder)
    return any(_PART.fullmatch(name) for name in names) or (
        _METADATA in names and isinstance(_metadata(place, folder), dict)
    )


def _metadata(place: SavedPlace, folder: str) -> dict[str, Any] | None:
    value = place.archive(join(folder, _METADATA)).value
    is_of_torch = isinstance(value, Call) and isinstance(value.function, Global) and value.function.name == "Metadata"
    return value.state if is_of_torch and isinstance(value.state, dict) else None


def _read_parts(place: SavedPlace, folder: str, saved: SavedFolder, counted: TensorCount) -> None:
    """The files of the ranks, and what ``.metadata`` says they have."""
    path = join(folder, _METADATA)
    archive = place.archive(path)
    is_kept = archive.status == "ok" and _metadata(place, folder) is not None
    status = archive.status if archive.status != "ok" or is_kept else "truncated"
    why = archive.why if archive.status != "ok" else None if is_kept else "it is of another kind"
    saved.files.append(SavedFile(path, status, None, why))
    if status != "ok":
        saved.failures.append(loss(saved.files[-1], _LOST))
    metadata = _metadata(place, folder) or {}
    ends: dict[str, int] = {}
    for name, end in _stored(metadata):
        ends[name] = max(end, ends.get(name, 0))
    there = [name for name in place.names(folder) if _PART.fullmatch(name)]
    for name in dict.fromkeys((*ends, *there)):
        match = _PART.fullmatch(name)
        rank = int(match[1]) if match else None
        if rank is not None:
            saved.ranks = max(saved.ranks or 0, rank + 1)
        if not is_below(name):
            saved.files.append(SavedFile(name, "missing", rank, "it is outside of the folder"))
            saved.failures.append(loss(saved.files[-1], _LOST))
            continue
        file = _part(place, join(folder, name), rank, ends.get(name))
        saved.files.append(file)
        if file.status != "ok":
            saved.failures.append(loss(file, _LOST))
    _count(metadata, counted)


def _part(place: SavedPlace, path: str, rank: int | None, end: int | None) -> SavedFile:
    status, size = place.status(path), place.size(path) or 0
    if status == "ok" and end is not None and size < end:
        return SavedFile(path, "truncated", rank, f"its tensors end at byte {end:,}, and it has {size:,}")
    return SavedFile(path, status, rank)


def _stored(metadata: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """The files that metadata names, with the last byte of each part of a tensor."""
    places = metadata.get("storage_data")
    for one in places.values() if isinstance(places, dict) else ():
        state = one.state if isinstance(one, Call) else None
        if not isinstance(state, dict):
            continue
        name, start, length = (state.get(key) for key in ("relative_path", "offset", "length"))
        if isinstance(name, str) and isinstance(start, int) and isinstance(length, int):
            yield name, start + length


def _count(metadata: dict[str, Any], counted: TensorCount) -> None:
    tensors = metadata.get("state_dict_metadata")
    for name, one in tensors.items() if isinstance(tensors, dict) else ():
        state = one.state if isinstance(one, Call) else None
        shape = shape_of(state.get("size")) if isinstance(state, dict) else None
        if shape is None or not isinstance(state, dict):
            continue
        counted.count(_dtype(state.get("properties")), product(shape))
        if shape == (0,):
            counted.empty.append(str(name))


def _dtype(properties: Any) -> str:
    """The dtype among the properties of a tensor, which are a state or a tuple by the release of torch."""
    state = properties.state if isinstance(properties, Call) else None
    values = state.values() if isinstance(state, dict) else state if isinstance(state, tuple) else ()
    return next((one.name for one in values if isinstance(one, Global) and one.module == "torch"), "unknown")


def _read_local(place: SavedPlace, folder: str, found: list[re.Match[str]], saved: SavedFolder) -> None:
    """LOCAL_STATE_DICT: a file for each rank, for this number of ranks only."""
    saved.partition = "same"
    saved.ranks = max(int(match[2]) for match in found) + 1
    for rank in range(saved.ranks):
        _add(place, join(folder, f"{found[0][1]}_rank{rank}.bin"), saved, rank)


def _optimizer(place: SavedPlace, folder: str, parts: list[str], whole: list[str], saved: SavedFolder) -> None:
    """The states of the optimizer, which are beside the weights."""
    names = place.names(folder)
    files = [name for name in names if re.fullmatch(r"optimizer(_\d+)?\.(bin|pt)", name)]
    for name in files:
        _add(place, join(folder, name), saved)
    if parts and all(name.startswith("optimizer") for name in parts) and not whole:
        saved.files.append(SavedFile(join(folder, "pytorch_model_fsdp_0"), "missing"))
        saved.failures.append(loss(saved.files[-1], _LOST))
    is_of_accelerate = whole or any(name.startswith("pytorch_model_fsdp") for name in parts)
    if not is_of_accelerate or files or any(name.startswith("optimizer") for name in parts):
        return
    if any(name.startswith(("random_states_", "rng_state")) for name in names):
        saved.files.append(SavedFile(join(folder, "optimizer_0" if parts else "optimizer.bin"), "missing"))
        saved.failures.append(loss(saved.files[-1], _LOST if parts else "FileNotFoundError"))
    else:
        saved.partition = "none"
        saved.why_none = "the folder has weights only, no states of an optimizer: a run can start from them, not resume"


def _add(place: SavedPlace, path: str, saved: SavedFolder, rank: int | None = None) -> None:
    archive = place.archive(path)
    saved.files.append(SavedFile(path, archive.status, rank, archive.why if archive.status != "ok" else None))
    if archive.status != "ok":
        saved.failures.append(loss(saved.files[-1], "FileNotFoundError"))
