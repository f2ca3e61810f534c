"""Liger's kernels in a model on the CPU: they allocate what they allocate on a GPU, and compute nothing.

What a kernel writes is allocated by torch before it is launched, so a step holds the same whether it computes or not.
Where the package asks for the device, its source is read as if the CPU were a GPU of compute capability 9.0.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

LIGER = "liger"
_PACKAGE = "liger_kernel"
_AS_ON_A_GPU = (('device.type == "cuda"', 'device.type == "cpu"'), ('device.type != "cuda"', 'device.type != "cpu"'))


class _Loader(importlib.machinery.SourceFileLoader):
    """Reads a module as if the CPU were the GPU; nothing of it is cached."""

    def get_code(self, fullname: str) -> Any:  # noqa: ARG002 - a module has one name
        source = self.get_data(self.path).decode("utf-8")
        for on_a_gpu, here in _AS_ON_A_GPU:
            source = source.replace(on_a_gpu, here)
        return compile(source, self.path, "exec", dont_inherit=True)


class _Finder:
    """Finds the modules of Liger."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """The module with the loader of above."""
        if name.partition(".")[0] != _PACKAGE:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is not None and found.origin and found.origin.endswith(".py"):
            found.loader = _Loader(name, found.origin)
        return found


def is_installed() -> bool:
    """Whether Liger and Triton are there to be measured."""
    return all(importlib.util.find_spec(name) is not None for name in (_PACKAGE, "triton"))


def are_for(model_type: str) -> bool:
    """Whether Liger has kernels for a model type; it leaves any other as it is."""
    if not is_installed():
        return False
    try:
        _import()
        patches = importlib.import_module(f"{_PACKAGE}.transformers.monkey_patch")
    except ImportError:  # newer releases refuse transformers 4
        return False
    return model_type in patches.MODEL_TYPE_TO_APPLY_LIGER_FN


def apply(model: Any) -> None:
    """Put the kernels in a model as the Trainer does (``transformers/integrations/liger.py``)."""
    liger = importlib.import_module(f"{_PACKAGE}.transformers")
    liger._apply_liger_kernel_to_instance(  # noqa: SLF001 - as transformers calls it
        model=model.get_base_model() if hasattr(model, "peft_config") else model
    )


@contextlib.contextmanager
def undone(model_class: Any) -> Iterator[None]:
    """What is put in the module of a class is taken out again."""
    module = sys.modules[model_class.__module__]
    before = dict(vars(module))
    classes = {one: dict(vars(one)) for one in before.values() if isinstance(one, type)}
    try:
        yield
    finally:
        vars(module).clear()
        vars(module).update(before)
        for one, attributes in classes.items():
            if one.__module__ == module.__name__:
                _restore(one, attributes)


def _restore(one: type, attributes: dict[str, Any]) -> None:
    for name in [name for name in vars(one) if name not in attributes]:
        delattr(one, name)
    for name, value in attributes.items():
        if vars(one).get(name) is not value:
            setattr(one, name, value)


def _import() -> None:
    """Import Liger so that its kernels are not launched."""
    if _PACKAGE in sys.modules:
        return
    jit = importlib.import_module("triton.runtime.jit")
    jit.KernelInterface.__getitem__ = lambda _kernel, _grid: lambda *_arguments, **_options: None
    torch.cuda.get_device_capability = lambda _device=None: (9, 0)
    # It sums a few rows on each multiprocessor, which is nothing beside a model.
    torch.cuda.get_device_properties = lambda _device=None: SimpleNamespace(multi_processor_count=1)
    sys.meta_path.insert(0, _Finder)
    importlib.import_module(f"{_PACKAGE}.transformers")
