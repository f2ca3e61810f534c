"""The model as the config and its architecture define it, before the first step: built in this process, without a rank.

What the engine may change of it is known from the sources: the weights are cast to the dtype of the config, and their
fp32 copies are those again; buffers keep the dtype in which they were built (``_cast_module_mixed_precision`` in
deepspeed/runtime/engine.py), which under ``zero.Init`` is that of the config for each tensor that a constructor of
torch makes (``zero_wrapper_for_fp_tensor_constructor`` in deepspeed/runtime/zero/partition_parameters.py). A model that
transformers partitions while it builds it draws its weights in another order, so where they begin is not known.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import torch
import transformers
from transformers.integrations import deepspeed as integration

from ds_lint.smoke.observe import lora
from ds_lint.smoke.rank import training_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from ds_lint.smoke.records.job import Job, ReferencePlan

_CONSTRUCTORS = ("tensor", "empty", "zeros", "ones", "full", "eye", "randn")
_OF_RANGE = "arange"  # which releases of transformers keep as it is, so that rotary embeddings stay in fp32
_KEEPS_RANGE = "prevent_arange_dtype_change"
# The Trainer decays no bias and no weight of a normalization; `get_decay_parameter_names` in transformers/trainer.py of
# releases from 4.53 on, and of those before, which know the layers by a list of classes too.
_UNDECAYED = (r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)")
_UNDECAYED_BEFORE = (r"bias", r"layernorm", r"rmsnorm")
_FIRST_WITH_PATTERNS = (4, 53)


class Definition:
    """The model that the run should train, with the buffers and the weights with which it should begin."""

    def __init__(self, job: Job, plan: ReferencePlan) -> None:
        self.plan = plan
        self.recipe = training_model.recipe_of(job)
        self.model = training_model.build(self.recipe)
        self.dtype: torch.dtype = getattr(torch, plan.dtype)
        self._set_buffers()
        for parameter in self.model.parameters():
            parameter.data = parameter.data.to(self.dtype)
        self.parameters: dict[str, Tensor] = dict(self.model.named_parameters())
        self.buffers: dict[str, Tensor] = {name: one.clone() for name, one in self.model.named_buffers()}
        self.starts: dict[str, int] = {}
        self.elements = 0
        for name, parameter in self.parameters.items():
            self.starts[name] = self.elements
            self.elements += parameter.numel()
        every = [one.detach().reshape(-1).double() for one in self.parameters.values()]
        self.weights = torch.cat(every)

    def has_dtype(self, name: str, dtype: torch.dtype) -> bool:
        """Whether a parameter may have this dtype: adapters beside partitioned weights are in fp32, as peft makes them.

        Source: ``cast_adapter_dtype`` in peft/tuners/tuners_utils.py.
        """
        return dtype == self.dtype or (self.plan.is_partitioned and lora.is_adapter(name) and dtype == torch.float32)

    def name_at(self, place: int) -> str:
        """The parameter of an element."""
        found: str = next(name for name, start in reversed(self.starts.items()) if start <= place)
        return found

    def row(self, name: str) -> slice:
        """Where a parameter is in the row of all of them."""
        return slice(self.starts[name], self.starts[name] + self.parameters[name].numel())

    def put(self, weights: Tensor) -> None:
        """Give the model the weights of a row of all parameters, cast down."""
        for name, parameter in self.parameters.items():
            parameter.data = weights[self.row(name)].float().to(parameter.dtype).reshape(parameter.shape)

    def decays(self, decay: float) -> Tensor:
        """The weight decay of each element: the Trainer's own optimizer leaves out some parameters."""
        found = torch.full((self.elements,), decay, dtype=torch.float64)
        if self.plan.decays_some:
            for name in self.parameters.keys() - _decayed(self.model):
                found[self.row(name)] = 0.0
        return found

    def _set_buffers(self) -> None:
        """The dtypes that the buffers have in an engine."""
        buffers = dict(self.model.named_buffers())
        if self.plan.is_partitioned:
            with _constructors_in(self.dtype):
                built = training_model.build(self.recipe)
            for name, one in built.named_buffers():
                buffers[name].data = one.data
        kept = _kept(self.model, self.plan) if self.plan.keeps_fp32 is not None else None
        for name, one in buffers.items():
            if not one.is_floating_point():
                continue
            if kept is not None and kept.search(name):
                one.data = one.data.float()
            elif self.plan.buffer_dtype is not None:
                one.data = one.data.to(getattr(torch, self.plan.buffer_dtype))


def _kept(model: Any, plan: ReferencePlan) -> re.Pattern[str] | None:
    """The names of buffers that stay in fp32: those of the config, else those that the model names.

    Source: deepspeed/runtime/keep_in_fp32.py.
    """
    if plan.dtype == "float32":
        return None
    patterns = [one.replace("*", ".*") for one in plan.keeps_fp32 or ()]
    if plan.keeps_fp32 == ():
        attributes = ["_keep_in_fp32_modules_strict", *(["_keep_in_fp32_modules"] * (plan.dtype == "float16"))]
        for within, module in model.named_modules():
            named = {one.replace("*", ".*") for name in attributes for one in getattr(module, name, None) or ()}
            patterns += sorted(rf"^{re.escape(within)}\..*{one}" if within else one for one in named)
    return re.compile("|".join(patterns)) if patterns else None


@contextlib.contextmanager
def _constructors_in(dtype: torch.dtype) -> Iterator[None]:
    """Let the constructors of torch make floating tensors of this dtype, as ``zero.Init`` does."""
    names = _CONSTRUCTORS if hasattr(integration, _KEEPS_RANGE) else (*_CONSTRUCTORS, _OF_RANGE)
    originals = {name: getattr(torch, name) for name in names}

    def casting(make: Any) -> Any:
        def made(*args: Any, **kwargs: Any) -> Tensor:
            tensor: Tensor = make(*args, **kwargs)
            if tensor.is_floating_point():
                tensor.data = tensor.data.to(dtype)
            return tensor

        return made

    try:
        for name, make in originals.items():
            setattr(torch, name, casting(make))
        yield
    finally:
        for name, make in originals.items():
            setattr(torch, name, make)


def _decayed(model: Any) -> set[str]:
    """The parameters that the Trainer's optimizer decays."""
    layers: tuple[type, ...] = (torch.nn.LayerNorm,)
    patterns: tuple[str, ...] = _UNDECAYED
    release = tuple(int(one) for one in transformers.__version__.split(".")[:2])
    if release < _FIRST_WITH_PATTERNS:
        from transformers.pytorch_utils import ALL_LAYERNORM_LAYERS

        layers, patterns = tuple(ALL_LAYERNORM_LAYERS), _UNDECAYED_BEFORE
    undecayed = re.compile("|".join(patterns))
    found = set()
    for within, module in model.named_modules():
        # The layers around it count with their names, and not the model itself.
        around = [model.get_submodule(within[:end]) for end in _ends(within)]
        if any(isinstance(one, layers) for one in around):
            continue
        for name in module._parameters:  # noqa: SLF001 - those of the module itself, as the Trainer asks
            whole = f"{within}.{name}" if within else name
            if not any(undecayed.search(tail.lower()) for tail in _tails(whole)):
                found.add(whole)
    return found


def _ends(name: str) -> list[int]:
    """Where the names of the modules around a module end, and its own."""
    return [at for at, letter in enumerate(name) if letter == "."] + [len(name)] if name else []


def _tails(name: str) -> list[str]:
    """``b.c`` and ``c`` of ``a.b.c``, and the whole: the names by which each module around it knows a parameter."""
    parts = name.split(".")
    return [".".join(parts[start:]) for start in range(len(parts))]
