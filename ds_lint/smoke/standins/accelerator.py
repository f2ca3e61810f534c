"""``torch.accelerator`` on a machine without GPUs: a script sees what it sees through ``torch.cuda``.

A script that asks ``torch.accelerator.is_available()`` ends, or trains something else, without one. As with
``torch.cuda``, libraries get the truth.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.standins import cuda

if TYPE_CHECKING:
    from collections.abc import Callable

_SEES = "torch.accelerator shows the script a GPU for each rank of its node"
_MEMORY = "torch.accelerator reports no memory, because no GPU holds any"
_NOTHING = ("set_device_index", "set_device_idx", "set_stream", "synchronize", "empty_cache")
_NO_MEMORY = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
_FORGOTTEN = ("reset_peak_memory_stats", "reset_accumulated_memory_stats")


def install(tell: Callable[[str], None]) -> None:
    """Put the stand-ins into ``torch.accelerator``; ``tell`` gets one sentence for each kind that is used."""
    accelerator = getattr(torch, "accelerator", None)  # since torch 2.6
    if accelerator is None:
        return
    for name, own in (
        ("is_available", lambda: True),
        ("device_count", cuda.ranks_of_node),
        ("current_accelerator", lambda: torch.device("cuda")),
    ):
        _answer_the_script(accelerator, name, own, tell)
    for name in (*_NOTHING, *_FORGOTTEN):
        if hasattr(accelerator, name):
            setattr(accelerator, name, lambda *_args, **_more: None)
    for name in _NO_MEMORY:
        if hasattr(accelerator, name):
            setattr(accelerator, name, _no_memory(tell))
    for name in ("current_device_index", "current_device_idx"):
        if hasattr(accelerator, name):
            setattr(accelerator, name, torch.cuda.current_device)
    accelerator.current_stream = lambda _device=None: torch.cuda.current_stream()
    if hasattr(accelerator, "device_index"):
        accelerator.device_index = lambda _device: contextlib.nullcontext()


def _answer_the_script(accelerator: Any, name: str, own: Callable[[], Any], tell: Callable[[str], None]) -> None:
    real = getattr(accelerator, name)

    @functools.wraps(real)
    def answer(*args: Any, **kwargs: Any) -> Any:
        # The compiler, which sees what it traces, asks on behalf of the library that it compiles.
        if torch.compiler.is_compiling() or not cuda.is_script(sys._getframe(1)):  # noqa: SLF001
            return real(*args, **kwargs)
        tell(_SEES)
        return own()

    setattr(accelerator, name, answer)


def _no_memory(tell: Callable[[str], None]) -> Callable[..., int]:
    def answer(*_args: Any, **_more: Any) -> int:
        tell(_MEMORY)
        return 0

    return answer
