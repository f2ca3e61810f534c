"""Write ``schemas/torch.json``: the constructors of torch.optim and torch.optim.lr_scheduler.

A DeepSpeed config may name any of them as ``optimizer.type`` or ``scheduler.type``. Run it in an environment that
has torch: ``python -m tools.torch_constructors``. A fidelity test compares the file with the torch installed.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "schemas" / "torch.json"


def constructors() -> dict[str, Any]:
    """Parameters and defaults per class; "$required" where a parameter has none."""
    import torch

    return {
        "torch": torch.__version__.split("+")[0],
        "optimizers": _classes(torch.optim, torch.optim.Optimizer),
        "schedulers": _classes(torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler),
    }


def _classes(module: Any, base: type) -> dict[str, dict[str, Any]]:
    return {
        name: _parameters(thing)
        for name, thing in sorted(vars(module).items())
        if inspect.isclass(thing) and issubclass(thing, base) and thing is not base and not name.startswith("_")
    }


def _parameters(constructor: type) -> dict[str, Any]:
    parameters = list(inspect.signature(constructor).parameters.values())[1:]  # the first is what it works on
    return {parameter.name: _default(parameter) for parameter in parameters}


def _default(parameter: inspect.Parameter) -> Any:
    if parameter.default is inspect.Parameter.empty:
        return "$required"
    default = parameter.default
    if hasattr(default, "item"):
        return default.item()
    if isinstance(default, tuple):
        return list(default)
    return default if isinstance(default, (bool, int, float, str, type(None))) else repr(default)


if __name__ == "__main__":
    TARGET.write_text(json.dumps(constructors(), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {TARGET}\n")
