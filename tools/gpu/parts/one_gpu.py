"""Two ranks that share one GPU, and whether DeepSpeed shards, trains and saves there with the kernels of the GPU.

NCCL refuses a GPU that two ranks of one host share. Gloo carries tensors of a GPU through the host for some
collectives; and NCCL takes ranks for those of two hosts if each has a name of its own, and then sends through sockets.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ds_lint.smoke.small_run.options import RunOptions
from tools.gpu.parts.smoke import CPU, config_of
from tools.gpu.proving import not_passed, prover
from tools.gpu.setting import Item, Setting

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tools.gpu.proving import Prover
    from tools.gpu.setting import Result

QUESTION = "Can one GPU prove sharding with its own kernels, by two ranks that share it?"
LANES = 2
BACKENDS = ("gloo", "nccl")
_RANKS = 2


def lane(setting: Setting) -> AbstractContextManager[Prover]:
    """One process for all runs."""
    return prover(setting)


def items(setting: Setting) -> list[Item]:
    """Each stage with each of the two, then offload and other precisions."""
    stages = [("deepspeed", f"stage {stage}, bf16", config_of(stage)) for stage in (2, 3, 1, 0)]
    rest = [
        ("deepspeed", "stage 3, both on the CPU", config_of(3, offload_optimizer=CPU, offload_param=CPU)),
        ("trainer", "stage 3, bf16, trainer", config_of(3)),
        ("accelerate", "stage 2, bf16, accelerate", config_of(2)),
        ("deepspeed", "stage 2, fp16", config_of(2, "fp16")),
        ("deepspeed", "stage 3, fp32", config_of(3, "fp32")),
    ]
    every = itertools.product([*stages, *rest], BACKENDS)
    return [_run(setting, f"{name}, {backend}", config, stack, backend) for (stack, name, config), backend in every]


def _run(setting: Setting, name: str, config: Result, stack: str, backend: str) -> Item:
    run_options = RunOptions(ranks=_RANKS, shared_gpu=None if setting.rehearses else backend)

    def measure(shared: Prover) -> Result:
        found = shared.prove(config, stack=stack, run_options=run_options)
        return {**found, "backend": backend, "not_passed": not_passed(found)}

    return Item(name, measure, seconds=20.0)
