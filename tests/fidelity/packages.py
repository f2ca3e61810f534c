"""Python stand-ins for optional packages that DeepSpeed asks for; the tests need them to exist, and little more."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any

import torch


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


def install() -> None:
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
