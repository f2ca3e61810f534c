"""What of a model does nothing while the model is in evaluation mode, by what its modules say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

# Ends of names of numbers in modules that drop values with them while they train, such as `attention_dropout`.
_DROPPING = ("dropout", "drop_prob", "drop_path", "layerdrop")
_RECOMPUTING = "gradient_checkpointing"  # of the models of transformers, while they are in training mode


def idle(model: torch.nn.Module) -> list[str]:
    """Each kind of module that would work otherwise in training mode, in words."""
    kinds: dict[str, int] = {}
    for module in model.modules():
        if not module.training:
            for kind in dict.fromkeys(_idle(module)):
                kinds[kind] = kinds.get(kind, 0) + 1
    return [f"{kind} of {number} module{'s' * (number != 1)}" for kind, number in kinds.items()]


def _idle(module: Any) -> Iterator[str]:
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - the class of all of them
        if module.track_running_stats and any(one.requires_grad for one in module.parameters()):
            yield "batch normalization by the batch"
    elif isinstance(module, torch.nn.modules.dropout._DropoutNd):  # noqa: SLF001 - the same
        if module.p > 0:
            yield "dropout"
    elif any(
        isinstance(value, float) and 0 < value < 1 and name.endswith(_DROPPING) for name, value in vars(module).items()
    ):
        yield "dropout"
    if vars(module).get(_RECOMPUTING) is True:
        yield "gradient checkpointing"
