"""The options of a training run of one config, and what it is if none are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.diagnostics.verdict import CPU

if TYPE_CHECKING:
    from ds_lint.smoke.processes.client import Pool
    from ds_lint.smoke.small_run.ranks import LaunchedRanks

    Runner = Pool | LaunchedRanks  # what starts the ranks of a run

STEPS, STEPS_AFTER = 3, 2  # up to the checkpoint, and after it
RANKS = 2
SECONDS = 120.0  # for each part of a run
BUILDING = 1200.0  # more if ops are compiled


class RunOptions(NamedTuple):
    """The options of runs."""

    ranks: int = RANKS
    seconds: float = SECONDS
    builds_ops: bool = False
    keep: str | None = None  # a folder in which to keep everything
    mode: str = CPU
    is_real_world: bool = False  # a launcher started the ranks, as many as the user has
    simulates: bool = True  # the user's real world size, if it is larger
    gpus: tuple[str, ...] = ()  # as CUDA_VISIBLE_DEVICES names them
    about_gpus: str | None = None  # a sentence on those that the run does not use
    shared_gpu: str | None = None  # what carries the collectives of ranks that share one GPU
    has_adapters: bool = False  # of LoRA: the model itself is frozen
    batch: tuple[int, int] | None = None  # samples and micro steps of a loop with FSDP; None: two of two
