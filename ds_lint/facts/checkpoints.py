"""Checkpoints of DeepSpeed in a project: on how many ranks each was written."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

# ``_get_zero_ckpt_name`` in deepspeed/runtime/engine.py; 0.3 wrote no underscore before ``optim``.
_STATES = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_?optim_states\.pt")
_OF_TRAINER = re.compile(r"checkpoint-(\d+)")


class Checkpoint(NamedTuple):
    """The states that data-parallel ``ranks`` have written into a folder."""

    path: str
    ranks: int


def checkpoint_in(folder: str, *, tag: str | None = None, is_last: bool = False) -> Checkpoint | None:
    """The checkpoint of a folder; None if it has none, or the ranks are not those of data parallelism alone.

    With ``is_last`` the folder has checkpoints of the Trainer, of which the last counts.
    """
    try:
        if is_last:
            steps = [int(match[1]) for name in os.listdir(folder) if (match := _OF_TRAINER.fullmatch(name))]
            folder = os.path.join(folder, f"checkpoint-{max(steps)}") if steps else folder
        if tag is None:
            with open(os.path.join(folder, "latest"), encoding="utf-8") as file:
                tag = file.read(1000).strip()
        path = os.path.join(folder, tag)
        names = os.listdir(path)
    except (OSError, ValueError):
        return None
    found = [match for name in names if (match := _STATES.fullmatch(name))]
    ranks = {int(match[1]) for match in found}
    is_parallel = any(int(match[2]) for match in found) or any(name.startswith("layer_") for name in names)
    if is_parallel or not ranks or ranks != set(range(len(ranks))):
        return None
    return Checkpoint(path, len(ranks))
