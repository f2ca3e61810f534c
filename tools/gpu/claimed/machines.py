"""A machine that lacks something: a compiler, libaio, a second GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from tools.gpu.claimed import kernels, models, training
from tools.gpu.setting import Unanswered

if TYPE_CHECKING:
    from tools.gpu.setting import Result

_COMPILERS = ("nvcc", "g++", "c++", "gcc", "cc", "clang", "clang++")
_OF_BUILDS = ("CPATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "CFLAGS", "LDFLAGS", "CXXFLAGS")
_SECONDS = 30.0  # until two ranks meet, or are refused
_RANK = """
import torch, torch.distributed
from accelerate import PartialState
state = PartialState()
print("ds-lint:", state.device, flush=True)
torch.distributed.all_reduce(torch.ones(1, device=state.device))
print("ds-lint: reduced", flush=True)
"""


def without_compiler(device: str, config: Result) -> Result:
    """A run where no op is built, and neither nvcc nor a C++ compiler is found."""
    from torch.utils import cpp_extension

    kernels.provide(device)
    kernels.compile_all()
    os.environ["TORCH_EXTENSIONS_DIR"] = tempfile.mkdtemp(dir=os.getcwd())
    os.environ["PATH"] = os.pathsep.join(map(_without_compilers, os.environ.get("PATH", "").split(os.pathsep)))
    for name in ("CUDA_HOME", "CUDA_PATH", "CC", "CXX"):
        os.environ.pop(name, None)
    cpp_extension.CUDA_HOME = None  # as torch finds it when it is imported on such a machine
    return training.watched(device, models.make("layers", device), config, steps=2)


def _without_compilers(folder: str) -> str:
    """A folder of programs, or one with links to all of them but the compilers."""
    if not any(os.path.exists(os.path.join(folder, name)) for name in _COMPILERS):
        return folder
    others = tempfile.mkdtemp(dir=os.getcwd())
    for name in set(os.listdir(folder)) - set(_COMPILERS):
        os.symlink(os.path.join(folder, name), os.path.join(others, name))
    return others


def without_libaio(device: str, config: Result) -> Result:
    """A run with NVMe on this machine as it is, without the folders that bring libaio."""
    for name in _OF_BUILDS:
        os.environ.pop(name, None)
    os.environ["TORCH_EXTENSIONS_DIR"] = tempfile.mkdtemp(dir=os.getcwd())
    kernels.provide(device, compiled=("async_io",))
    from deepspeed.ops.op_builder import AsyncIOBuilder

    if AsyncIOBuilder().is_compatible(verbose=False):
        raise Unanswered("Does offload to NVMe stop where libaio is missing? This machine has it.")
    return training.watched(device, models.make("layers", device), config, steps=1)


def of_second_rank(device: str, config: Result) -> Result:
    """The start of a rank whose local rank is the number of GPUs."""
    import torch

    local = str(torch.cuda.device_count() if device != "cpu" else 1)
    os.environ.update(LOCAL_RANK=local)
    kernels.provide(device)
    found = training.watched(device, models.make("layers", device), config, steps=1)
    return {"local_rank": int(local), **found}


def two_ranks(device: str, config: Result) -> Result:
    """What two ranks of Accelerate do with one GPU; they need no config, and meet where this process would."""
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    if device == "cpu":
        shared["ACCELERATE_USE_CPU"] = "1"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _RANK],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        for rank in range(2)
    ]
    deadline = time.monotonic() + _SECONDS
    outputs = [_output(one, deadline) for one in ranks]
    return {
        "devices": [_after(text, "ds-lint: ") for text in outputs],
        "raised": [one.returncode not in (0, -signal.SIGKILL) for one in ranks],
        "duplicate": [
            next((line.strip() for line in text.splitlines() if "Duplicate GPU" in line), None) for text in outputs
        ],
        "said": [text[-600:] for text in outputs],
    }


def _output(rank: Any, deadline: float) -> str:
    try:
        text: str = rank.communicate(timeout=max(1.0, deadline - time.monotonic()))[0]
    except subprocess.TimeoutExpired:
        rank.kill()
        text = rank.communicate()[0] + f"\nended after {_SECONDS:g} s"
    return text


def _after(text: str, mark: str) -> str | None:
    return next((line.removeprefix(mark) for line in text.splitlines() if line.startswith(mark)), None)
