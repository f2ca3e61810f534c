"""The models of the script that FSDP of torch shards, and what the script does with them: passes and steps.

FSDP is hooked as its modules are imported, so the names that a script imports from ``torch.distributed.fsdp`` are the
hooked ones. Nothing is imported by ds-lint itself before the script does.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.probe import imports
from ds_lint.smoke.probe.presence import BEFORE, BEFORE_FSDP, IMPORT, SHARD
from ds_lint.smoke.records.fsdp import FSDP1, FSDP2
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ds_lint.smoke.probe.fsdp_calls import WrappedModule
    from ds_lint.smoke.probe.fsdp_model import ObservedModel
    from ds_lint.smoke.probe.owner import Owner

_FIRST = "torch.distributed.fsdp.fully_sharded_data_parallel"
_SECOND = "torch.distributed.fsdp._fully_shard._fully_shard"
# What all ranks of a model have to call: module, class, name, and the words for where the rank is.
_SHARED_CALLS = (
    (_FIRST, "FullyShardedDataParallel", "optim_state_dict"),
    (_FIRST, "FullyShardedDataParallel", "full_optim_state_dict"),
    (_FIRST, "FullyShardedDataParallel", "clip_grad_norm_"),
    ("torch.distributed.tensor._api", "DTensor", "full_tensor"),
    ("torch.distributed.checkpoint.state_dict", None, "get_state_dict"),
    ("torch.distributed.checkpoint.state_dict", None, "get_model_state_dict"),
    ("torch.distributed.checkpoint.state_dict", None, "get_optimizer_state_dict"),
    ("torch.distributed.checkpoint.state_dict", None, "set_state_dict"),
    ("torch.distributed.checkpoint.state_dict", None, "set_model_state_dict"),
    ("torch.distributed.checkpoint.state_dict_saver", None, "save"),
    ("torch.distributed.checkpoint.state_dict_loader", None, "load"),
)


_REDUCTIONS = ("reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base", "all_reduce")


def install(owner: Owner) -> FsdpModels:
    """Observe every model that the script shards in this process."""
    models = FsdpModels(owner)
    imports.after(_FIRST, models.watch_first)
    imports.after(_SECOND, models.watch_second)
    imports.after("torch.optim.optimizer", models.watch_optimizers)
    imports.after("torch.nn.utils.clip_grad", models.watch_clipping)
    imports.after("accelerate.accelerator", models.watch_accelerators)
    for module, kind, name in _SHARED_CALLS:
        imports.after(module, functools.partial(models.watch_call, kind, name))
    return models


class FsdpModels:
    """All of them, in the order of their first forward pass."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._wrapped: list[WrappedModule] = []
        self._observed: list[ObservedModel] = []
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._accelerators: weakref.WeakSet[Any] = weakref.WeakSet()
        self._divisors: list[float] = []
        self._local = threading.local()
        self._is_hooked = False  # what every script has, such as backward passes: only once something is sharded

    # ----------------------------------------------------------------------------------------------------- the hooks

    def watch_first(self, module: ModuleType) -> None:
        """FSDP 1."""
        kind = module.FullyShardedDataParallel
        signature = inspect.signature(kind.__init__)

        @around(kind, "__init__")
        def made(make: Any, own: Any, *args: Any, **kwargs: Any) -> None:
            self._wrap(FSDP1, signature, (own, *args), kwargs, lambda: make(own, *args, **kwargs))

        self._watch_passes(kind)
        self._watch_state(kind)

        @around(kind, "register_comm_hook")
        def hooked(register: Any, own: Any, state: Any, hook: Any) -> Any:
            for one in self._observed:
                one.changes_gradients(getattr(hook, "__name__", "a hook"))
            return register(own, state, hook)

    def watch_second(self, module: Any) -> None:
        """FSDP 2."""
        signature = inspect.signature(module.fully_shard)

        @around(module, "fully_shard")
        def made(shard: Any, *args: Any, **kwargs: Any) -> Any:
            return self._wrap(FSDP2, signature, args, kwargs, lambda: shard(*args, **kwargs))

        self._watch_passes(module.FSDPModule)
        for name in ("set_gradient_divide_factor", "set_reduce_scatter_divide_factor"):
            if hasattr(module.FSDPModule, name):
                around(module.FSDPModule, name)(self._set_divisor)

    def _set_divisor(self, setter: Any, own: Any, factor: float, *args: Any, **kwargs: Any) -> Any:
        self._divisors.append(float(factor))
        return setter(own, factor, *args, **kwargs)

    def _watch_passes(self, kind: Any) -> None:
        """The outermost call of a sharded module is that of its model, or within one that is not sharded itself."""
        local = self._local

        def called(own: Any, *args: Any, **kwargs: Any) -> Any:
            call = super(kind, own).__call__  # type: ignore[misc] # that of a module
            if getattr(local, "depth", 0):
                return call(*args, **kwargs)
            local.depth = 1
            try:
                self._found(own)
                return call(*args, **kwargs)
            finally:
                local.depth = 0

        kind.__call__ = called

    def _watch_state(self, kind: Any) -> None:
        """The state dict of FSDP 1, which gathers what is sharded."""
        local, presence = self._local, self._owner.presence

        def called(own: Any, *args: Any, **kwargs: Any) -> Any:
            collect = super(kind, own).state_dict  # type: ignore[misc] # that of a module
            if getattr(local, "collects", False):
                return collect(*args, **kwargs)
            local.collects = True
            try:
                with presence.within("state_dict"):
                    return collect(*args, **kwargs)
            finally:
                local.collects = False

        kind.state_dict = called

    def watch_optimizers(self, module: Any) -> None:
        """Every optimizer that torch knows as one."""
        around(module.Optimizer, "__init__")(self._make_optimizer)
        around(module.Optimizer, "zero_grad")(self._zero)
        if hasattr(module, "register_optimizer_step_pre_hook"):
            module.register_optimizer_step_pre_hook(self._before_step)
            module.register_optimizer_step_post_hook(self._after_step)

    def watch_accelerators(self, module: Any) -> None:
        """The Accelerator that prepares a model."""

        @around(module.Accelerator, "prepare")
        def prepared(prepare: Any, accelerator: Any, *args: Any, **kwargs: Any) -> Any:
            self._accelerators.add(accelerator)
            return prepare(accelerator, *args, **kwargs)

    def watch_clipping(self, module: Any) -> None:
        """What clips the gradients of a step."""
        around(module, "clip_grad_norm_")(self._clip)

    def watch_call(self, kind: str | None, name: str, module: Any) -> None:
        """A call that waits for the other ranks: the process tells where it is."""
        found = module if kind is None else getattr(module, kind)
        if not hasattr(found, name):
            return
        is_clip = name == "clip_grad_norm_"
        inner = vars(found)[name]
        is_static = isinstance(inner, staticmethod)
        function = inner.__func__ if is_static else inner

        def called(*args: Any, **kwargs: Any) -> Any:
            with self._owner.presence.within(name):
                return self._clip(function, *args, **kwargs) if is_clip else function(*args, **kwargs)

        called.__name__, called.__wrapped__ = name, function  # type: ignore[attr-defined]
        setattr(found, name, staticmethod(called) if is_static else called)

    # ----------------------------------------------------------------------------------------------- what is observed

    def _wrap(self, version: str, signature: Any, args: Any, kwargs: Any, make: Callable[[], Any]) -> Any:
        from ds_lint.smoke.probe import fsdp_calls

        presence = self._owner.presence
        self._hook_backward()
        self._wrapped += fsdp_calls.wrapped(signature, version, args, kwargs)
        before = presence.phase
        if before not in (IMPORT, BEFORE, BEFORE_FSDP):
            return make()
        presence.enter(SHARD)  # where the process is if this raises
        made = make()
        presence.enter(before)
        return made

    def _hook_backward(self) -> None:
        if self._is_hooked:
            return
        self._is_hooked = True
        import torch

        backward = torch.autograd.backward
        local = self._local

        def watched(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if isinstance(tensors, Iterator):
                tensors = tuple(tensors)
            if getattr(local, "backwards", 0):  # of a layer that is recomputed
                backward(tensors, *args, **kwargs)
                return
            local.backwards = 1
            found = [one for one in self._observed if one.is_under_way]
            loss = tensors if torch.is_tensor(tensors) else tensors[0]
            try:
                for one in found:
                    one.before_backward(loss)
                backward(tensors, *args, **kwargs)
            finally:
                local.backwards = 0
            for one in found:
                one.after_backward()

        torch.autograd.backward = watched
        for name in _REDUCTIONS:
            if hasattr(torch.distributed, name):
                around(torch.distributed, name)(self._reduce)

    def _reduce(self, reduce: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self._local, "backwards", 0):
            dtypes = {one.dtype for one in (*args, *kwargs.values()) if hasattr(one, "is_floating_point")}
            for one in self._observed:
                for dtype in dtypes:
                    if one.is_under_way and dtype.is_floating_point:
                        one.saw_reduced(dtype)
        return reduce(*args, **kwargs)

    def _found(self, module: Any) -> None:
        """A sharded module is called by no other one; a model that is seen for the first time is observed from now."""
        if any(one.has(module) for one in self._observed):
            return
        from ds_lint.smoke.probe.fsdp_model import ObservedModel

        model = _outermost(module)
        owner = self._owner
        inside = {id(one): name for name, one in model.named_modules(remove_duplicate=False)}
        calls = [one for one in self._wrapped if (made := one.module()) is not None and id(made) in inside]
        one = ObservedModel(model, calls, owner, self.optimizers, self._accelerator_of(model))
        one.number = owner.add(one)
        self._observed.append(one)
        one.begin(self._divisors)

    def _accelerator_of(self, model: Any) -> Any:
        trainer = self._owner.maker.trainer
        if trainer is not None:
            return trainer.accelerator
        mine = (one for one in self._accelerators if any(model is own for own in one._models))  # noqa: SLF001
        return next(mine, None)

    def optimizers(self) -> list[Any]:
        """Those that the script has made."""
        return list(self._optimizers)

    def _make_optimizer(self, make: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        make(optimizer, *args, **kwargs)
        self._optimizers.add(optimizer)

    def _zero(self, zero: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        answer = zero(optimizer, *args, **kwargs)
        for one in self._observed:
            if one.is_of(optimizer):
                one.zeroed()
        return answer

    def _before_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        for one in self._observed:
            if one.is_of(optimizer):
                one.before_step(optimizer)

    def _after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        for one in self._observed:
            if one.is_of(optimizer):
                one.after_step(optimizer)

    def _clip(self, clip: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        norm = clip(given, *args, **kwargs)
        most = kwargs.get("max_norm", args[0] if args else None)
        kind = kwargs.get("norm_type", args[1] if len(args) > 1 else 2.0)
        for one in self._observed:
            one.clipped(most, norm, kind)
        return norm


def _outermost(module: Any) -> Any:
    """The module whose call has led to that of a sharded one: what the script calls."""
    import torch

    found = module
    frame: Any = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        own = frame.f_locals.get("self") if frame.f_code.co_name == "_call_impl" else None
        if isinstance(own, torch.nn.Module) and any(one is module for one in own.modules()):
            found = own
        frame = frame.f_back
    return found
