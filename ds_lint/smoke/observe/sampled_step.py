"""Samples of one optimizer step of the user's script: a few elements of every parameter, before and after it.

The rank only takes notes; ``ds_lint/smoke/script/recomputed.py`` does the arithmetic in another process. Noted are the
gradients that autograd computes on this rank, before anything reduces them, what the optimizer is given and what it
makes of it, its states, and the weights that the rank computes with afterwards.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch

from ds_lint.smoke.observe import probes, recording

_SAMPLES = 256  # elements of a parameter
_FEW = 8
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
    scale_after: float  # the step: a dynamic scale may rise in it
    norm: float | None  # of all gradients before clipping
    dtypes: list[str]  # in which gradients are computed and added up
    windows: int  # micro steps
    ranks: int
    optimizer: str
    is_decoupled: bool  # weight decay, of DeepSpeed's Adam
    updates: list[SampledUpdate]
    shared: dict[str, torch.Tensor]  # elements of the weights that every rank has whole
    lacking: list[str]  # parameters that the optimizer should step with, and has no gradient of on this rank
    decays: dict[str, tuple[float | None, float]]  # of parameters: requested by the script, and that of its group


class StepSamples:
    """Takes the notes of the first whole step from a given one on that is not skipped and moves the weights.

    ``trained`` are the parameters that the script gives the optimizer, each with the weight decay of its group if that
    has one; ``decays`` are those of the groups of the optimizer, by their id, as DeepSpeed has made them.
    """

    def __init__(
        self,
        path: str,
        first: int,
        ranks: int,
        trained: dict[str, float | None] | None = None,
        decays: dict[int, float] | None = None,
    ) -> None:
        self._path = path
        self._first = first
        self._ranks = ranks
        self._trained = trained or {}
        self._made_decays = decays or {}
        self._given: set[str] = set()  # parameters of which the optimizer has a gradient on this rank
        self._is_known = True  # where every tensor of the optimizer belongs
        self._stepped: set[int] = set()  # ids of the tensors that it steps on
        self._decays: dict[str, tuple[float | None, float]] = {}
        self._moves = False  # a step with a learning rate of 0, as in a warm-up, shows little
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
                if parameter.requires_grad and not _is_expert_of_some_ranks(parameter)
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
        sizes = {name: _elements(one) for name, one in own.values()}
        begun: list[tuple[Any, recording.Place, SampledUpdate]] = []
        for group in optimizer.param_groups:
            self._moves |= bool(group.get("lr", True))
            options = {name: value for name, value in group.items() if name != "params" and _is_plain(value)}
            for tensor in group["params"]:
                self._stepped.add(id(tensor))
                if id(tensor) in masters:
                    parts = places.get(masters[id(tensor)], [])
                elif id(tensor) in own:
                    parts = [recording.Place(own[id(tensor)][0], 0, 0, tensor.numel())]
                else:
                    self._is_known = False
                    continue
                is_elsewhere = probes.backed(tensor) < tensor.numel()
                self._is_known &= bool(parts) and not is_elsewhere
                if tensor.grad is None or is_elsewhere:
                    continue
                self._given.update(part.name for part in parts)
                self._note_decays(group, parts)
                state = optimizer.state.get(tensor, {})
                begun += [(tensor, part, _sampled(tensor, part, sizes[part.name], state, options)) for part in parts]
        return begun

    def _note_decays(self, group: dict[str, Any], parts: list[recording.Place]) -> None:
        """Note the weight decay, unless the script changes that of a group itself, as in a schedule."""
        used = group.get("weight_decay")
        if used is None or self._made_decays.get(id(group)) != used:
            return
        self._decays.update(
            {part.name: (self._trained[part.name], used) for part in parts if part.name in self._trained}
        )

    def _lacking(self, engine: Any) -> list[str]:
        """What the optimizer lacks; not known if another one steps on a part of the fp32 weights, as with a ratio."""
        masters = {id(one) for one in probes.tensors_of_masters(engine)}
        return sorted(self._trained.keys() - self._given) if self._is_known and masters <= self._stepped else []

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
            self.is_taken = self._moves
        self._steps += 1
        self._windows = 0
        self._local, self._absolute, self._updates = {}, {}, []
        self._given, self._is_known, self._decays, self._moves = set(), True, {}, False
        self._stepped = set()
        if self.is_taken:
            for handle in self._handles:
                handle.remove()
            self._handles = []

    def save(self) -> None:
        """Nothing is left to write."""

    def _save(self, engine: Any, norm: float | None) -> None:
        parameters = dict(engine.module.named_parameters())
        updates = [one._replace(live=_live(parameters[one.name], one.places)) for one in self._updates]
        copies = set(probes.copies(engine))
        shared = {
            name: _copy(parameter.detach().reshape(-1)[samples_of(parameter.numel()).to(parameter.device)])
            for name, parameter in parameters.items()
            if name in copies
        }
        # Under torch_autocast, ranks exchange gradients of linear layers in its dtype (runtime/torch_autocast.py).
        exchanged = {engine.communication_data_type, *(getattr(one, _EXCHANGED, None) for one in parameters.values())}
        dtypes = {*self._gradient_dtypes, *(str(one).removeprefix("torch.") for one in exchanged - {None})}
        step = SampledStep(
            local={name: one.cpu() for name, one in self._local.items()},
            absolute={name: one.cpu() for name, one in self._absolute.items()},
            scale=self._scale,
            scale_after=probes.loss_scale(engine) or 1.0,
            norm=norm,
            dtypes=sorted(dtypes),
            windows=self._windows,
            ranks=self._ranks,
            optimizer=self._optimizer,
            is_decoupled=self._is_decoupled,
            updates=updates,
            shared=shared,
            lacking=self._lacking(engine),
            decays=self._decays,
        )
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        torch.save(tuple(step), self._path)


def load(path: str) -> SampledStep:
    """The notes of a rank."""
    return SampledStep(*torch.load(path, weights_only=False, map_location="cpu"))


def stale(engine: Any) -> list[str]:
    """The parameters of which this rank computes with something else than its fp32 weights, rounded."""
    parameters = dict(engine.module.named_parameters())
    found = []
    for master, parts in zip(probes.tensors_of_masters(engine), recording.places(engine), strict=False):
        for part in parts if probes.backed(master) == master.numel() else ():
            places = samples_of(_elements(parameters[part.name]))
            places = places[_is_within(places, part)]
            live = _live(parameters[part.name], places)
            if live is not None and places.numel():
                stepped = _copy(master.reshape(-1)[(places - part.start + part.begin).to(master.device)])
                if not torch.equal(stepped.to(live.dtype).view(torch.uint8), live.view(torch.uint8)):
                    found.append(part.name)
    return found


def stepped_elements(engine: Any) -> dict[str, torch.Tensor]:
    """A few elements of what the optimizer steps on, by parameter, as bytes; nothing of what is not in memory."""
    parameters = dict(engine.module.named_parameters())
    found: dict[str, torch.Tensor] = {}
    masters = probes.tensors_of_masters(engine)
    for master, parts in zip(masters, recording.places(engine), strict=False):
        for part in parts if probes.backed(master) == master.numel() else ():
            places = samples_of(_elements(parameters[part.name]))
            places = places[_is_within(places, part)]
            if places.numel():
                stepped = master.detach().reshape(-1)[(places - part.start + part.begin).to(master.device)]
                found[part.name] = stepped.contiguous().view(torch.uint8)
    if masters:
        return found
    for name, one in parameters.items():
        _, flat = probes.own_part(one)
        if flat.numel():
            found[name] = flat.detach()[samples_of(flat.numel()).to(flat.device)].contiguous().view(torch.uint8)
    return found


def elements_of(engine: Any) -> dict[str, torch.Tensor]:
    """A few elements of what this rank computes and steps with, by name, as bytes."""
    kept = {f"parameter {name}": probes.own_part(one)[1] for name, one in engine.module.named_parameters()}
    kept |= {f"master weights {number}": one for number, one in enumerate(probes.masters(engine))}
    for name, tensors in probes.states(engine).items():
        kept |= {f"{name} {number}": one for number, one in enumerate(tensors)}
    found = {}
    for name, one in kept.items():
        if one.numel() and probes.backed(one) == one.numel():
            flat = one.detach().reshape(-1)
            found[name] = flat[samples_of(one.numel()).to(one.device)].view(torch.uint8)
    return found


def gradients_of(engine: Any) -> dict[str, torch.Tensor]:
    """A few elements of the gradients that parameters have themselves, as without ZeRO, by name."""
    found = {}
    for name, one in engine.module.named_parameters():
        if one.grad is not None and one.grad.numel():
            flat = one.grad.detach().reshape(-1)
            found[name] = flat[samples_of(flat.numel()).to(flat.device)].view(torch.uint8)
    return found


def differing(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> list[str]:
    """The names whose elements were there before and are others now."""
    return [
        name
        for name, one in before.items()
        if name in after and one.shape == after[name].shape and not torch.equal(one, after[name])
    ]


def samples_of(elements: int) -> torch.Tensor:
    """The places of the elements that are sampled, the same on every rank."""
    count = min(elements, _SAMPLES)
    return torch.arange(count, dtype=torch.long) * elements // max(count, 1)


def few_of(elements: int) -> torch.Tensor:
    """The places of a few elements from all over a tensor."""
    places = samples_of(elements)
    return places[:: max(1, len(places) // _FEW)]


def _sampled(
    tensor: Any, part: recording.Place, elements: int, state: dict[str, Any], options: dict[str, Any]
) -> SampledUpdate:
    """The samples of the part of a parameter that lies in a tensor of the optimizer."""
    places = samples_of(elements)
    samples = _is_within(places, part).nonzero().flatten()
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
        name=part.name,
        samples=samples,
        places=places,
        before=before,
        gradient=taken(tensor.grad),
        after=before,
        live=None,
        states=states,
        steps=int(steps),
        group=options,
    )


def _elements(parameter: Any) -> int:
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def _is_within(places: torch.Tensor, part: recording.Place) -> torch.Tensor:
    return (places >= part.start) & (places < part.start + part.length)


def _live(parameter: Any, places: torch.Tensor) -> torch.Tensor | None:
    """Elements of a parameter as this rank computes with them; None if it does not have all of them in memory."""
    start, weights = probes.own_part(parameter)
    within = (places >= start) & (places < start + weights.numel())
    return _copy(weights[(places - start).to(weights.device)]) if bool(within.all()) else None


def _is_expert_of_some_ranks(parameter: Any) -> bool:
    """Whether other ranks have another expert under this name."""
    return probes.expert_ranks(parameter) > 1


def _is_plain(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, (tuple, list)) and len(value) == _BETAS)


def _copy(tensor: Any) -> torch.Tensor:
    copied: torch.Tensor = tensor.detach().to("cpu", copy=True)
    return copied
