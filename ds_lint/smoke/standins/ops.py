"""DeepSpeed's compiled ops without a compiler: each computes in torch operations what the kernel computes.

So the user's optimizer class runs unchanged on a machine where its op is not built; a build takes minutes, and that of
a GPU op needs a GPU.
"""

from __future__ import annotations

import collections
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.standins import aio, kernels, offloaded, pybind

if TYPE_CHECKING:
    from collections.abc import Callable

KERNELS = ("cpu_adagrad", "cpu_adam", "cpu_lion", "fused_adam", "fused_lamb", "fused_lion")
OTHERS: dict[str, dict[str, Callable[..., Any]]] = {
    "async_io": {"aio_handle": aio.AioHandle},
    "pin_memory": {"pin_handle": aio.PinHandle},
    "utils": {"cast_to_byte_tensor": aio.cast_to_byte_tensor},
}

_used: list[str] = []


class NoStandIn(NotImplementedError):  # noqa: N818 - what there is not, as in NotImplementedError
    """DeepSpeed wants something of an op that nothing stands for; `op` is its name."""

    cause = "stand-in"

    def __init__(self, op: str, part: str | None = None, *, needs_gpu: bool = False) -> None:
        self.op, self.needs_gpu = op, needs_gpu
        way = "it runs on a GPU only" if needs_gpu else "--smoke-build-ops builds it"
        super().__init__(f"no stand-in for {f'{part} of ' if part else ''}DeepSpeed's compiled op {op}: {way}")


class StandIn(ModuleType):
    """The module of an op; what it does not have raises `NoStandIn`."""

    def __init__(self, op: str) -> None:
        super().__init__(op)
        for name, (kinds, compute) in kernels.functions_of(op).items():
            function = pybind.function(name, kinds, compute)
            function.__dict__["op"] = op
            setattr(self, name, function)
        self.__dict__.update(OTHERS.get(op, {}))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else NoStandIn(self.__name__, name)


def stand_in(op: str) -> StandIn:
    """The module to load in place of this op, which then counts as used."""
    if op not in KERNELS and op not in OTHERS:
        raise NoStandIn(op)
    if op not in _used:
        _used.append(op)
    return StandIn(op)


def used() -> list[str]:
    """The ops of which a stand-in was loaded in this process, in the order in which they were."""
    return list(_used)


def install(*, builds: bool, takes_built: bool = False) -> list[str]:
    """Let DeepSpeed load stand-ins in this process where an op is not installed, and start no compiler.

    The names of the ops that a stand-in is ready for. ``builds`` leaves DeepSpeed as it is: it compiles what it needs.
    With ``takes_built`` it loads what an earlier build has left in TORCH_EXTENSIONS_DIR, as the user's job does.
    """
    if builds:
        return []
    import deepspeed.ops
    from deepspeed.git_version_info import installed_ops
    from deepspeed.ops.op_builder.builder import OpBuilder
    from deepspeed.ops.op_builder.cpu import NotImplementedBuilder

    real = OpBuilder.jit_load
    # `OpBuilder.load` itself takes an op that is installed.
    OpBuilder.jit_load = lambda builder, verbose=True: (
        real(builder, verbose) if takes_built and _is_built(builder.name) else _load(builder, verbose)
    )
    NotImplementedBuilder.load = _load_gpu_op
    offloaded.install()
    _name_gpu_ops(NotImplementedBuilder)
    # Finding out what could be built starts compilers. No op also means no deepspeed_shm_comm, which leaves 69 MB in
    # /dev/shm.
    deepspeed.ops.__compatible_ops__ = collections.defaultdict(bool)
    return [op for op in sorted((*KERNELS, *OTHERS)) if not installed_ops.get(op, False)]


def _is_built(op: str) -> bool:
    """Whether a build of the op has come to its end (``_jit_compile`` in torch/utils/cpp_extension.py)."""
    folder = os.path.join(os.environ.get("TORCH_EXTENSIONS_DIR", ""), op)
    return os.path.isfile(os.path.join(folder, f"{op}.so")) and not os.path.exists(os.path.join(folder, "lock"))


def _load(builder: Any, verbose: bool = True) -> StandIn:
    return stand_in(builder.name)


def _load_gpu_op(builder: Any, verbose: bool = True) -> StandIn:
    try:
        return stand_in(builder.name)
    except NoStandIn:
        raise NoStandIn(builder.name, needs_gpu=True) from None


def _name_gpu_ops(nameless: type) -> None:
    """Tell the builders apart that a CPU lacks: DeepSpeed has one class for them all, which knows no name of an op."""
    import deepspeed.ops.op_builder as package

    modules = {name: vars(module) for name, module in sys.modules.items() if name.partition(".")[0] == "deepspeed"}
    builders = {
        name: type(name, (nameless,), {"NAME": builder.NAME})
        for module, known in modules.items()
        if module.rpartition(".")[0] == package.__name__
        for name, builder in known.items()
        if getattr(package, name, None) is nameless and builder.__module__ == module and hasattr(builder, "NAME")
    }
    for known in modules.values():
        known.update({name: builder for name, builder in builders.items() if known.get(name) is nameless})
