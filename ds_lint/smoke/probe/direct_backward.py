"""Backward passes that the script makes without the engine: ``loss.backward()`` and not ``engine.backward(loss)``.

DeepSpeed hooks the outputs of the engine's forward pass, and reduces gradients as in its own backward pass
(``_backward_prologue`` and ``_backward_post_hook`` in deepspeed/runtime/engine.py, from 0.18.3 on).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ds_lint.record import Record, field

if TYPE_CHECKING:
    from collections.abc import Callable

_IN_ENGINE = "_running_engine_backward"  # of an engine: whether its own ``backward`` runs


class DirectObserver(Protocol):
    """Is called before and after such a backward pass."""

    def begins_backward(self, engine: Any, loss: Any) -> None:
        """It comes to the engine; no gradient of a parameter is computed yet."""

    def ends_backward(self, engine: Any) -> None:
        """It is over, also for other engines that it has come to."""


class _Pass(Record):
    """A backward pass, and the engines to which it has come."""

    root: Any
    reached: list[tuple[DirectObserver, Any]] = field(factory=list)


def watch(engine_class: Any, find: Callable[[Any], DirectObserver | None]) -> None:
    """Tell the observer of each engine from now on."""
    backward, prologue = torch.autograd.backward, getattr(engine_class, "_backward_prologue", None)
    if prologue is None:
        return
    passes: list[_Pass] = []  # checkpointed layers make one within another; GPUs run hooks in other threads

    def watched_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(tensors, Iterator):
            tensors = tuple(tensors)  # it gives them once
        one = _Pass(tensors if torch.is_tensor(tensors) else tensors[0])
        passes.append(one)
        try:
            backward(tensors, *args, **kwargs)
        finally:
            passes.remove(one)
        for observer, engine in one.reached:
            observer.ends_backward(engine)

    def watched_prologue(engine: Any, *args: Any, **kwargs: Any) -> Any:
        # An engine that does not say whether its own backward runs makes no others: it is of an older release.
        if passes and not getattr(engine, _IN_ENGINE, True) and (observer := find(engine)) is not None:
            one = passes[-1]
            if all(engine is not other for _, other in one.reached):  # the outputs of several forward passes
                one.reached.append((observer, engine))
                observer.begins_backward(engine, one.root)
        return prologue(engine, *args, **kwargs)

    torch.autograd.backward = watched_backward
    engine_class._backward_prologue = watched_prologue  # noqa: SLF001 - the one place that every such pass comes to
