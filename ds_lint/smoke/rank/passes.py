"""The forward and backward passes of a step again, each micro batch of each rank, by the model of this process."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ds_lint.smoke.expected import roundoff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from ds_lint.smoke.observe.recording import MicroStep
    from ds_lint.smoke.rank.definition import Definition
    from ds_lint.smoke.records.job import ReferencePlan

_OF_ALL = "num_items_in_batch"  # with which transformers divides the loss by the tokens of the whole batch
_NO_LABEL = -100  # what the losses of transformers leave out
_NEAR = 64.0  # times, up to which the factor of a loss rounds as the right one does
_LARGEST = 65504.0  # of float16


class WindowOfRank(Protocol):
    """The micro steps of one optimizer step on one rank, and the factor of its loss."""

    @property
    def micro_steps(self) -> list[MicroStep]:
        """In their order."""

    @property
    def scale(self) -> float:
        """Of the loss; 1 without fp16."""


class Passes:
    """Repeats the passes of steps, and knows how far their gradients may be off."""

    def __init__(self, definition: Definition, plan: ReferencePlan, autocast: torch.dtype | None = None) -> None:
        self._definition = definition
        self._plan = plan
        self._autocast = autocast
        self._tokens = 1
        self.squares = torch.zeros(definition.elements, dtype=torch.float64)  # of what each token adds to a bias
        if not plan.repeats_passes:
            self._watch_biases()

    def terms(self, weights: Tensor, steps: Sequence[WindowOfRank], *, is_made: bool = True) -> Tensor:
        """What each micro step of each rank contributes to the gradient: ranks x micro steps x elements.

        A micro step whose gradient the run has lost contributes all the same.
        """
        self._definition.put(weights)
        counts = [_labels(step) for step in steps]
        self.squares.zero_()
        self._tokens = max(
            (one.numel() for one in steps[0].micro_steps[0].inputs.values() if torch.is_tensor(one)), default=1
        )
        terms = [
            torch.stack([self._term(one, step, counts, rank, is_made=is_made) for one in step.micro_steps])
            for rank, step in enumerate(steps)
        ]
        self.squares /= len(steps) ** 2
        return torch.stack(terms) / len(steps)

    def _term(
        self, micro_step: MicroStep, step: WindowOfRank, counts: list[tuple[int, int]], rank: int, *, is_made: bool
    ) -> Tensor:
        """The gradient of a micro step, as a part of the average over the window.

        It is taken with the factor that the run multiplied the loss by, since each factor rounds differently, and
        then scaled to the factor that it should have been.
        """
        windows = len(step.micro_steps)
        wanted = step.scale / windows
        factor = micro_step.factor or wanted
        if is_made and not wanted / _NEAR <= factor <= wanted * _NEAR:
            factor = wanted
        model = self._definition.model
        model.zero_grad(set_to_none=True)
        torch.set_rng_state(micro_step.random)  # models of experts choose by chance between equal ones
        before = self.squares.clone()
        with torch.autocast("cpu", self._autocast, enabled=self._autocast is not None):
            loss = model(**micro_step.inputs).loss
        loss.backward(torch.full_like(loss, factor))
        right = _share(micro_step.inputs, windows, counts, rank) / factor
        self.squares = before + right**2 * (self.squares - before)
        return right * torch.cat(
            [
                torch.zeros(one.numel(), dtype=torch.float64) if one.grad is None else one.grad.reshape(-1).double()
                for one in self._definition.parameters.values()
            ]
        )

    def may_overflow(self, weights: Tensor, steps: Sequence[WindowOfRank]) -> bool:
        """Whether the gradients of a step are beyond the numbers of their dtype, or may be in a sum of them."""
        terms = self.terms(weights, steps, is_made=False)
        if not terms.isfinite().all():
            return True
        is_scaled = self._plan.dtype == "float16"
        most = float(terms.abs().sum((0, 1)).max()) * len(steps) * steps[0].scale
        return is_scaled and most > _LARGEST / 2

    def _watch_biases(self) -> None:
        """Add up the squares of the gradients of each token, of which the gradient of a bias is the sum.

        They may cancel: softmax does not change if all keys move, so the gradient of the bias of keys is roundoff.
        """
        named = self._definition.parameters.items()
        starts = {id(parameter): self._definition.starts[name] for name, parameter in named}
        for module in self._definition.model.modules():
            bias = getattr(module, "bias", None)
            if isinstance(bias, torch.Tensor) and id(bias) in starts and bias.dim() == 1:
                module.register_forward_hook(functools.partial(self._watch_output, starts[id(bias)], bias.numel()))

    def _watch_output(self, start: int, elements: int, _module: Any, _inputs: Any, output: Any) -> None:
        squares = self.squares[start : start + elements]

        def add(gradient: Tensor) -> None:
            squares.add_(gradient.double().reshape(-1, elements).square().sum(0))

        if torch.is_tensor(output) and output.requires_grad and output.shape[-1:] == (elements,):
            output.register_hook(add)

    def roundoff(self, absolute: Tensor) -> Tensor:
        """What the order of additions within a forward and backward pass may change in each element."""
        parameters, starts = self._definition.parameters, self._definition.starts
        shapes = [one.shape for one in parameters.values() if one.dim() > 1]
        products, longest = 3 * len(shapes), max(self._tokens, *(max(shape) for shape in shapes))
        terms = torch.maximum(absolute, self.squares.sqrt())
        most = torch.cat(
            [
                terms[starts[name] : starts[name] + one.numel()].max().expand(one.numel())
                for name, one in parameters.items()
            ]
        )
        # The dtype of the pass is that of the weights, whatever gradients are added up in.
        of_pass = max(torch.finfo(one.dtype).eps / 2 for one in parameters.values())
        return most * roundoff.of_passes(of_pass, products, longest, rounds_factors=self._plan.rounds_factors)


def _labels(step: WindowOfRank) -> tuple[int, int]:
    """The tokens that a rank learns to predict in a step: all labels, and those after the first of each sequence."""
    labels = [one.inputs["labels"] for one in step.micro_steps if torch.is_tensor(one.inputs.get("labels"))]
    return sum(int((one != _NO_LABEL).sum()) for one in labels), sum(
        int((one[..., 1:] != _NO_LABEL).sum()) for one in labels
    )


def _share(inputs: dict[str, Any], windows: int, counts: list[tuple[int, int]], rank: int) -> float:
    """What the loss of a micro step counts in the sum over the window of a rank.

    The Trainer lets a model divide the sum over its tokens by the tokens of the whole batch, or of the rank, and counts
    all labels or only those that are predicted. Every token counts the same then.
    """
    items = inputs.get(_OF_ALL)
    for of_ranks in zip(*counts, strict=True):
        if items is not None and float(items) in (sum(of_ranks), of_ranks[rank]):
            return float(len(counts) * items / sum(of_ranks))
    return 1 / windows
