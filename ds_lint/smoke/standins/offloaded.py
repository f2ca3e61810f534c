"""Kernels of a GPU on states that the run keeps in host memory: they raise, as they do there.

Where a CPU stands in for the GPU both are the same memory, so the config shows what the kernel would get.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable

# What each op says of a tensor in host memory: CHECK_CUDA in csrc/lamb/fused_lamb_cuda.cpp, and multi_tensor_apply in
# csrc/adam/multi_tensor_apply.cuh and csrc/lion/multi_tensor_apply.cuh.
REFUSALS = {
    "fused_adam": "expected input to be on cuda",
    "fused_lamb": "p must be a CUDA tensor",
    "fused_lion": "expected input to be on cuda",
}


def install() -> None:
    """Let the kernels of an optimizer raise if ZeRO offloads its states."""
    from deepspeed.runtime.engine import DeepSpeedEngine

    @around(DeepSpeedEngine, "_configure_zero_optimizer")  # it alone knows the optimizer and the config
    def configured(configure: Any, engine: Any, optimizer: Any, *rest: Any) -> Any:
        if _offloads(engine) and optimizer is not None:
            _withhold_kernels(optimizer)
        return configure(engine, optimizer, *rest)


def _offloads(engine: Any) -> bool:
    section = getattr(engine._config.zero_config, "offload_optimizer", None)  # noqa: SLF001
    device = getattr(section, "device", None)
    return getattr(device, "value", device) in ("cpu", "nvme")


def _withhold_kernels(optimizer: Any) -> None:
    """Put what raises in the place of the kernels that an optimizer has: functions of an op, or its module."""
    for name, value in list(vars(optimizer).items()):
        op = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__dict__", {}).get("op")
        if op in REFUSALS:
            setattr(optimizer, name, _Refusing(REFUSALS[op]))


class _Refusing:
    """A kernel, or the module of an op with one."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __call__(self, *_arguments: Any) -> Any:
        raise RuntimeError(self._message)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self
