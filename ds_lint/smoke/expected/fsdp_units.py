"""Which modules a wrap policy makes units of their own, from the definition of the model alone.

By layer: each module of the classes, for both versions. By size, FSDP 1 goes from the leaves to the root and wraps a
module once it has enough elements that no unit below it has (``_recursive_wrap`` in torch/distributed/fsdp/wrap.py);
accelerate's FSDP 2 wraps each module that has more elements in all (``fsdp2_prepare_auto_wrap_policy``). The model
itself is always one. FSDP 2 of accelerate also separates the embeddings, the last normalization and the head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ds_lint.smoke.records.fsdp import FSDP2

if TYPE_CHECKING:
    from ds_lint.smoke.records.fsdp import FsdpJob

BY_LAYER, BY_SIZE = "TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP"
_NOT_ALONE = ("ModuleList", "ModuleDict")  # their forward is never called


def of_policy(model: Any, fsdp: FsdpJob) -> list[str]:
    """The modules that the policy of a job makes units."""
    if fsdp.policy == BY_LAYER:
        return by_layer(model, fsdp.layers)
    if fsdp.policy == BY_SIZE:
        return by_size(model, fsdp.least_elements, is_version_2=fsdp.version == FSDP2)
    return []


def by_layer(model: Any, classes: tuple[str, ...]) -> list[str]:
    """The modules of these classes; without any, of those that the model must not split."""
    wanted = set(classes) or set(getattr(model, "_no_split_modules", None) or ())
    return [name for name, module in model.named_modules() if name and type(module).__name__ in wanted]


def by_size(model: Any, least: int, *, is_version_2: bool) -> list[str]:
    """The modules that are large enough; none if the least is zero."""
    if least <= 0:
        return []
    if is_version_2:
        return [name for name, module in model.named_modules() if name and _elements(module) > least]
    found: list[str] = []
    _wrap(model, "", least, found)
    return found


def _wrap(module: Any, name: str, least: int, found: list[str]) -> int:
    """The elements below a module that are in units; adds the names of these."""
    total = _elements(module)
    if total < least or type(module).__name__ == "MultiheadAttention":
        return 0
    wrapped = sum(
        _wrap(child, f"{name}.{one}" if name else one, least, found) for one, child in module.named_children()
    )
    return wrapped + _alone(module, name, total - wrapped, least, found)


def _alone(module: Any, name: str, rest: int, least: int, found: list[str]) -> int:
    if not name or rest < least or type(module).__name__ in _NOT_ALONE:
        return 0
    found.append(name)
    return rest


def _elements(module: Any) -> int:
    return sum(one.numel() for one in module.parameters())
