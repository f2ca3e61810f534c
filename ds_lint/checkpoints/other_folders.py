"""Folders that programs other than DeepSpeed and torch's FSDP have written: Lightning, Megatron-LM, plain torch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.checkpoints.folder import join
from ds_lint.checkpoints.losses import loss
from ds_lint.checkpoints.record import SavedFile, SavedFolder
from ds_lint.checkpoints.tensors import tensors_of

if TYPE_CHECKING:
    from ds_lint.checkpoints.folder import SavedPlace

_ITERATION = re.compile(r"iter_\d{7}|release")
_MEGATRON_FILES = ("model_optim_rng.pt", "model_rng.pt", "distrib_optim.pt", "optim.pt")
_OF_TORCH = (".ckpt", ".pt", ".pth", ".bin")


def lightning_folder(place: SavedPlace, folder: str = "") -> SavedFolder | None:
    """A folder with .ckpt files of Lightning, which have everything of one run in one file."""
    files = [name for name in place.names(folder) if name.endswith(".ckpt") and place.has(join(folder, name))]
    if not files:
        return None
    saved = SavedFolder("lightning", partition="none")
    saved.why_none = "a .ckpt file of Lightning is loaded by trainer.fit(ckpt_path=...), and DeepSpeed does not load it"
    _read(place, folder, files, saved)
    return saved


def megatron_folder(place: SavedPlace, folder: str = "") -> SavedFolder | None:
    """A folder of Megatron-LM: one folder for each tensor and pipeline rank, below an iteration."""
    latest = join(folder, "latest_checkpointed_iteration.txt")
    named = place.line(latest)
    iterations = [name for name in place.folders(folder) if _ITERATION.fullmatch(name)]
    if named is None and not iterations:
        return None
    saved = SavedFolder("megatron", partition="none")
    saved.why_none = "Megatron-LM loads its checkpoints itself: DeepSpeed's load_checkpoint() does not read them"
    saved.files.append(SavedFile(latest, "ok" if named else "missing" if named is None else "empty"))
    wanted = f"iter_{int(named):07d}" if named and named.isascii() and named.isdigit() and len(named) < 8 else named
    if wanted and wanted not in iterations and wanted != "release":
        saved.files.append(SavedFile(join(folder, wanted), "missing"))
        saved.failures.append(f"{latest} names {named}, and {wanted} is not there")
    for iteration in [one for one in iterations if one == wanted] or iterations[-1:]:
        below = join(folder, iteration)
        for name in place.folders(below):
            for file in place.names(join(below, name)):
                if file in _MEGATRON_FILES:
                    _read(place, join(below, name), [file], saved)
    return saved


def torch_folder(place: SavedPlace, folder: str = "") -> SavedFolder | None:
    """A folder with files of ``torch.save`` and no layout that is known."""
    files = [name for name in place.names(folder) if name.endswith(_OF_TORCH) and place.has(join(folder, name))]
    if not files:
        return None
    saved = SavedFolder("pytorch", partition="none")
    saved.why_none = "the folder has files of torch.save with no layout of DeepSpeed, FSDP or the Trainer"
    _read(place, folder, files[:1_000], saved)
    return saved


def _read(place: SavedPlace, folder: str, files: list[str], saved: SavedFolder) -> None:
    for name in files:
        path = join(folder, name)
        archive = place.archive(path)
        saved.files.append(SavedFile(path, archive.status, None, archive.why if archive.status != "ok" else None))
        if archive.status != "ok":
            saved.failures.append(loss(saved.files[-1], "FileNotFoundError"))
        value = archive.value if isinstance(archive.value, dict) else {}
        release = value.get("pytorch-lightning_version")
        if isinstance(release, str):
            saved.writer["lightning"] = release[:40]
        weights = next((value[key] for key in ("state_dict", "model", "module") if key in value), archive.value)
        saved.tensors.add(tensors_of(weights))
