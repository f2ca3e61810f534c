"""Samples of one optimizer step of the user's script: a few elements of every parameter, before and after it.

The rank only takes notes; ``ds_lint/smoke/script/recomputed.py`` does the arithmetic in another process. Noted are the
gradients that autograd computes on this rank, before anything reduces them, what the optimizer is given and what it
makes of it, its states, and the weights that the rank computes with afterwards.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch

from ds_lint.smoke.rank import probes, recording

_SAMPLES = 256  # elements of a parameter
_BETAS = 2
_EXCHANGED = "comm_dtype"  # of a parameter
_STATES = ("exp_avg", "exp_avg_sq", "momentum_buffer", "sum")


class SampledUpdate(NamedTuple):
    """Elements of one parameter in the optimizer step of one rank."""

    name: str
    samples: torch.Tensor  # which of the samples of the parameter follow
    places: torch.Tensor  # where they are in it
    before: torch.Tensor
    gradient: torch.Tensor | None
    after: torch.Tensor
    live: torch.Tensor | None  # as this rank computes with them afterwards; None if they are elsewhere
    states: dict[str, torch.Tensor]  # before the step
    steps: int  # that the optimizer had made before
    group: dict[str, Any]  # the hyperparameters of the step


class SampledStep(NamedTuple):
    """The notes of one rank."""

    local: dict[str, torch.Tensor]  # sums of the gradients of this rank's micro steps, times the loss scale
    absolute: dict[str, torch.Tensor]  # the same of their absolute values
    scale: float
    norm: float | None  # of all gradients before clipping
    dtypes: list[str]  # in which gradients are computed and added up
    windows: int  # micro steps
    ranks: int
    optimizer: str
    is_decoupled: bool  # weight decay, of DeepSpeed's Adam
    updates: list[SampledUpdate]
    shared: dict[str, torch.Tensor]  # elements of the weights that every rank has whole


class StepSamples:
    """Takes the notes of the first whole step from a given one on that is not skipped."""

    def __init__(self, path: str, first: int, ranks: int) -> None:
        self._path = path
        self._first = first
        self._ranks = ranks
        self._steps = 0
        self._scale = 1.0
        self._norm: float | None = None  # if the engine reports none
        self._windows = 0
        self._handles: list[Any] = []
        self._local: dict[str, torch.Tensor] = {}
        self._absolute: dict[str, torch.Tensor] = {}
        self._updates: list[SampledUpdate] = []
        self._gradient_dtypes: set[str] = set()
        self._optimizer = ""
        self._is_decoupled = True
        self.is_taken = False

    @property
    def _is_armed(self) -> bool:
        return not self.is_taken and self._steps + 1 >= self._first

    def before_forward(self) -> None:
        """The engine is known at the forward pass itself."""

    def saw_forward(self, engine: Any, _inputs: dict[str, Any], _outputs: Any) -> None:
        """The gradients of the backward pass that follows are sampled."""
        if self._is_armed and not self._handles:
            self._handles = [
                parameter.register_hook(self._adding(name, getattr(parameter, "ds_numel", parameter.numel())))
                for name, parameter in engine.module.named_parameters()
                if parameter.requires_grad
            ]

    def _adding(self, name: str, elements: int) -> Any:
        places = samples_of(elements)

        def add(gradient: torch.Tensor) -> None:
            some = gradient.detach().reshape(-1)[places.to(gradient.device)].double()
            self._gradient_dtypes.add(str(gradient.dtype).removeprefix("torch."))
            self._local[name] = self._local.get(name, torch.zeros_like(some)) + some
            self._absolute[name] = self._absolute.get(name, torch.zeros_like(some)) + some.abs()

        return add

    def saw_backward(self, engine: Any) -> None:
        """A backward pass is about to be made with this loss scale."""
        self._scale = probes.loss_scale(engine) or 1.0
        self._windows += 1

    def before_step(self, engine: Any) -> None:
        """All gradients of the step are there."""
        self._norm = probes.unreported_norm(engine) if self._is_armed else None

    def before_update(self, engine: Any, optimizer: Any) -> list[tuple[Any, recording.Place, SampledUpdate]]:
        """What the optimizer is about to step with."""
        if not self._is_armed:
            return []
        self._optimizer = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
        self._is_decoupled = bool(getattr(optimizer, "adam_w_mode", True))
        masters = {id(master): number for number, master in enumerate(probes.tensors_of_masters(engine))}
        places = dict(enumerate(recording.places(engine)))
        own = {id(one): (name, one) for name, one in engine.module.named_parameters()}
        sizes = {name: getattr(one, "ds_numel", one.numel()) for name, one in own.values()}
        begun: list[tuple[Any, recording.Place, SampledUpdate]] = []
        for group in optimizer.param_groups:
            options = {name: value for name, value in group.items() if name != "params" and _is_plain(value)}
            for tensor in group["params"]:
                if tensor.grad is None or probes.backed(tensor) < tensor.numel():
                    continue
                if id(tensor) in masters:
                    parts = places.get(masters[id(tensor)], [])
                elif id(tensor) in own:
                    parts = [recording.Place(own[id(tensor)][0], 0, 0, tensor.numel())]
                else:
                    continue
                state = optimizer.state.get(tensor, {})
                begun += [(tensor, part, _sampled(tensor, part, sizes[part.name], state, options)) for part in parts]
        return begun

    def after_update(self, begun: list[tuple[Any, recording.Place, SampledUpdate]]) -> None:
        """What the optimizer made of it."""
        for tensor, part, one in begun:
            flat = tensor.detach().reshape(-1)
            after = _copy(flat[(one.places - part.start + part.begin).to(flat.device)])
            if one.places.numel():
                self._updates.append(one._replace(after=after))

    def saw_step(self, engine: Any, *, norm: float | None, is_skipped: bool) -> None:
        """The step is over; what was noted of one that is skipped does not count."""
        if self._is_armed and not is_skipped and self._updates:
            self._save(engine, self._norm if norm is None else norm)
            self.is_taken = True
        self._steps += 1
        self._windows = 0
        self._local, self._absolute, self._updates = {}, {}, []
        if self.is_taken:
            for handle in self._handles:
                handle.remove()
            self._handles = []

    def save(self) -> None:
        """Nothing is left to write."""

    def _save(self, engine: Any, norm: float | None) -> None:
        parameters = dict(engine.module.named_parameters())
        updates = [one._replace(live=_live(parameters[one.name], one.places)) for one in self._updates]
        shared = {
            name: _copy(parameter.detach().reshape(-1)[samples_of(parameter.numel()).to(parameter.device)])
            for name, parameter in parameters.items()
            if not hasattr(parameter, "ds_tensor")
        }
        # Under torch_autocast, ranks exchange gradients of linear layers in its dtype (runtime/torch_autocast.py).
        exchanged = {engine.communication_data_type, *(getattr(one, _EXCHANGED, None) for one in parameters.values())}
        dtypes = {*self._gradient_dtypes, *(str(one).removeprefix("torch.") for one in exchanged - {None})}
        step = SampledStep(
            {name: one.cpu() for name, one in self._local.items()},
            {name: one.cpu() for name, one in self._absolute.items()},
            self._scale,
            norm,
            sorted(dtypes),
            self._windows,
            self._ranks,
            self._optimizer,
            self._is_decoupled,
            updates,
            shared,
        )
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        torch.save(tuple(step), self._path)


def load(path: str) -> SampledStep:
    """The notes of a rank."""
    return SampledStep(*torch.load(path, weights_only=False, map_location="cpu"))


def samples_of(elements: int) -> torch.Tensor:
    """The places of the elements that are sampled, the same on every rank."""
    count = min(elements, _SAMPLES)
    return torch.arange(count, dtype=torch.long) * elements // max(count, 1)


def _sampled(
    tensor: Any, part: recording.Place, elements: int, state: dict[str, Any], options: dict[str, Any]
) -> SampledUpdate:
    """The samples of the part of a parameter that lies in a tensor of the optimizer."""
    places = samples_of(elements)
    samples = ((places >= part.start) & (places < part.start + part.length)).nonzero().flatten()
    places = places[samples]
    at = (places - part.start + part.begin).to(tensor.device)

    def taken(one: torch.Tensor) -> torch.Tensor:
        return _copy(one.detach().reshape(-1)[at.to(one.device)])

    states = {
        name: taken(value)
        for name, value in state.items()
        if name in _STATES and torch.is_tensor(value) and value.numel() == tensor.numel()
    }
    steps = state.get("step", options.get("step", 0))
    before = taken(tensor)
    return SampledUpdate(
        part.name, samples, places, before, taken(tensor.grad), before, None, states, int(steps), options
    )


def _live(parameter: Any, places: torch.Tensor) -> torch.Tensor | None:
    """Elements of a parameter as this rank computes with them; None if it does not have all of them in memory."""
    start, weights = probes.own_part(parameter)
    within = (places >= start) & (places < start + weights.numel())
    return _copy(weights[(places - start).to(weights.device)]) if bool(within.all()) else None


def _is_plain(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, (tuple, list)) and len(value) == _BETAS)


def _copy(tensor: Any) -> torch.Tensor:
    copied: torch.Tensor = tensor.detach().to("cpu", copy=True)
    return copied
