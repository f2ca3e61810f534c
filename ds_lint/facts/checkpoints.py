"""Checkpoints in a project that launches resume from: what is in them, and on how many ranks each was written."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ds_lint.checkpoints.record import SavedFolder

_OF_TRAINER = re.compile(r"checkpoint-(\d+)")


class Checkpoint(NamedTuple):
    """What is in a folder; ``ranks`` is None if they are not those of data parallelism alone, or save no partitions.

    ``universal`` is the universal checkpoint, if the folder has both.
    """

    path: str  # of the tag
    folder: str  # that has the tag
    ranks: int | None
    saved: SavedFolder | None = None
    universal: SavedFolder | None = None


def checkpoint_in(folder: str, *, tag: str | None = None, is_last: bool = False) -> Checkpoint | None:
    """The checkpoint of a folder; None if it has nothing that is known, or nothing that was fetched.

    With ``is_last`` the folder has checkpoints of the Trainer, of which the last counts.
    """
    from ds_lint.checkpoints.kinds import saved_folder  # few launches resume from a folder of the project

    if is_last:
        try:
            steps = [int(match[1]) for name in os.listdir(folder) if (match := _OF_TRAINER.fullmatch(name))]
        except (OSError, ValueError):
            return None
        folder = os.path.join(folder, f"checkpoint-{max(steps)}") if steps else folder
    saved = saved_folder(folder, tag=tag, descends=False)
    if saved.kind == "unknown" or any("Git LFS" in (file.why or "") for file in saved.files):
        return None
    engine = saved.engine
    path = folder if engine is None or not engine.tag else os.path.join(folder, engine.tag)
    universal = saved if saved.kind == "universal" else saved_folder(folder, is_universal=True, tag=tag, descends=False)
    return Checkpoint(
        os.path.normpath(path),
        os.path.normpath(folder),
        saved.ranks if engine is not None and engine.has_partitions and saved.kind == "deepspeed" else None,
        saved,
        universal if universal.kind == "universal" else None,
    )
