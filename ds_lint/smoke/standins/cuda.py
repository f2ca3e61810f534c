"""``torch.cuda`` on a machine without GPUs: a script sees as many GPUs as its launcher starts ranks.

Libraries get the truth, that there is no GPU, and take their own way on a CPU: transformers, accelerate and DeepSpeed
call CUDA in a hundred places if they believe in it. A script gets GPUs, because what it asks decides what it trains:
``fp16=torch.cuda.is_available()``, ``backend="nccl" if torch.cuda.is_available() else "gloo"``, or an assertion.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import sysconfig
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable

CAPABILITY = (8, 0)  # of the first GPUs with bf16; a script that asks for more wants kernels that a CPU has not
_NAME = "CPU in place of a GPU"
_SEES = "torch.cuda shows the script a GPU for each rank of its node, with bf16 and compute capability 8.0"
_MEMORY = "torch.cuda reports no memory, because no GPU holds any"
_TIMES = "streams and events of torch.cuda are those of the CPU, which has none"
_AUTOCAST = "torch.autocast of CUDA is that of the CPU"

_NOTHING = (  # what does nothing, and answers nothing
    "set_device", "synchronize", "empty_cache", "ipc_collect", "init", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all", "set_stream", "set_sync_debug_mode",
    "set_per_process_memory_fraction", "reset_peak_memory_stats", "reset_max_memory_allocated",
    "reset_max_memory_cached", "reset_accumulated_memory_stats",
)  # fmt: skip
_NO_MEMORY = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached",
    "max_memory_cached",
)  # fmt: skip
_TYPES = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")


def install(tell: Callable[[str], None]) -> None:
    """Put the stand-ins into ``torch.cuda``; ``tell`` gets one sentence for each kind that is used."""
    cuda = torch.cuda
    for name in _NOTHING:
        setattr(cuda, name, lambda *_args, **_more: None)
    for name in _NO_MEMORY:
        setattr(cuda, name, _answer(0, _MEMORY, tell))
    for name in _TYPES:
        setattr(cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
    cuda.memory_stats = _answer({}, _MEMORY, tell)
    cuda.memory_summary = _answer("", _MEMORY, tell)
    cuda.mem_get_info = lambda _device=None: (_host_memory(), _host_memory())
    cuda.current_device = lambda: int(os.environ.get("LOCAL_RANK", "0"))
    cuda.is_bf16_supported = lambda *_args, **_more: True
    cuda.get_device_capability = lambda _device=None: CAPABILITY
    cuda.get_device_name = lambda _device=None: _NAME
    cuda.get_device_properties = lambda _device=None: _properties()
    cuda.get_rng_state = lambda *_args: torch.empty(0, dtype=torch.uint8)
    cuda.device = cuda.device_of = lambda _device: contextlib.nullcontext()
    _show_devices(tell)
    _replace_streams(tell)
    _replace_autocast(tell)
    for name in ("range_push", "range_pop", "mark"):
        setattr(cuda.nvtx, name, lambda *_args: 0)


def _answer(value: Any, sentence: str, tell: Callable[[str], None]) -> Callable[..., Any]:
    def answered(*_args: Any, **_more: Any) -> Any:
        tell(sentence)
        return value

    return answered


def _show_devices(tell: Callable[[str], None]) -> None:
    """Whether there are GPUs, and how many: what a script asks, not a library."""
    for name, own in (
        ("is_available", lambda: True),
        ("is_initialized", lambda: True),
        ("device_count", ranks_of_node),
    ):
        real = getattr(torch.cuda, name)

        def answer(real: Callable[[], Any] = real, own: Callable[[], Any] = own) -> Any:
            # The compiler, which sees what it traces, asks on behalf of the library that it compiles.
            if torch.compiler.is_compiling() or not is_script(sys._getframe(1)):  # noqa: SLF001
                return real()
            tell(_SEES)
            return own()

        answer.cache_clear = lambda: None  # type: ignore[attr-defined] # of some releases of torch
        setattr(torch.cuda, name, functools.wraps(real)(answer))


def is_script(frame: Any) -> bool:
    """Whether a frame is of the user's own code, and not of an installed library."""
    module = frame.f_globals.get("__name__") or ""
    if module == "__main__":
        return True
    if module.partition(".")[0] in ("torch", "deepspeed", "transformers", "accelerate", "ds_lint"):
        return False  # also where they are installed from a folder of sources
    return not os.path.abspath(frame.f_code.co_filename).startswith(_libraries())


@functools.cache
def _libraries() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = {sysconfig.get_path(name) for name in names} | {one for one in sys.path if one.endswith("-packages")}
    return tuple(os.path.join(os.path.abspath(one), "") for one in found)


def ranks_of_node() -> int:
    """How many ranks the launcher starts on this node."""
    return int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("LOCAL_SIZE") or 1)


def _host_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _properties() -> SimpleNamespace:
    major, minor = CAPABILITY
    return SimpleNamespace(
        name=_NAME, major=major, minor=minor, total_memory=_host_memory(), multi_processor_count=os.cpu_count() or 1
    )


class Event:
    """A moment on the clock of the host."""

    def __init__(self, *_args: Any, **_more: Any) -> None:
        self._time = 0.0

    def record(self, _stream: Any = None) -> None:
        """Everything before has ended."""
        self._time = time.perf_counter()

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds up to another event."""
        return (other._time - self._time) * 1000

    def query(self) -> bool:
        """Whether what was recorded has ended."""
        return True

    def wait(self, _stream: Any = None) -> None:
        """There is nothing to wait for."""

    synchronize = wait


class Stream:
    """The one stream of a CPU."""

    def __init__(self, *_args: Any, **_more: Any) -> None:
        self.device = torch.device("cpu")

    def record_event(self, event: Event | None = None) -> Event:
        """An event now."""
        event = event or Event()
        event.record()
        return event

    def wait_event(self, _event: Any) -> None:
        """There is nothing to wait for."""

    def wait_stream(self, _stream: Any) -> None:
        """There is nothing to wait for."""

    def query(self) -> bool:
        """Whether everything has ended."""
        return True

    def synchronize(self) -> None:
        """There is nothing to wait for."""


def _replace_streams(tell: Callable[[str], None]) -> None:
    """Classes, because libraries name them in annotations and ask ``isinstance``."""

    class ReportedEvent(Event):
        def __init__(self, *args: Any, **more: Any) -> None:
            tell(_TIMES)
            super().__init__(*args, **more)

    class ReportedStream(Stream):
        def __init__(self, *args: Any, **more: Any) -> None:
            tell(_TIMES)
            super().__init__(*args, **more)

    only = Stream()
    torch.cuda.current_stream = torch.cuda.default_stream = lambda _device=None: only
    torch.cuda.stream = lambda _stream: contextlib.nullcontext()
    torch.cuda.Event, torch.cuda.Stream = ReportedEvent, ReportedStream
    torch.Tensor.record_stream = lambda _tensor, _stream: None


def _replace_autocast(tell: Callable[[str], None]) -> None:
    """``torch.autocast("cuda")`` and ``torch.cuda.amp.autocast``, which is a subclass, compute in the same dtype."""

    @around(torch.autocast, "__init__")
    def began(begin: Any, self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            tell(_AUTOCAST)
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        begin(self, device_type, dtype, *args, **kwargs)
