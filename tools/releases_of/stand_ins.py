"""What releases of DeepSpeed of other years need beside today's torch, NumPy and a machine without a GPU.

``environments.json`` says which release needs which, and why. None changes what a release does with a config: they give
back names that newer libraries dropped, and let a CPU be the accelerator.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import logging
import os
import sys
import types
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _module(name: str, **content: Any) -> types.ModuleType:
    """A module that is made up; a spec tells those who only look that it is there."""
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module).update(content)
    sys.modules[name] = module
    return module


def _torch_six() -> None:
    _module("torch._six", inf=float("inf"), string_classes=(str, bytes))


def _numpy_buffer_size() -> None:
    numpy: Any = importlib.import_module("numpy")
    if not hasattr(numpy, "BUFSIZE"):
        numpy.BUFSIZE = 8192


def _torch_elastic() -> None:
    server = importlib.import_module("torch.distributed.elastic.agent.server.api")
    if not hasattr(server, "_get_socket_with_port"):
        server._get_socket_with_port = lambda: None  # type: ignore[attr-defined]  # noqa: SLF001
    if not hasattr(server, "log"):
        server.log = logging.getLogger("torch")  # type: ignore[attr-defined]


def _intel() -> None:
    _module("intel_extension_for_pytorch", _C=types.SimpleNamespace(_get_current_level=lambda: 0))
    _module("oneccl_bindings_for_pytorch")


def _without_ccl() -> None:
    comm = importlib.import_module("deepspeed.comm.comm")
    comm.init_deepspeed_backend = lambda *_, **__: None  # type: ignore[attr-defined]


def _without_shm() -> None:
    comm = importlib.import_module("deepspeed.comm.torch")
    comm.build_shm_op = lambda *_, **__: None  # type: ignore[attr-defined]


class Event:
    """An event of a device that does everything at once."""

    def __init__(self, **_: Any) -> None:
        pass

    def record(self, stream: object = None) -> None:
        """Happen now."""

    def wait(self, stream: object = None) -> None:
        """Have happened."""

    def synchronize(self) -> None:
        """Have happened."""

    def query(self) -> bool:
        """Whether it has happened."""
        return True

    def elapsed_time(self, _: Event) -> float:
        """No time passes."""
        return 0.0


class Stream:
    """A stream of a device that does everything in order."""

    def __init__(self, **_: Any) -> None:
        pass

    def synchronize(self) -> None:
        """Have done all."""

    def wait_stream(self, stream: Stream) -> None:
        """Come after another."""

    def wait_event(self, event: Event) -> None:
        """Come after an event."""

    def record_event(self, event: Event | None = None) -> Event:
        """The event that all is done."""
        return event or Event()


def _with_events(accelerator: type) -> None:
    """Give an accelerator streams, events and statistics, where that of the CPU has none that work."""
    for name, value in {
        "Event": property(lambda _: Event),
        "Stream": property(lambda _: Stream),
        "stream": lambda *_: contextlib.nullcontext(),
        "current_stream": lambda *_: Stream(),
        "default_stream": lambda *_: Stream(),
        "memory_stats": lambda *_: defaultdict(int),
    }.items():
        setattr(accelerator, name, value)
    importlib.import_module("torch").Tensor.record_stream = lambda *_: None  # tensors of a CPU have none


def _cpu_events() -> None:
    _with_events(importlib.import_module("deepspeed.accelerator.cpu_accelerator").CPU_Accelerator)


def _flatten() -> None:
    """What the compiled operations for flattening do, in Python: other ones stay missing."""
    utils = importlib.import_module("torch._utils")
    loaded = types.SimpleNamespace(
        flatten=utils._flatten_dense_tensors,  # noqa: SLF001
        unflatten=utils._unflatten_dense_tensors,  # noqa: SLF001
    )
    for package in ("op_builder", "deepspeed.ops.op_builder"):
        missing = importlib.import_module(f"{package}.cpu.no_impl").NotImplementedBuilder
        missing.load = lambda *_, **__: loaded


def _cpu_accelerator() -> None:
    """An accelerator for the releases that know those of GPUs only: theirs for CUDA, with everything on the CPU."""
    torch = importlib.import_module("torch")
    real = importlib.import_module("deepspeed.accelerator.real_accelerator")
    cuda = importlib.import_module("deepspeed.accelerator.cuda_accelerator").CUDA_Accelerator
    memory = [name for name in dir(cuda) if "memory_" in name or name.endswith("_memory")]
    nothing = ("set_device", "synchronize", "empty_cache", "manual_seed", "manual_seed_all", "range_push", "range_pop")
    content: dict[str, object] = {
        **{name: property(lambda _, name=name: getattr(torch, name)) for name in _TENSORS},  # type: ignore[misc]
        **{name: lambda *_: 0 for name in memory if name not in ("pin_memory", "memory_stats")},
        **{name: lambda *_: None for name in nothing},
        "is_synchronized_device": lambda _: True,
        "device_name": lambda *_: "cpu",
        "current_device_name": lambda _: "cpu",
        "device": lambda *_: contextlib.nullcontext(),
        "current_device": lambda _: int(os.environ["LOCAL_RANK"]),
        "device_count": lambda _: int(os.environ["LOCAL_SIZE"]),
        "is_available": lambda _: True,
        "is_bf16_supported": lambda _: True,
        "is_fp16_supported": lambda _: True,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda _, state, *__: torch.set_rng_state(state),
        "initial_seed": lambda *_: torch.initial_seed(),
        "default_generator": lambda *_: torch.default_generator,
        "lazy_call": lambda _, callback: callback(),
        "communication_backend_name": lambda _: "gloo",
        "pin_memory": lambda _, tensor, *__: tensor,
        "on_accelerator": lambda _, tensor: tensor.device.type == "cpu",
    }
    made = type("CPU_Accelerator", (cuda,), content)
    _with_events(made)
    real.ds_accelerator = made()  # type: ignore[attr-defined]


_TENSORS = [f"{kind}Tensor" for kind in ("BFloat16", "Byte", "Double", "Float", "Half", "Int", "Long")]

BEFORE: dict[str, Callable[[], None]] = {
    "torch._six": _torch_six,
    "numpy.BUFSIZE": _numpy_buffer_size,
    "torch.distributed.elastic": _torch_elastic,
    "intel_extension_for_pytorch": _intel,
}
# Those that change what the release itself has, so that it is imported before the claim.
AFTER: dict[str, Callable[[], None]] = {
    "init_deepspeed_backend": _without_ccl,
    "build_shm_op": _without_shm,
    "streams of the CPU": _cpu_events,
    "flattening": _flatten,
    "accelerator of the CPU": _cpu_accelerator,
}
