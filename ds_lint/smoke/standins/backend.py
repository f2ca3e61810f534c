"""NCCL on a machine without GPUs: groups of ranks that ask for it meet over Gloo."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from ds_lint.smoke.standins.placement import is_cuda

if TYPE_CHECKING:
    from collections.abc import Callable

GLOO = "gloo"
_SENTENCE = "the backend nccl is gloo"
_AVERAGE = "an average over ranks is a sum, divided by their number: gloo has none"


def install(tell: Callable[[str], None]) -> None:
    """Let groups of ranks meet over Gloo; ``tell`` gets one sentence each time that they ask for another backend."""
    if not distributed.is_available():
        return

    def change(given: dict[str, Any]) -> None:
        backend = given.get("backend")
        if isinstance(backend, str) and "nccl" in backend.lower():
            tell(_SENTENCE)
            given["backend"] = GLOO
        given.pop("device_id", None)

    def alone(given: dict[str, Any]) -> None:
        given.pop("device_ids", None)  # of a barrier

    def mesh(given: dict[str, Any]) -> None:
        if is_cuda(given.get("device_type")):
            given["device_type"] = "cpu"

    for name, of_arguments in (
        ("init_process_group", change), ("new_group", change), ("barrier", alone), ("init_device_mesh", mesh),
    ):  # fmt: skip
        _replace(name, of_arguments)
    _replace_average(tell)


def _replace(name: str, change: Callable[[dict[str, Any]], None]) -> None:
    real = getattr(distributed, name, None)
    if real is None:
        return
    signature = inspect.signature(real)

    @functools.wraps(real)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        given = dict(bound.arguments)
        given |= given.pop("kwargs", {})
        change(given)
        return real(**given)

    _set(real, name, replaced)


def _replace_average(tell: Callable[[str], None]) -> None:
    real = distributed.all_reduce

    @functools.wraps(real)
    def all_reduce(tensor: Any, op: Any = distributed.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        if op != distributed.ReduceOp.AVG:
            return real(tensor, op, group, async_op)
        tell(_AVERAGE)
        work = real(tensor, distributed.ReduceOp.SUM, group)
        tensor.div_(distributed.get_world_size(group))
        return _Done() if async_op else work

    _set(real, "all_reduce", all_reduce)


class _Done:
    """Work that has ended before it is waited for."""

    def wait(self, _timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def _set(real: Any, name: str, replaced: Any) -> None:
    """Wherever torch itself has the function under its name."""
    modules = (distributed, distributed.distributed_c10d, torch.distributed.device_mesh)
    for module in modules:
        if getattr(module, name, None) is real:
            setattr(module, name, replaced)
