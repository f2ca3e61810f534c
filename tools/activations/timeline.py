"""Every byte that a training step holds beside the model states, operation by operation, as torch dispatches it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

try:
    from transformers.modeling_layers import GradientCheckpointingLayer as Layer
except ImportError:  # in releases up to 4.51, whose layers have no class in common
    Layer = None

if TYPE_CHECKING:
    from collections.abc import Callable


class Storage(NamedTuple):
    """The memory of a tensor: its bytes, and the first moment at which it is there and the first at which it is not."""

    size: int
    since: int
    until: int


class Timeline(NamedTuple):
    """The storages of one step; parameters, buffers, inputs and gradients of parameters are left out.

    A moment is the end of an operation, or the begin of a layer. ``entries`` are the moments at which each layer of
    each stack begins, in the order of the forward pass, and ``left`` is the one at which the backward pass has left the
    last layer. There are ``moments`` in all.
    """

    storages: list[Storage]
    entries: list[list[int]]
    left: int
    moments: int

    @property
    def peak(self) -> int:
        """The most bytes that are live at once until the last layer is left.

        What comes later is less, but for gradients of an embedding that is the head too.
        """
        change = [0] * (self.moments + 1)
        for size, since, until in self.storages:
            change[since] += size
            change[until] -= size
        live = most = 0
        for step in change[: self.left + 1]:
            live += step
            most = max(most, live)
        return most


class Recorder(TorchDispatchMode):
    """Notes storages as they come and go; those that were there before do not count."""

    def __init__(self, known: list[torch.Tensor]) -> None:
        super().__init__()
        self.moments = 0
        self.forward = 0  # the moments of the forward pass
        self.freed: list[tuple[int, Storage]] = []  # by the order in which they came
        self._came = 0
        self._held: dict[int, tuple[weakref.ref[Any], int, int, int]] = {}  # size, first moment, place in the order
        self._known = [tensor.untyped_storage() for tensor in known]
        self._known_ids = {storage._cdata for storage in self._known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._see(leaf.untyped_storage())
        self.moments += 1
        return result

    def moment(self) -> int:
        """Note a moment beside those of the operations."""
        self.moments += 1
        return self.moments - 1

    def leave_out(self, tensor: torch.Tensor) -> None:
        """Forget the storage of a gradient of a parameter, as if it had never been there.

        What was computed before the backward pass is an activation until then.
        """
        key = tensor.untyped_storage()._cdata
        if key in self._held and self._held[key][2] < self.forward:
            self._forget(key)
        self._held.pop(key, None)

    def storages(self) -> list[Storage]:
        """All storages in the order in which they came."""
        held = [(place, Storage(size, since, self.moments)) for _, size, since, place in self._held.values()]
        return [storage for _, storage in sorted(self.freed + held)]

    def _see(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._known_ids or key in self._held:
            return
        self._held[key] = (
            weakref.ref(storage, lambda _: self._forget(key)),
            storage.nbytes(),
            self.moments,
            self._came,
        )
        self._came += 1

    def _forget(self, key: int) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            _, size, since, place = held
            self.freed.append((place, Storage(size, since, self.moments)))


def stacks(model: torch.nn.Module) -> list[list[torch.nn.Module]]:
    """The stacks of layers of a model: one, or those of the encoder and the decoder."""
    return [list(module) for module in model.modules() if isinstance(module, torch.nn.ModuleList) and _is_stack(module)]


def _is_stack(modules: torch.nn.ModuleList) -> bool:
    """Whether a list has the layers of a model: in older releases, modules that are called so."""
    if not len(modules):
        return False
    return isinstance(modules[0], Layer) if Layer else type(modules[0]).__name__.endswith(("Layer", "Block"))


def record(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> Timeline:
    """What one forward and backward pass holds; gradients of parameters are taken away as soon as they are there."""
    layers = stacks(model)
    recorder = Recorder([*model.parameters(), *model.buffers(), *inputs.values()])
    entries: list[list[int]] = [[] for _ in layers]
    left: list[int] = []
    hooks = [
        layer.register_forward_pre_hook(on_entry(recorder, found, len(stack), left if stack is layers[-1] else None))
        for stack, found in zip(layers, entries, strict=True)
        for layer in stack
    ]

    def take_away(parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            recorder.leave_out(parameter.grad)
            parameter.grad = None

    hooks += [
        parameter.register_post_accumulate_grad_hook(take_away)
        for parameter in model.parameters()
        if parameter.requires_grad
    ]
    with recorder:
        loss = model(**inputs).loss
        recorder.forward = recorder.moments
        loss.backward()
    for hook in hooks:
        hook.remove()
    return Timeline(recorder.storages(), entries, left[0] if left else recorder.moments - 1, recorder.moments)


def on_entry(
    recorder: Recorder, entries: list[int], layers: int, left: list[int] | None
) -> Callable[[torch.nn.Module, tuple[Any, ...]], None]:
    """A hook that notes when a layer is entered, and in ``left`` when the backward pass has left the last of them."""

    def begin(_: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        if len(entries) >= layers:  # computed again in the backward pass
            return
        entries.append(recorder.moment())
        hidden = arguments[0] if arguments else None
        if left is not None and len(entries) == layers and isinstance(hidden, torch.Tensor) and hidden.requires_grad:
            hidden.register_hook(lambda _: left.append(recorder.moment()))

    return begin
