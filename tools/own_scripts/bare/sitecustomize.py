"""Lets a command train on two CPU ranks without ds-lint, and ends it after OWN_SCRIPTS_STEPS steps of each engine.

Nothing is observed or redirected, so the time that it takes is that of the command itself up to the same step.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType


def _count(made: dict[int, int], stepping: Any) -> None:
    """End all ranks once whatever steps has made its steps."""
    import torch

    steps = int(os.environ["OWN_SCRIPTS_STEPS"])
    made[id(stepping)] = made.get(id(stepping), 0) + 1
    if all(count >= steps for count in made.values()) or max(made.values()) >= 2 * steps:
        torch.distributed.barrier()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _watch_engines(module: ModuleType) -> None:
    made: dict[int, int] = {}
    step = module.DeepSpeedEngine._take_model_step  # noqa: SLF001 - what every engine makes a step with

    def counted(engine: Any, *arguments: Any, **options: Any) -> Any:
        result = step(engine, *arguments, **options)
        _count(made, engine)
        return result

    module.DeepSpeedEngine._take_model_step = counted  # noqa: SLF001


def _watch_optimizers(module: ModuleType) -> None:
    made: dict[int, int] = {}
    module.register_optimizer_step_post_hook(lambda optimizer, *_: _count(made, optimizer))


if "OWN_SCRIPTS_STEPS" in os.environ:
    from ds_lint.smoke.probe import cpu, imports

    cpu.install(lambda *_arguments: None)  # a program that launches ranks may parse the training arguments, too
    if "RANK" in os.environ:
        if "OWN_SCRIPTS_WRAPPING" in os.environ:
            imports.after("torch.optim.optimizer", _watch_optimizers)
        else:
            imports.after("deepspeed.runtime.engine", _watch_engines)
