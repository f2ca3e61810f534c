"""What the Trainer and Accelerate write beside the weights: their own state, random states, schedulers.

Sources: ``transformers/trainer.py`` and ``accelerate/checkpointing.py``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.checkpoints.folder import join
from ds_lint.checkpoints.losses import loss
from ds_lint.checkpoints.record import TRAINER_RAISES, SavedFile, SavedFolder

if TYPE_CHECKING:
    from ds_lint.checkpoints.folder import SavedPlace

TRAINER_STATE = "trainer_state.json"
_RANDOM = re.compile(r"rng_state_(\d{1,6})\.pth|random_states_(\d{1,6})\.pkl")
_STATES = re.compile(r"(scheduler|optimizer|scaler|sampler|dl_state_dict)(_\d+)?\.(pt|bin)")


def program_of(names: list[str]) -> str | None:
    """The program whose files are among the names."""
    if TRAINER_STATE in names or "training_args.bin" in names or any(one.startswith("rng_state") for one in names):
        return "Trainer"
    if any(one.startswith("random_states_") for one in names):
        return "Accelerate"
    return None


def add_companions(place: SavedPlace, saved: SavedFolder, folder: str = "") -> None:
    """Add the files of the Trainer or Accelerate to what is known of a folder."""
    names = place.names(folder)
    program = program_of(names)
    if program is None:
        return
    saved.writer["program"] = program
    if program == "Trainer":
        _trainer_state(place, folder, names, saved)
    _random_states(place, folder, names, saved)
    known = {file.path for file in saved.files}
    for name in names:
        path = join(folder, name)
        if _STATES.fullmatch(name) and path not in known:
            _add(place, path, saved, None)
        elif name == "training_args.bin":  # for people: no program loads it to resume
            status = place.archive(path).status
            saved.files.append(SavedFile(path, status))


def _trainer_state(place: SavedPlace, folder: str, names: list[str], saved: SavedFolder) -> None:
    path = join(folder, TRAINER_STATE)
    is_checkpoint = any(one.startswith(("rng_state", "scheduler.", "optimizer.")) for one in names)
    if TRAINER_STATE not in names:
        if is_checkpoint and saved.partition != "none":
            saved.files.append(SavedFile(path, "missing"))
            saved.failures.append(f"{path} is missing: {TRAINER_RAISES} FileNotFoundError")
        elif saved.partition != "none":
            saved.notes.append(
                f"{path} is not there, as Trainer.save_model() leaves it: resume_from_checkpoint raises "
                "FileNotFoundError, engine.load_checkpoint() does not need it"
            )
        return
    content = place.json(path)
    status = place.status(path)
    if not isinstance(content, dict) and status == "ok":
        status = "truncated"
    saved.files.append(SavedFile(path, status, None, None if status == "ok" else "it is not JSON"))
    if status != "ok":
        saved.failures.append(f"{path} is {status}: {TRAINER_RAISES} JSONDecodeError")


def _random_states(place: SavedPlace, folder: str, names: list[str], saved: SavedFolder) -> None:
    """A file for each rank; without one, a rank draws other numbers than before."""
    found = {int(match[1] or match[2]): name for name in names if (match := _RANDOM.fullmatch(name))}
    one_process = join(folder, "rng_state.pth")
    if "rng_state.pth" in names:
        _add(place, one_process, saved, 0)
    if not found:
        return
    sample = next(iter(found.values()))
    is_of_trainer = sample.startswith("rng_state")
    ranks = saved.ranks or max(found) + 1
    for rank in range(max(ranks, max(found) + 1)):
        name = f"rng_state_{rank}.pth" if is_of_trainer else f"random_states_{rank}.pkl"
        path = join(folder, name)
        if is_of_trainer:
            if place.status(path) == "missing":
                saved.files.append(SavedFile(path, "missing", rank))
                saved.notes.append(f"{path} is missing: rank {rank} draws other random numbers than before")
            else:
                _add(place, path, saved, rank)
            continue
        archive = place.archive(path)  # accelerate catches every exception
        saved.files.append(SavedFile(path, archive.status, rank, archive.why))
        if archive.status != "ok":
            saved.notes.append(f"{path} is {archive.status}: rank {rank} draws other random numbers than before")


def _add(place: SavedPlace, path: str, saved: SavedFolder, rank: int | None) -> None:
    archive = place.archive(path)
    saved.files.append(SavedFile(path, archive.status, rank, archive.why if archive.status != "ok" else None))
    if archive.status != "ok" and saved.partition != "none":
        saved.failures.append(loss(saved.files[-1], "FileNotFoundError"))
