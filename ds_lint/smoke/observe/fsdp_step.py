"""One optimizer step of a model that FSDP shards: a few elements of every parameter, before and after it.

The rank only takes notes. Noted are the gradients that autograd computes on this rank, before FSDP reduces them, those
that are left after the last backward pass, what the optimizer is given and what it makes of it, its states, and the
weights that the rank computes with afterwards. ``ds_lint/smoke/script/fsdp_recomputed.py`` does the arithmetic.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ds_lint.smoke.observe import fsdp_shards
from ds_lint.smoke.observe.fsdp_shards import local, unit_parameters
from ds_lint.smoke.observe.sampled_step import SampledUpdate, samples_of
from ds_lint.smoke.records.fsdp import plain_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.smoke.records.fsdp_trace import SeenClip

STEP = "fsdp-step.pt"  # the file of a rank
_STATES = ("exp_avg", "exp_avg_sq", "momentum_buffer", "sum")
_PAIR = 2


class ShardPart(NamedTuple):
    """A run of the elements of a parameter in a tensor of this rank that an optimizer steps on."""

    name: str
    size: int  # elements of the whole parameter
    begin: int  # in the tensor of the rank
    start: int  # in the whole parameter
    length: int
    copies: int  # ranks that have the same elements


class OwnTensor(NamedTuple):
    """A tensor that an optimizer steps on."""

    tensor: Any
    parts: list[ShardPart]


class SampledShards(NamedTuple):
    """The notes of one rank."""

    step: int  # from 1
    ranks: int
    micro_steps: int
    local: dict[str, torch.Tensor]  # sums over the micro steps of what autograd computes
    absolute: dict[str, torch.Tensor]  # the same of absolute values
    dtypes: list[str]  # in which gradients are computed, reduced and kept
    reduced: dict[str, tuple[torch.Tensor, torch.Tensor]]  # which samples this rank has, and they after backward
    squares: dict[str, float]  # of those gradients: the rank's share of the squared norm of each parameter
    updates: list[SampledUpdate]
    optimizer: str
    clips: list[SeenClip]
    live: dict[str, torch.Tensor]  # all samples of each parameter, in the next forward pass
    shards: dict[str, tuple[torch.Tensor, torch.Tensor]]  # which of them this rank keeps then, and they


def tensors_of(model: Any) -> list[OwnTensor]:
    """What optimizers of this rank step on, with the places of its elements; no parameter is gathered."""
    return [*_of_flat(model), *_of_rows(model), *_of_no_unit(model)]


def _of_flat(model: Any) -> Iterator[OwnTensor]:
    for name, handle in fsdp_shards.handles(model):
        flat = handle.flat_param
        prefix = f"{name}." if name else ""
        names = [f"{prefix}{plain_name(one)}" for one in flat._fqns]  # noqa: SLF001
        is_sharded = handle.uses_sharded_strategy
        copies = torch.distributed.get_world_size() // (handle.world_size if is_sharded else 1)
        parts = []
        for number, (one, size, offset) in enumerate(zip(names, flat._numels, flat_offsets(flat), strict=True)):  # noqa: SLF001
            if not is_sharded:
                parts.append(ShardPart(one, size, offset, 0, size, copies))
                continue
            place = flat._shard_param_infos[number]  # noqa: SLF001
            if place.in_shard:
                begin, start, length = place.offset_in_shard, place.intra_param_start_idx, place.numel_in_shard
                parts.append(ShardPart(one, size, begin, start, length, copies))
        if not handle._use_orig_params:  # noqa: SLF001
            yield OwnTensor(flat, parts)
            continue
        by_name = {part.name: part for part in parts}
        for one, parameter in zip(names, flat._params, strict=True):  # noqa: SLF001
            part = by_name.get(one)
            yield OwnTensor(parameter, [part._replace(begin=0)] if part is not None else [])


def flat_offsets(flat: Any) -> list[int]:
    """Where each parameter begins in a whole flat parameter, which has padding between them."""
    offsets, at = [], 0
    for size, is_padding in zip(flat._numels_with_padding, flat._is_padding_mask, strict=True):  # noqa: SLF001
        if not is_padding:
            offsets.append(at)
        at += size
    return offsets


def _of_rows(model: Any) -> Iterator[OwnTensor]:
    for unit_parameter, name in unit_parameters(model):
        parameter = unit_parameter.sharded_param
        shape, kept = tuple(parameter.shape), local(parameter)
        found = fsdp_shards._row_shard(name, parameter)  # noqa: SLF001 - the same reading
        size = math.prod(shape)
        copies = torch.distributed.get_world_size()
        for dim, placement in enumerate(parameter.placements):
            if placement.is_shard():
                copies //= parameter.device_mesh.size(dim)
        is_run = all(not one.is_shard() or one.dim == 0 for one in parameter.placements)
        parts = [ShardPart(name, size, 0, found.start, kept.numel(), copies)] if is_run and kept.numel() else []
        yield OwnTensor(parameter, parts)


def _of_no_unit(model: Any) -> Iterator[OwnTensor]:
    flat = torch.distributed.fsdp.FlatParameter
    known = {id(one.sharded_param) for one, _ in unit_parameters(model)}
    known |= {
        id(whole) for one, _ in unit_parameters(model) if (whole := getattr(one, "_unsharded_param", None)) is not None
    }
    for _, handle in fsdp_shards.handles(model):
        known |= {id(handle.flat_param), *(id(one) for one in handle.flat_param._params or ())}  # noqa: SLF001
    ranks = torch.distributed.get_world_size()
    for name, one in model.named_parameters():
        if id(one) not in known and not isinstance(one, flat) and not hasattr(one, "_local_tensor"):
            size = one.numel()
            yield OwnTensor(one, [ShardPart(plain_name(name), size, 0, 0, size, ranks)])


class FsdpSamples:
    """Takes the notes of the first whole step from a given one on that moves the weights."""

    def __init__(self, path: str, first: int, ranks: int) -> None:
        self._path = path
        self._first = first
        self._ranks = ranks
        self._steps = 0
        self._handles: list[Any] = []
        self._leaves: set[int] = set()
        self._reset()
        self._taken: SampledShards | None = None
        self._live: dict[str, torch.Tensor] = {}
        self.is_taken = False

    def _reset(self) -> None:
        self._local: dict[str, torch.Tensor] = {}
        self._absolute: dict[str, torch.Tensor] = {}
        self._dtypes: set[str] = set()
        self._reduced: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._squares: dict[str, float] = {}
        self._micro_steps = 0

    @property
    def is_armed(self) -> bool:
        """Whether notes of the step that is being made are taken."""
        return self._taken is None and self._steps + 1 >= self._first

    @property
    def wants_live(self) -> bool:
        """Whether the weights of the next forward pass are noted."""
        return self._taken is not None and not self.is_taken

    def after_forward(self, model: Any) -> None:
        """The gradients of the backward pass that follows are sampled: of what is whole on this rank then."""
        if not self.is_armed:
            return
        for leaf, places in _leaves(model):
            if id(leaf) not in self._leaves and leaf.requires_grad:
                self._leaves.add(id(leaf))
                self._handles.append(leaf.register_hook(self._adding(places)))

    def _adding(self, places: list[tuple[str, torch.Tensor]]) -> Callable[[torch.Tensor], None]:
        def add(gradient: torch.Tensor) -> None:
            if not self.is_armed:
                return
            flat = gradient.detach().reshape(-1)
            self._dtypes.add(fsdp_shards.dtype_name(gradient.dtype))
            for name, at in places:
                some = flat[at.to(flat.device)].double()
                self._local[name] = self._local.get(name, torch.zeros_like(some)) + some
                self._absolute[name] = self._absolute.get(name, torch.zeros_like(some)) + some.abs()

        return add

    def after_backward(self, tensors: list[OwnTensor]) -> None:
        """What FSDP has made of the gradients so far."""
        if not self.is_armed:
            return
        self._micro_steps += 1
        self._reduced, self._squares = {}, {}
        for one in tensors:
            if one.tensor.grad is None:
                continue
            gradient = local(one.tensor.grad).reshape(-1)
            self._dtypes.add(fsdp_shards.dtype_name(gradient.dtype))
            for part in one.parts:
                if part.begin + part.length > gradient.numel():
                    continue  # whole, because it is not reduced yet
                samples, at = _within(part)
                self._reduced[part.name] = (samples, gradient[at.to(gradient.device)].double().cpu())
                own = gradient[part.begin : part.begin + part.length].double()
                self._squares[part.name] = float(own.square().sum()) / part.copies

    def zeroed(self) -> None:
        """The gradients so far are of no step."""
        self._reset()

    def before_update(self, optimizer: Any, tensors: list[OwnTensor]) -> list[tuple[Any, ShardPart, SampledUpdate]]:
        """What an optimizer is about to step with."""
        if not self.is_armed:
            return []
        own = {id(one.tensor): one.parts for one in tensors}
        begun: list[tuple[Any, ShardPart, SampledUpdate]] = []
        for group in optimizer.param_groups:
            options = {name: value for name, value in group.items() if name != "params" and _is_plain(value)}
            for tensor in group["params"]:
                if tensor.grad is None or local(tensor.grad).numel() != local(tensor).numel():
                    continue
                state = optimizer.state.get(tensor, {})
                begun += [(tensor, part, _sampled(tensor, part, state, options)) for part in own.get(id(tensor), [])]
        return begun

    def after_update(
        self,
        optimizer: Any,
        begun: list[tuple[Any, ShardPart, SampledUpdate]],
        clips: list[SeenClip],
        reduced: list[str],
    ) -> None:
        """What it has made of it; a step with a learning rate of 0 shows little."""
        updates = [
            one._replace(after=_copy(local(tensor).reshape(-1)[_within(part)[1].to(local(tensor).device)]))
            for tensor, part, one in begun
            if one.places.numel()
        ]
        if self.is_armed and self._micro_steps and any(group.get("lr", True) for group in optimizer.param_groups):
            self._taken = SampledShards(
                step=self._steps + 1,
                ranks=self._ranks,
                micro_steps=self._micro_steps,
                local={name: one.cpu() for name, one in self._local.items()},
                absolute={name: one.cpu() for name, one in self._absolute.items()},
                dtypes=sorted({*self._dtypes, *reduced}),
                reduced=self._reduced,
                squares=self._squares,
                updates=updates,
                optimizer=f"{type(optimizer).__module__}.{type(optimizer).__qualname__}",
                clips=clips,
                live={},
                shards={},
            )
            self.write()
        self._steps += 1
        self._reset()

    def begin_live(self, tensors: list[OwnTensor]) -> None:
        """The forward pass after the step is about to be made."""
        if self._taken is not None:
            found = {}
            for one in tensors:
                flat = local(one.tensor).reshape(-1)
                for part in one.parts:
                    samples, at = _within(part)
                    found[part.name] = (samples, _copy(flat[at.to(flat.device)]))
            self._taken = self._taken._replace(shards=found)

    def saw_live(self, name: str, weights: torch.Tensor) -> None:
        """A parameter as this rank computes with it after the step."""
        if name not in self._live:
            places = samples_of(weights.numel())
            self._live[name] = _copy(weights.detach().reshape(-1)[places.to(weights.device)])

    def end_live(self) -> None:
        """The forward pass after the step is made."""
        if self._taken is not None and self._live:
            self._taken = self._taken._replace(live=self._live)
            self.write()
            self.is_taken = True
            for handle in self._handles:
                handle.remove()

    def write(self) -> None:
        """Leave the notes for the driver's process."""
        if self._taken is not None:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            torch.save(tuple(self._taken), self._path)


def load(path: str) -> SampledShards:
    """The notes of a rank."""
    return SampledShards(*torch.load(path, weights_only=False, map_location="cpu"))


def _leaves(model: Any) -> Iterator[tuple[Any, list[tuple[str, torch.Tensor]]]]:
    """The tensors for which autograd computes gradients, with the places of the samples of their parameters."""
    for _name, handle in fsdp_shards.handles(model):
        flat = handle.flat_param
        prefix = f"{_name}." if _name else ""
        names = [f"{prefix}{plain_name(one)}" for one in flat._fqns]  # noqa: SLF001
        offsets = flat_offsets(flat)
        pairs = zip(names, flat._numels, offsets, strict=True)  # noqa: SLF001
        yield flat, [(name, offset + samples_of(size)) for name, size, offset in pairs]
    for one, name in unit_parameters(model):
        whole = getattr(one, "_unsharded_param", None)
        if whole is not None:
            yield whole, [(name, samples_of(whole.numel()))]
    for own in _of_no_unit(model):
        yield own.tensor, [(part.name, samples_of(part.size)) for part in own.parts]


def _within(part: ShardPart) -> tuple[torch.Tensor, torch.Tensor]:
    """Which samples of a parameter are in a part of it, and where they are in the tensor of the rank."""
    places = samples_of(part.size)
    samples = ((places >= part.start) & (places < part.start + part.length)).nonzero().flatten()
    return samples, places[samples] - part.start + part.begin


def _sampled(tensor: Any, part: ShardPart, state: dict[str, Any], options: dict[str, Any]) -> SampledUpdate:
    samples, at = _within(part)
    kept = local(tensor)

    def taken(one: Any) -> torch.Tensor:
        flat = local(one).reshape(-1)
        return _copy(flat[at.to(flat.device)])

    states = {
        name: taken(value)
        for name, value in state.items()
        if name in _STATES and torch.is_tensor(value) and local(value).numel() == kept.numel()
    }
    before = taken(tensor)
    return SampledUpdate(
        name=part.name,
        samples=samples,
        places=samples_of(part.size)[samples],
        before=before,
        gradient=taken(tensor.grad),
        after=before,
        live=None,
        states=states,
        steps=int(state.get("step", 0)),
        group=options,
    )


def _is_plain(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, (tuple, list)) and len(value) == _PAIR)


def _copy(tensor: Any) -> torch.Tensor:
    copied: torch.Tensor = tensor.detach().to("cpu", copy=True)
    return copied
