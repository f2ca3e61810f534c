"""Python stand-ins for what DeepSpeed needs beside itself: compiled ops and optional packages.

No compiler is ever started for a verdict: an op that is not built takes minutes, and the GPU ops cannot be built
without a GPU. The stand-ins compute nothing, they only take and refuse the arguments that the real functions take and
refuse (pybind11's conversions); `test_oracle.py` holds them against the ops that are built.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

# Argument types of the functions, all positional and required: deepspeed/ops/csrc, 0.19.8.
SIGNATURES = {
    "fused_adam": {"multi_tensor_adam": "int tensor tensors float float float float int int int float"},
    "fused_lion": {"multi_tensor_lion": "int tensor tensors float float float int float"},
    "fused_lamb": {
        "lamb": "tensor tensor tensor tensor tensor float float float float float float float int int int float"
    },
    "cpu_adam": {
        "create_adam": "int float float float float float bool bool",
        "adam_update": "int size float float float float float bool tensor tensor tensor tensor",
        "adam_rollback": "int size float float float float float bool tensor tensor tensor tensor",
        "destroy_adam": "int",
    },
    "cpu_lion": {
        "create_lion": "int float float float float bool",
        "lion_update": "int size float float float float tensor tensor tensor",
        "destroy_lion": "int",
    },
    "cpu_adagrad": {
        "create_adagrad": "int float float float bool",
        "adagrad_update": "int size float float float tensor tensor tensor",
        "destroy_adagrad": "int",
    },
}


def _is_float(value: Any) -> bool:
    if isinstance(value, (str, bytes, bytearray)):  # float() would parse them; pybind asks PyNumber_Check first
        return False
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_integer(value: Any, low: int, high: int) -> bool:
    if isinstance(value, (float, str, bytes, bytearray)):
        return False
    try:
        return low <= int(value) <= high
    except (TypeError, ValueError, OverflowError):
        return False


def _is_bool(value: Any) -> bool:
    # None is false, and everything with __bool__ is what that says; strings and lists have only a length.
    if value is None:
        return True
    try:
        type(value).__bool__(value)
    except (AttributeError, RuntimeError):  # RuntimeError: a tensor of several elements
        return False
    return True


ACCEPTS: dict[str, Callable[[Any], bool]] = {
    "float": _is_float,
    "int": lambda value: _is_integer(value, -(2**31), 2**31 - 1),
    "size": lambda value: _is_integer(value, 0, 2**64 - 1),
    "bool": _is_bool,
    "tensor": lambda value: isinstance(value, torch.Tensor),
    "tensors": lambda value: all(isinstance(tensor, torch.Tensor) for row in value for tensor in row),
}


def function(name: str, signature: str) -> Callable[..., Any]:
    """A function that takes what a pybind11 function of this signature takes, and does nothing."""
    kinds = signature.split()

    def stand_in(*args: Any) -> Any:
        if len(args) != len(kinds) or not all(ACCEPTS[kind](arg) for kind, arg in zip(kinds, args, strict=True)):
            raise TypeError(f"{name}(): incompatible function arguments. Expected ({', '.join(kinds)})")
        return args[0] if name == "lamb" else 0

    return stand_in


class PinHandle:
    """Memory that stays in RAM, of the ops pin_memory and async_io; here any memory will do."""

    def __init__(self) -> None:
        self._ranges: dict[int, int] = {}

    def new_cpu_locked_tensor(self, count: int, example: torch.Tensor) -> torch.Tensor:
        tensor = torch.empty(count, dtype=example.dtype)
        self._ranges[tensor.data_ptr()] = tensor.data_ptr() + max(1, tensor.nbytes)
        return tensor

    def free_cpu_locked_tensor(self, tensor: torch.Tensor) -> bool:
        return self.free_cpu_locked_tensor_by_ptr(tensor.data_ptr())

    def free_cpu_locked_tensor_by_ptr(self, address: int) -> bool:
        return self._ranges.pop(address, None) is not None

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        return any(start <= tensor.data_ptr() < end for start, end in self._ranges.items())


class AioHandle(PinHandle):
    """Reads and writes files at once, and counts what `wait` then answers."""

    def __init__(
        self,
        block_size: Any = 2**20,
        queue_depth: Any = 128,
        single_submit: Any = False,
        overlap_events: Any = False,
        intra_op_parallelism: Any = 1,
    ) -> None:
        super().__init__()
        function("aio_handle", "int int bool bool int")(
            block_size, queue_depth, single_submit, overlap_events, intra_op_parallelism
        )
        self._pending = 0

    def async_pwrite(self, buffer: torch.Tensor, filename: str, file_offset: int = 0) -> int:
        self._pending += 1
        with open(filename, "r+b" if os.path.exists(filename) else "wb") as file:
            file.seek(file_offset)
            file.write(buffer.contiguous().view(torch.uint8).numpy().data)
        return 0

    def async_pread(self, buffer: torch.Tensor, filename: str, file_offset: int = 0) -> int:
        self._pending += 1
        with open(filename, "rb") as file:
            file.seek(file_offset)
            file.readinto(buffer.view(torch.uint8).numpy().data)
        return 0

    def sync_pwrite(self, buffer: torch.Tensor, filename: str, file_offset: int = 0) -> int:
        self.async_pwrite(buffer, filename, file_offset)
        return self.wait()

    def sync_pread(self, buffer: torch.Tensor, filename: str, file_offset: int = 0) -> int:
        self.async_pread(buffer, filename, file_offset)
        return self.wait()

    def wait(self) -> int:
        done, self._pending = self._pending, 0
        return done

    def get_alignment(self) -> int:
        return 4096


CLASSES: dict[str, dict[str, type]] = {"async_io": {"aio_handle": AioHandle}, "pin_memory": {"pin_handle": PinHandle}}


class _Op:
    """The module of an op; what it has no stand-in for is NotImplementedError, which is never the config's fault."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.__dict__.update({key: function(key, signature) for key, signature in SIGNATURES.get(name, {}).items()})
        self.__dict__.update(CLASSES.get(name, {}))

    def __getattr__(self, name: str) -> Any:
        raise (AttributeError if name.startswith("__") else NotImplementedError)(f"no stand-in for {self._name}.{name}")


def op(name: str) -> _Op:
    """The module that the builder of op `name` would load."""
    if name not in SIGNATURES and name not in CLASSES:
        raise NotImplementedError(f"no stand-in for {name}")
    return _Op(name)


class _Anything:
    """An object of an optional package of which only the existence matters."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and not name.startswith("__internal_api__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def _mup(impl: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """An optimizer of mup (mup/optim.py): the torch one, whose groups need an lr and scale it.

    A real one needs a prepared model.
    """

    def make(params: Any, impl: type[torch.optim.Optimizer] = impl, **kwargs: Any) -> torch.optim.Optimizer:
        group = {
            "params": list(params),
            "lr": kwargs["lr"] / 1.0,
            "weight_decay": kwargs.get("weight_decay", 0.0) * 1.0,
        }
        return impl([group], **kwargs)

    return make


def install_packages() -> None:
    """Put stand-ins of the monitors' packages and of mup into `sys.modules`: nothing is logged, nothing is sent."""
    packages: dict[str, dict[str, Any]] = {
        "tensorboard": {},
        "torch.utils.tensorboard": {"SummaryWriter": _Anything},
        "wandb": {"init": _Anything, "log": _Anything},
        "comet_ml": {"__version__": "3.41.0", "start": _Anything},
        "mup": {"MuAdam": _mup(torch.optim.Adam), "MuAdamW": _mup(torch.optim.AdamW), "MuSGD": _mup(torch.optim.SGD)},
    }
    for name, attributes in packages.items():
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__dict__.update(attributes)
        sys.modules[name] = module
