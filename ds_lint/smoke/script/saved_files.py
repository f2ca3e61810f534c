"""The files that the user's script has saved, for a process that loads them."""

from __future__ import annotations

from typing import NamedTuple


class SavedFiles(NamedTuple):
    """The files of one engine, and what loads them."""

    export: str  # the folder of the saved model
    checkpoint: str
    model_class: str  # with its module
    has_adapters: bool
    trained: list[str]  # the names of the parameters that are not frozen
    tied: list[list[str]]  # names of parameters that are one tensor
    is_sharded: bool  # zero_to_fp32 has partitions to put together
