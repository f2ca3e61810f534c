"""What the modules of a model do in one forward pass and the backward pass after it."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.utils.hooks import RemovableHandle

# What runs a layer again in the backward pass, by the module whose code is on the stack then.
_RECOMPUTERS = {
    "torch.utils.checkpoint": "torch",
    "deepspeed.runtime.activation_checkpointing.checkpointing": "deepspeed",
}


class Layers:
    """Watches a model from ``begin`` to ``end``: the dtypes of its linear layers, and which layers run again.

    A layer is a member of an outermost ``ModuleList``. Checkpointing may call its ``forward`` and not the layer itself,
    so all modules inside it are watched.
    """

    def __init__(self) -> None:
        self.dtypes: set[str] = set()  # of what linear layers return
        self.names: dict[str, None] = {}  # of the layers that run in the forward pass, in their order
        self.recomputed: dict[str, str] = {}  # those that run again in the backward pass, and who runs them
        self._is_backward = False
        self._handles: list[RemovableHandle] = []

    def begin(self, model: Any) -> None:
        """A forward pass is about to be made."""
        linear = (module for module in model.modules() if isinstance(module, torch.nn.Linear))
        self._handles = [module.register_forward_hook(self._note_dtype) for module in linear]
        for name, layer in _layers(model):
            note = self._noting(name)
            self._handles += [module.register_forward_pre_hook(note) for module in layer.modules()]

    def turn(self) -> None:
        """It is made, and the backward pass comes next."""
        self._is_backward = True

    def end(self) -> None:
        """The backward pass is made too."""
        for handle in self._handles:
            handle.remove()

    def _noting(self, name: str) -> Callable[[Any, Any], None]:
        def note(_module: Any, _inputs: Any) -> None:
            if not self._is_backward:
                self.names[name] = None
            elif name not in self.recomputed:
                self.recomputed[name] = _recomputer()

        return note

    def _note_dtype(self, _module: Any, _inputs: Any, output: Any) -> None:
        if torch.is_tensor(output):
            self.dtypes.add(str(output.dtype).removeprefix("torch."))


def _layers(model: Any) -> Iterator[tuple[str, Any]]:
    lists: list[str] = []
    for name, module in model.named_modules():
        is_inside = any(name.startswith(f"{outer}.") for outer in lists)
        if isinstance(module, torch.nn.ModuleList) and not is_inside:
            lists.append(name)
            yield from ((f"{name}.{number}", member) for number, member in enumerate(module))


def _recomputer() -> str:
    """Whose code runs a module in the backward pass."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_stack(None))
    return next((_RECOMPUTERS[name] for name in modules if name in _RECOMPUTERS), "")
