"""CUDA devices that a script names are the CPU: strings, ordinals and devices become the CPU where torch gets them.

A real ``torch.device("cuda", 0)`` stays what it is, because nothing can be asked of a device that is not there; only
what torch does with it changes. What libraries name goes the same way, so a library that a script hands a device to
works too.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = "cpu"
_SENTENCE = "the CPU takes the place of every CUDA device"
_NEW = ("new_tensor", "new_full", "new_empty", "new_ones", "new_zeros", "new_empty_strided")
_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like")


def install(tell: Callable[[str], None]) -> None:
    """Let torch take the CPU for CUDA devices; ``tell`` gets one sentence each time that it does."""

    def placed(value: Any, *, is_ordinal_device: bool = True) -> Any:
        if not is_cuda(value, is_ordinal_device=is_ordinal_device):
            return value
        tell(_SENTENCE)
        return CPU

    real = torch.Generator
    _replace_methods(placed)
    _replace_constructors(placed)
    _replace_loading(placed)
    _replace_defaults(placed)

    class AnyGenerator(type(real)):  # type: ignore[misc]
        """The generators that torch itself makes are instances too."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class Generator(real, metaclass=AnyGenerator):  # type: ignore[misc, valid-type]
        """A generator of the CPU, whatever device it is made for."""

        def __new__(cls, device: Any = CPU) -> Any:
            return super().__new__(cls, placed(device))

    Generator.__module__ = "torch"
    torch.Generator = Generator


def is_cuda(value: Any, *, is_ordinal_device: bool = True) -> bool:
    """Whether a value names a CUDA device: ``"cuda:1"``, a device, or the number of one."""
    if isinstance(value, str):
        return value == "cuda" or value.startswith("cuda:")
    if isinstance(value, torch.device):
        return bool(value.type == "cuda")
    return is_ordinal_device and isinstance(value, int) and not isinstance(value, bool)


def _replace_methods(placed: Callable[..., Any]) -> None:
    """``to`` and ``cuda`` of tensors and modules, and what makes a tensor like another."""

    def moved(move: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (placed(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = placed(kwargs["device"])
        return move(self, *args, **kwargs)

    def tensor_on_cuda(tensor: torch.Tensor, _device: Any = None, *_args: Any, **_kwargs: Any) -> torch.Tensor:
        placed("cuda")
        return tensor

    def module_on_cuda(module: torch.nn.Module, _device: Any = None) -> torch.nn.Module:
        placed("cuda")
        return module

    around(torch.Tensor, "to")(moved)
    around(torch.nn.Module, "to")(moved)
    torch.Tensor.cuda = tensor_on_cuda
    torch.nn.Module.cuda = module_on_cuda
    torch.Tensor.pin_memory = lambda tensor, *_device: tensor  # needs a GPU
    for name in _NEW:
        setattr(torch.Tensor, name, _constructor(getattr(torch.Tensor, name), placed))


def _constructor(make: Callable[..., Any], placed: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None:
            kwargs["device"] = placed(kwargs["device"])
        return make(*args, **kwargs)

    return made


def _replace_constructors(placed: Callable[..., Any]) -> None:
    """What makes tensors on a device; TorchScript goes on to know each as the operator that it is."""
    from torch.jit import _builtins
    from torch.utils._device import _device_constructors

    table = _builtins._get_builtin_table()  # noqa: SLF001 - by the id of each function
    names = [one.__name__ for one in _device_constructors()]  # cached: ``with torch.device(...)`` goes on to know them
    for name in (*names, *_LIKE):
        make = getattr(torch, name, None)
        if make is None:  # torch.fft and torch.nested name theirs otherwise
            continue
        made = _constructor(make, placed)
        if id(make) in table:
            table[id(made)] = table[id(make)]
        setattr(torch, name, made)


def _replace_loading(placed: Callable[..., Any]) -> None:
    """``torch.load`` puts a file with tensors of a GPU on the CPU."""

    @around(torch, "load")
    def loaded(load: Any, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(map_location, dict):
            map_location = {one: placed(other) for one, other in map_location.items()}
        elif map_location is None:
            map_location = CPU
        elif isinstance(map_location, (str, torch.device)):
            map_location = placed(map_location)
        return load(f, map_location, *args, **kwargs)


def _replace_defaults(placed: Callable[..., Any]) -> None:
    """The device and the type of tensors for which a script names none."""

    @around(torch, "set_default_device")
    def set_default_device(set_device: Any, device: Any) -> None:
        set_device(placed(device))

    @around(torch, "set_default_tensor_type")
    def set_default_tensor_type(set_type: Any, kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        set_type(name.replace("torch.cuda.", "torch.") if name.startswith("torch.cuda.") else kind)
