"""Where the weights of the user's models come from: which parameters each call that loads something fills.

Noted are the parameters themselves, by their identity, so that the engine knows them again under other names. What
``from_pretrained`` should have loaded is found in the files by a process of its own; of a dict of tensors, digests are
taken here, before the library that is observed gets them.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.probe import imports
from ds_lint.smoke.records.engine_trace import Loaded
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from types import ModuleType

_DTYPES = ("float32", "bfloat16", "float16")
_DICT = "load_state_dict"
_MOST = 2**28  # elements of which digests are taken: a fifth of a second for 10**8


class LoadedWeights:
    """The last source of each parameter in this process."""

    def __init__(self, *, is_shrunk: bool) -> None:
        self._sources: dict[int, tuple[Any, Loaded]] = {}  # the parameter itself keeps its id
        self._depth = 0
        if not is_shrunk:  # a model that is made small has other weights than its files
            imports.after("transformers.modeling_utils", self._watch_transformers)
            imports.after("torch.nn.modules.module", self._watch_torch)

    def of(self, model: Any) -> dict[str, Loaded]:
        """The source of each parameter of a model that has one."""
        named = ((name, self._sources.get(id(one))) for name, one in model.named_parameters())
        return {name: found[1] for name, found in named if found is not None}

    def by_engine(self, model: Any, source: str) -> None:
        """DeepSpeed itself loads all weights of a model."""
        self._sources.update({id(one): (one, Loaded(source)) for one in model.parameters()})

    def _watch_transformers(self, module: ModuleType) -> None:
        inner = getattr(getattr(module.PreTrainedModel, "from_pretrained", None), "__func__", None)
        if inner is None:
            return

        def from_pretrained(cls: Any, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                made = inner(cls, *args, **kwargs)
            finally:
                self._depth -= 1
            model = made[0] if isinstance(made, tuple) else made
            place = args[0] if args else kwargs.get("pretrained_model_name_or_path")
            self._note(model, str(place))
            return made

        from_pretrained.__doc__ = inner.__doc__
        module.PreTrainedModel.from_pretrained = classmethod(from_pretrained)

    def _note(self, model: Any, place: str) -> None:
        if self._depth or not hasattr(model, "named_parameters"):
            return
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        folder = os.path.abspath(place) if os.path.isdir(place) else ""
        for name, one in model.named_parameters(remove_duplicate=False):
            dtype = str(one.dtype).removeprefix("torch.")
            self._sources[id(one)] = one, Loaded(f"from_pretrained({place!r})", folder, kind, name, dtype)

    def _watch_torch(self, module: Any) -> None:
        @around(module.Module, "load_state_dict")
        def watched(load: Any, model: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
            is_own = not self._depth
            given = self._digests(model, state_dict) if is_own else {}
            self._depth += 1
            try:
                answer = load(model, state_dict, *args, **kwargs)
            finally:
                self._depth -= 1
            for name, one in model.named_parameters(remove_duplicate=False) if is_own else ():
                if name in given:
                    self._sources[id(one)] = one, Loaded(_DICT, name=name, digests=given[name])
                else:  # a dict of adapters has nothing for weights that are loaded before
                    self._sources.setdefault(id(one), (one, Loaded(_DICT, name=name, is_missing=True)))
            return answer

    def _digests(self, model: Any, state_dict: Any) -> dict[str, list[str]]:
        """Of the tensors in a dict that are parameters of the model, in each dtype that an engine may have."""
        import torch

        from ds_lint.smoke.observe import probes

        sizes = {
            name: getattr(one, "ds_numel", one.numel()) for name, one in model.named_parameters(remove_duplicate=False)
        }
        found = {name: one for name, one in dict(state_dict).items() if name in sizes and torch.is_tensor(one)}
        is_small = sum(one.numel() for one in found.values()) <= _MOST
        plain = {name for name, one in found.items() if type(one) in (torch.Tensor, torch.nn.Parameter)}  # no shards
        return {
            name: [probes.digest(one.to(getattr(torch, dtype))) for dtype in _DTYPES]
            if is_small and name in plain and not one.is_meta and one.numel() == sizes[name]
            else []
            for name, one in found.items()
        }


def place_of_checkpoint(config: Any) -> str | None:
    """What ``deepspeed.init_inference`` loads itself; None if the model has its weights."""
    found = config.get("checkpoint") if isinstance(config, dict) else None
    return str(found) if found else None


def digests_of(model: Any) -> dict[str, str]:
    """Of the parameters of a model that no library has divided yet; empty if one has, or if it is large."""
    from ds_lint.smoke.observe import probes

    parameters = dict(model.named_parameters())
    is_whole = not any(hasattr(one, "ds_tensor") or one.is_meta for one in parameters.values())
    if not is_whole or sum(one.numel() for one in parameters.values()) > _MOST:
        return {}
    return {name: probes.digest(one.data) for name, one in parameters.items()}


def has_adapters(model: Any) -> bool:
    """Whether peft has put something beside the weights, which it may merge into them."""
    return "peft" in sys.modules and bool(getattr(model, "peft_config", None))
