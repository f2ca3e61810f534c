"""What a reference run needs of one rank that trains with FSDP, in the form in which other ranks leave their notes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ds_lint.smoke.observe import probes
from ds_lint.smoke.observe.fsdp_shards import handles, holding, local
from ds_lint.smoke.observe.recording import MicroStep, Place
from ds_lint.smoke.records.fsdp import FSDP1, plain_name
from ds_lint.smoke.records.job import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.smoke.records.fsdp import FsdpUnit, UnitShare
    from ds_lint.smoke.records.job import Job


class ShardUpdate(NamedTuple):
    """One tensor in one optimizer step."""

    places: list[Place]  # none for a tensor outside the model
    rate: float
    gradient: torch.Tensor | None  # None: the optimizer leaves the tensor out
    before: torch.Tensor
    after: torch.Tensor


class FsdpStep(NamedTuple):
    """One optimizer step of one rank."""

    micro_steps: list[MicroStep]
    norm: float | None  # of the gradients before clipping, as the library reports it
    is_skipped: bool
    updates: list[ShardUpdate]
    live: dict[str, str]  # digests of whole parameters, as the rank computes with them after the step
    scale: float = 1.0  # of the loss


class FsdpRecording:
    """Takes the notes of one rank while it trains; ``share_of`` computes the places of its shards from their shapes."""

    def __init__(self, job: Job, rank: int, share_of: Callable[[str, FsdpUnit], UnitShare]) -> None:
        self._share_of = share_of
        self._path = os.path.join(job.folder, RECORDINGS, f"{rank}.pt")
        self._places: dict[int, list[Place]] = {}  # by the tensor that the optimizer may update
        self._kept: list[Any] = []  # those tensors, so that no other one gets their id
        self._steps: list[FsdpStep] = []
        self._inputs: list[tuple[dict[str, Any], torch.Tensor]] = []
        self._factors: dict[int, float] = {}  # by forward pass of the window
        self._updates: list[ShardUpdate] = []
        self._norm: float | None = None

    def lay_out(self, model: Any) -> None:
        """Find where the parameters of a model are in the tensors that an optimizer may update."""
        held = holding(model)
        tensors = {plain_name(name): one for name, one in model.named_parameters()}
        flats = dict(handles(model))
        for unit in held.units:
            share = self._share_of(held.version, unit)
            names = [one.name for one in unit.shards]
            if held.version == FSDP1 and not unit.keeps_original:
                self._add(
                    flats[unit.modules[0]].flat_param,
                    [
                        Place(name, piece.begin, piece.start, piece.elements)
                        for name, piece in zip(names, share.pieces, strict=True)
                        if piece.elements
                    ],
                )
                continue
            for name, piece in zip(names, share.pieces, strict=True):
                places = [Place(name, 0, piece.start, piece.elements)] if piece.elements else []
                self._add(tensors[name], places)

    def _add(self, tensor: Any, places: list[Place]) -> None:
        self._places[id(tensor)] = places
        self._kept.append(tensor)

    def before_forward(self, inputs: dict[str, Any]) -> None:
        """A forward pass is about to be made with these inputs."""
        copied = {name: one.detach().clone() if torch.is_tensor(one) else one for name, one in inputs.items()}
        self._inputs.append((copied, torch.get_rng_state()))

    def saw_loss(self, loss: Any) -> None:
        """The loss of the last forward pass; its gradient is what all of the stack multiplies it by."""
        number = len(self._inputs) - 1
        if torch.is_tensor(loss) and loss.requires_grad:
            loss.register_hook(lambda factor: self._factors.__setitem__(number, float(factor)))

    def saw_weights(self, name: str, weights: Any) -> None:
        """A whole parameter as the rank computes with it, in the first pass after a step."""
        if self._steps and len(self._inputs) == 1:
            one = weights.detach().reshape(-1).clone()  # a digest of FSDP's own storage would keep it from being freed
            self._steps[-1].live[name] = probes.digest(one)

    def saw_norm(self, norm: Any) -> None:
        """The norm of the gradients before they are clipped, as the library reports it."""
        self._norm = float(norm)

    def before_update(self, optimizer: Any) -> list[tuple[Any, ShardUpdate]]:
        """What the optimizer is about to step with."""
        begun = []
        for group in optimizer.param_groups:
            for one in group["params"]:
                gradient = None if one.grad is None else local(one.grad).clone()
                before, places = local(one).clone(), self._places.get(id(one), [])
                begun.append((one, ShardUpdate(places, float(group["lr"]), gradient, before, before)))
        return begun

    def after_update(self, begun: list[tuple[Any, ShardUpdate]]) -> None:
        """What the optimizer made of it."""
        self._updates += [update._replace(after=local(tensor).clone()) for tensor, update in begun]

    def saw_step(self, *, is_skipped: bool) -> None:
        """The step is over; the next window begins."""
        micro_steps = [MicroStep(*one, self._factors.get(number)) for number, one in enumerate(self._inputs)]
        self._steps.append(FsdpStep(micro_steps, self._norm, is_skipped, self._updates, {}))
        self._inputs, self._factors, self._updates, self._norm = [], {}, [], None

    def save(self) -> None:
        """Leave the notes for the reference run."""
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        torch.save([tuple(step) for step in self._steps], self._path)


def load(job: Job) -> list[list[FsdpStep]]:
    """The notes of all ranks of a job."""
    paths = (os.path.join(job.folder, RECORDINGS, f"{rank}.pt") for rank in range(job.world_size))
    return [[FsdpStep(*step) for step in torch.load(path, weights_only=False)] for path in paths]
