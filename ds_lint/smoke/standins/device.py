"""A CPU in place of a GPU: the libraries believe in fp16 and bf16, whose arithmetic a CPU has too."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from types import ModuleType

_DTYPE_QUESTIONS = ("is_bf16_available", "is_fp16_available", "is_torch_bf16_gpu_available")


def stand_in_of_deepspeed() -> None:
    """Let DeepSpeed's accelerator have every dtype, and page-locked memory."""
    from deepspeed.accelerator import get_accelerator

    accelerator = get_accelerator()
    accelerator.is_fp16_supported = accelerator.is_bf16_supported = lambda: True
    accelerator.supported_dtypes = lambda: [torch.float, torch.half, torch.bfloat16]
    torch.Tensor.pin_memory = lambda tensor, *_device: tensor  # needs a GPU
    accelerator.is_pinned = lambda _tensor: True  # which older releases ask before they write to NVMe


def stand_in_of_accelerate(state: ModuleType) -> None:
    """Let ``accelerate.state`` start ranks that meet over Gloo; it finds no backend without a GPU.

    A process that is not a rank, such as one that parses training arguments before it launches the ranks, has none.
    """
    gloo = (str(torch.distributed.Backend.GLOO), state.DistributedType.MULTI_GPU)

    @around(state.PartialState, "_prepare_backend")  # nothing else decides it
    def prepared(prepare: Any, *args: Any, **more: Any) -> Any:
        return gloo if int(os.environ.get("LOCAL_RANK", "-1")) != -1 else prepare(*args, **more)

    _have_every_dtype(state)


def stand_in_of_transformers(training_args: ModuleType) -> None:
    """Let ``transformers.training_args`` accept bf16 and fp16."""
    _have_every_dtype(training_args)


def _have_every_dtype(module: ModuleType) -> None:
    for name in _DTYPE_QUESTIONS:
        if hasattr(module, name):
            setattr(module, name, lambda *_args, **_more: True)


def ask_no_processor() -> None:
    """Finding out the name of the processor starts processes, for one warning about AMD."""
    import deepspeed.ops.adam.cpu_adam
    import deepspeed.ops.lion.cpu_lion

    for module in (deepspeed.ops.adam.cpu_adam, deepspeed.ops.lion.cpu_lion):
        if hasattr(module, "get_cpu_info"):
            module.get_cpu_info = lambda: {"vendor_id_raw": "unasked"}
    with contextlib.suppress(ImportError):
        import cpuinfo

        cpuinfo.get_cpu_info = lambda: {"vendor_id_raw": "unasked"}
