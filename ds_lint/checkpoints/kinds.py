"""What a folder holds: the first layout that its names fit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.checkpoints.companion_files import add_companions, program_of
from ds_lint.checkpoints.deepspeed_files import engine_files
from ds_lint.checkpoints.deepspeed_folder import deepspeed_folder, has_states, tags
from ds_lint.checkpoints.folder import SavedPlace, join
from ds_lint.checkpoints.fsdp_folder import fsdp_folder
from ds_lint.checkpoints.other_folders import lightning_folder, megatron_folder, torch_folder
from ds_lint.checkpoints.record import SavedFolder
from ds_lint.checkpoints.universal_folder import universal_folder, universal_tags
from ds_lint.checkpoints.weights_folder import is_weights, weights_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_TRAINER = re.compile(r"checkpoint-\d+")


def saved_folder(
    path: str, *, is_universal: bool = False, tag: str | None = None, descends: bool = True
) -> SavedFolder:
    """What a folder holds; ``is_universal`` asks for the universal checkpoint where both are there.

    With ``descends``, it may be the folder of a run that has the checkpoints below it.
    """
    place = SavedPlace(path)
    for folder, note in _places(place, tag) if descends else [("", "")]:
        saved = _read(place, folder, is_universal=is_universal, tag=tag)
        if saved is not None:
            if note:
                saved.notes.insert(0, note)
            if place.is_read_in_part:
                saved.notes.append("some pickles are too large to read: of these files only the directory was checked")
            return saved
    saved = SavedFolder("unknown", partition="none")
    saved.why_none = "nothing in the folder is a checkpoint that ds-lint knows"
    saved.failures.append(saved.why_none)
    return saved


def _places(place: SavedPlace, tag: str | None) -> Iterator[tuple[str, str]]:
    """The folder itself, then below it the last checkpoint of the Trainer, or the only folder."""
    last = [name for name in place.folders() if _OF_TRAINER.fullmatch(name)]
    is_output = last and tag is None and program_of(place.names()) is None
    if is_output and not tags(place) and not universal_tags(place):
        yield last[-1], f"{last[-1]} is the last of {len(last)} checkpoints in the folder"
    yield "", ""
    folders = place.folders()
    if len(folders) == 1:
        yield folders[0], f"the checkpoint is in {folders[0]}"


def _read(place: SavedPlace, folder: str, *, is_universal: bool, tag: str | None) -> SavedFolder | None:
    saved = _of_engine(place, folder, is_universal=is_universal, tag=tag)
    for reader in (fsdp_folder, megatron_folder, lightning_folder, _with_states, weights_folder, torch_folder):
        saved = saved or reader(place, folder)
    if saved is None:
        return None
    add_companions(place, saved, folder)
    if saved.engine is not None or saved.kind == "fsdp":
        _add_weights(place, folder, saved)
    return saved


def _of_engine(place: SavedPlace, folder: str, *, is_universal: bool, tag: str | None) -> SavedFolder | None:
    """A checkpoint of DeepSpeed, universal or not, also if the folder of its tag is named."""
    universal = universal_folder(place, folder, tag)
    own = tags(place, folder)
    is_alone = place.line(join(folder, "latest")) is None and place.line(join(folder, "latest_universal")) is not None
    if universal is not None and (is_universal or not own or is_alone):
        return universal
    saved = deepspeed_folder(place, folder, tag)
    if saved is not None:
        if universal is not None and universal.engine is not None:
            saved.notes.append(
                f"a universal form is beside it in {universal.engine.tag}: `checkpoint.load_universal` loads that one"
            )
        return saved
    if not folder and tag is None and not engine_files(place.names()).is_empty:
        return _of_tag(place)
    return None


def _of_tag(place: SavedPlace) -> SavedFolder | None:
    """The folder of a tag itself."""
    saved = universal_folder(place, "", "") if has_states(place, "") else deepspeed_folder(place, "", "")
    if saved is not None:
        saved.notes.append("the folder is that of a tag: load_checkpoint() takes the folder above it")
    return saved


def _add_weights(place: SavedPlace, folder: str, saved: SavedFolder) -> None:
    """Weights beside the states, which a run that resumes does not read."""
    beside = weights_folder(place, folder)
    if beside is None:
        return
    has_any = any(is_weights(name) or name.endswith(".index.json") for name in place.names(folder))
    if not has_any and (saved.stage not in (1, 2) or saved.writer.get("program") != "Trainer"):
        return  # at stage 3, the Trainer may leave the config of the model without its weights
    known = {file.path for file in saved.files}
    saved.files += [file for file in beside.files if file.path not in known]
    if "transformers" in beside.writer:
        saved.writer["transformers"] = beside.writer["transformers"]
    saved.notes += [f"{failure}; a run that resumes does not read it" for failure in beside.failures]


def _with_states(place: SavedPlace, folder: str) -> SavedFolder | None:
    """A checkpoint of the Trainer or Accelerate without DeepSpeed and FSDP, which loads on any number of ranks."""
    names = place.names(folder)
    program = program_of(names)
    has_optimizer = any(re.fullmatch(r"optimizer(_\d+)?\.(pt|bin)", name) for name in names)
    if program is None or not has_optimizer:
        return None
    saved = weights_folder(place, folder) or SavedFolder("weights")
    saved.kind, saved.partition = program.lower(), "any"
    return saved
