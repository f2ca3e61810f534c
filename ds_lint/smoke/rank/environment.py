"""Prepares one rank: its environment, its process group, and a CPU that stands in for the intended device."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import torch

from ds_lint.diagnostics.verdict import CPU, CUDA, FAKE
from ds_lint.smoke.processes import meeting_store
from ds_lint.smoke.processes.leftovers import port_of
from ds_lint.smoke.records.rendezvous import environment
from ds_lint.smoke.standins import device, ops

if TYPE_CHECKING:
    from ds_lint.smoke.records.job import Job

_PATIENCE = timedelta(minutes=30)  # of a collective; what hangs is ended from outside, long before


class NoGpu(RuntimeError):  # noqa: N818 - it is the GPU that is not there
    """A rank for which there is no GPU; the message says how to start it."""

    cause = "gpu per rank"


def set_up(job: Job, rank: int) -> None:
    """Make this process a rank of the run. Call it once, and before anything of DeepSpeed is made."""
    os.environ.update(_variables(job, rank))
    torch.set_num_threads(1)  # a forked OpenMP pool hangs, and the ranks share the cores
    torch.manual_seed(0)
    random.seed(0)
    # What starts processes must fork: "spawn" would run the main script again.
    fork = multiprocessing.get_context("fork")
    contexts = multiprocessing.context._concrete_contexts  # type: ignore[attr-defined] # noqa: SLF001 - no other way
    contexts.update(spawn=fork, forkserver=fork)
    _quiet()
    if not job.builds_ops and job.mode != CUDA:  # a build asks what the processor has
        device.ask_no_processor()
    ops.install(builds=job.builds_ops, takes_built=job.mode == CUDA)
    if job.mode != CUDA:
        _pass_for_a_gpu()
    else:
        _take_gpu(int(os.environ["LOCAL_RANK"]))
    torch._dynamo.config.disable = True  # noqa: SLF001 - Muon's kernels would be compiled when they are first used
    _join(job, rank)


def _variables(job: Job, rank: int) -> dict[str, str]:
    """What the launchers set, and what keeps the run to itself."""
    size = str(job.world_size)
    here = job.ranks_of_node or job.world_size
    variables = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % here),
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": str(here),
        "LOCAL_SIZE": str(here),
        "CROSS_RANK": str(rank // here),
        "CROSS_SIZE": str(-(-job.world_size // here)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port_of(os.getppid())),  # no process listens: the ranks meet at a file
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",  # the name of this machine may not resolve
        "HOME": job.folder,
        "TMPDIR": job.folder,
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "disabled",
    }
    if job.seat is not None:
        variables |= environment(job.seat)
        if job.seat.nodes > 1:
            del variables["GLOO_SOCKET_IFNAME"]
    if job.mode == CUDA:
        variables["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # else cuBLAS may add in another order
    if job.shared_gpu is not None:  # NCCL refuses two ranks of one host on one GPU (init.cc)
        variables |= {"NCCL_HOSTID": f"rank-{rank}", "NCCL_SOCKET_IFNAME": variables["GLOO_SOCKET_IFNAME"]}
    if job.mode != CUDA:
        variables |= {"DS_ACCELERATOR": "cpu", "ACCELERATE_TORCH_DEVICE": "cpu"}
    return variables


def _join(job: Job, rank: int) -> None:
    """Meet the other ranks."""
    if job.mode == FAKE:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=job.world_size)
        return
    if job.seat is not None:
        store = meeting_store.store_of(job.seat, f"{os.path.basename(job.folder)}/{job.part}", job.seconds)
    else:
        store = torch.distributed.FileStore(os.path.join(job.folder, f"meeting-{job.part}"), job.world_size)
    backend = "gloo" if job.mode == CPU else job.shared_gpu or "nccl"
    torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=job.world_size, timeout=_PATIENCE)


def _take_gpu(local_rank: int) -> None:
    """Compute on the GPU of this rank, as DeepSpeed will: the one that has its number on the node."""
    seen = torch.cuda.device_count()
    if local_rank >= seen:
        raise NoGpu(
            f"this is rank {local_rank} of its node, and sees {seen} GPU{'s' * (seen != 1)}: start one rank per GPU, "
            "and let each see all GPUs of its node (with srun no --gpus-per-task)"
        )
    torch.cuda.set_device(local_rank)
    torch.cuda.reset_peak_memory_stats()
    # A run that resumes is to repeat its losses bitwise, which only deterministic kernels do.
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # with NaN, also what pads DeepSpeed's partitions
    # Parts of a sum are added up in fp32, as on a CPU: the bounds of the reference run hold for that.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def _pass_for_a_gpu() -> None:
    """Let the libraries believe in a GPU with fp16 and bf16."""
    import accelerate.state
    import transformers.training_args

    device.stand_in_of_deepspeed()
    device.stand_in_of_accelerate(accelerate.state)
    device.stand_in_of_transformers(transformers.training_args)


def _quiet() -> None:
    """Warnings and worse only; they go to the log of the rank."""
    from deepspeed.utils import logger
    from transformers.utils import logging as transformers_logging

    logger.setLevel(logging.WARNING)
    transformers_logging.set_verbosity_warning()
    transformers_logging.disable_progress_bar()
