"""The part of the experts that a rank holds under AutoEP of DeepSpeed.

It replaces the blocks of experts of a model (``deepspeed/module_inject/auto_ep_layer.py``, ``auto_ep_presets``).
The ranks with the same experts share their states: as many as are left of the data-parallel ones
(``_create_expert_and_data_parallel`` in ``deepspeed/utils/groups.py``).
"""

from __future__ import annotations

import re
from math import prod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.parallelism import Degrees
    from ds_lint.knowledge.records import JsonObject

_OF_EXPERTS = re.compile(r"(^|\.)experts\.")
_ROUTER = re.compile(r"\.(gate|router)\.")
_TYPES = ("deepseek_v2", "deepseek_v3", "mixtral", "qwen3_moe")  # of its presets, those whose parameters are known
_STACKED = 3  # dimensions of the matrices of all experts in one parameter
_BOTH = "gate_up_proj"  # two matrices, which are two parameters then


def is_of_experts(tensor: Tensor) -> bool:
    """Whether a parameter is one of experts that a router chooses."""
    return _OF_EXPERTS.search(tensor.name) is not None


def of_rank(
    parameters: tuple[Tensor, ...], architecture: JsonObject, degrees: Degrees, ranks: int
) -> tuple[Tensor, ...] | None:
    """The parameters of a rank; None if it is not known what AutoEP makes of the model."""
    stacks = [one for one in parameters if is_of_experts(one)]
    if architecture.get("model_type") not in _TYPES or not stacks or ranks % degrees.experts:
        return None
    if any(one.packed is not None or len(one.shape) != _STACKED or one.shape[0] % degrees.experts for one in stacks):
        return None
    found: list[Tensor] = []
    last: Tensor | None = None  # the second matrix of ``gate_up_proj``, which comes behind ``down_proj``
    for one in parameters:
        if _ROUTER.search(one.name) and found and is_of_experts(found[-1]):  # which AutoEP puts in front of its experts
            first = next(place for place in range(len(found) - 1, -1, -1) if not is_of_experts(found[place])) + 1
            found.insert(first, one)
            continue
        if not is_of_experts(one):
            found.append(one)
            continue
        shape = (one.shape[0] // degrees.experts, *one.shape[1:])
        if one.name.endswith(_BOTH):
            shape = (shape[0], shape[1] // 2, shape[2])
            last = one._replace(name=one.name.replace(_BOTH, "w3"), shape=shape, size=prod(shape))
            found.append(last._replace(name=one.name.replace(_BOTH, "w1")))
            continue
        found.append(one._replace(shape=shape, size=prod(shape)))
        if last is not None:
            found.append(last)
            last = None
    return tuple(found)
