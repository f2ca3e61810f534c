"""How often the loss of a micro step is divided by the micro steps of a step: by the script, and by what it calls.

An average over micro steps needs one division. DeepSpeed makes it in ``engine.backward`` unless ``scale_wrt_gas`` is
false, and the Trainer in ``training_step``. What the script does is in the graph of autograd between the loss and what
the model returned: each division has a node with its divisor.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe.tensors import tensors_in

if TYPE_CHECKING:
    from ds_lint.smoke.records.engine_trace import EngineTrace

_DIVISION, _SUM = "DivBackward", ("AddBackward", "SubBackward")
# Operations of a number that leave what was divided by as it is.
_OF_A_NUMBER = (
    "MulBackward", "ToCopyBackward", "CloneBackward", "ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward",
    "SqueezeBackward", "UnsqueezeBackward", "AliasBackward", "ExpandBackward",
)  # fmt: skip
_PASSES = 2  # forward passes of a micro step that are looked at, as of a chosen and a rejected answer
_LONGEST = 32  # operations between the model and the loss


class LossDivisions:
    """Counts them for each micro step of an engine on one rank."""

    def __init__(self, trace: EngineTrace) -> None:
        self._trace = trace
        # The nodes of the graph at which the last forward passes end; a graph lives as long as they do.
        self._returned: collections.deque[list[Any]] = collections.deque(maxlen=_PASSES)

    def saw_outputs(self, outputs: Any) -> None:
        """The model has returned something, which may be the loss."""
        self._returned.append([one.grad_fn for one in tensors_in(outputs) if one.grad_fn is not None])

    def forget(self) -> None:
        """The graphs of these passes are no longer needed."""
        self._returned.clear()

    def note(self, loss: Any, windows: int, *, by_engine: bool, by_trainer: bool | None) -> None:
        """A backward pass begins; ``by_trainer`` says whether the Trainer has divided, None without a Trainer."""
        returned = [node for nodes in self._returned for node in nodes]
        self.forget()
        if windows == 1 or not torch.is_tensor(loss) or loss.numel() != 1 or loss.grad_fn is None:
            return
        found = _divisions(loss.grad_fn, windows, returned)
        # A script that asks DeepSpeed not to divide does so itself, in its own way.
        own = 1 if by_trainer or (by_trainer is None and not by_engine) else 0
        self._trace.divided_again.append(max(0, found - own))


def _divisions(node: Any, by: int, returned: list[Any]) -> int:
    """The divisions by a number on the way from the loss to what the model returned."""
    found = 0
    for _ in range(_LONGEST):
        if node is None or any(node is one for one in returned):
            break
        name = node.name()
        below = next((one for one, _ in node.next_functions if one is not None), None)
        if name.startswith(_DIVISION) and _is_number(getattr(node, "_saved_other", None), by):
            if _terms(below, returned) == by:
                break  # the average of as many losses, not of micro steps
            found += 1
        elif not name.startswith((_DIVISION, *_OF_A_NUMBER)) or _operands(node) > 1:
            break
        node = below
    return found


def _operands(node: Any) -> int:
    return sum(one is not None for one, _ in node.next_functions)


def _is_number(divisor: Any, by: int) -> bool:
    """Whether a divisor is this number as a script writes it, and not a tensor that has the value by chance."""
    is_written = torch.is_tensor(divisor) and divisor.dim() == 0 and divisor.device.type == "cpu"
    return is_written and divisor.dtype in (torch.int64, torch.float64) and float(divisor) == by


def _terms(node: Any, returned: list[Any]) -> int:
    """The terms of a sum."""
    if node is None or any(node is one for one in returned) or not node.name().startswith(_SUM):
        return 1
    return sum(_terms(one, returned) for one, _ in node.next_functions if one is not None)
