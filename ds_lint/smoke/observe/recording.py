"""What a reference run needs of one rank: what went into each micro step, and what came out of each optimizer step.

The rank only takes notes, as raw tensors: the inputs of each forward pass, the factor that its loss was multiplied by,
what the optimizer was given and what it made of it, and digests of the weights that the rank computes with.
``reference.py`` reads them in another process, and does all of the arithmetic there.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ds_lint.smoke.observe import probes
from ds_lint.smoke.records.job import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.job import Job

# Rows of weights in which ZeRO and the 16-bit optimizers lay them out: stages 1 and 2, BF16_Optimizer, FP16_Optimizer.
_ROWS = ("bit16_groups_flat", "bf16_groups_flat", "fp16_groups_flat")


class Place(NamedTuple):
    """Where a part of a parameter lies in a tensor that the optimizer updates; all in elements."""

    name: str  # of the parameter
    begin: int  # in the tensor
    start: int  # in the parameter
    length: int


class Update(NamedTuple):
    """One tensor in one optimizer step."""

    tensor: int  # which one: a key of the places
    rate: float
    gradient: torch.Tensor | None  # None: the optimizer leaves the tensor out
    before: torch.Tensor | None  # None: as the step before left it
    after: torch.Tensor


class Live(NamedTuple):
    """A digest of a part of a parameter, as this rank computes with it."""

    start: int
    length: int
    digest: str


class Frozen(NamedTuple):
    """A part of a parameter that is not trained, as this rank computes with it."""

    name: str
    start: int
    weights: torch.Tensor


class MicroStep(NamedTuple):
    """A forward pass: its inputs, and the factor of its loss in the gradients; None if nothing went backward."""

    inputs: dict[str, Any]
    random: torch.Tensor  # the state of the generator before it
    factor: float | None


class RecordedStep(NamedTuple):
    """One optimizer step of one rank."""

    micro_steps: list[MicroStep]
    scale: float  # of the loss; 1 without fp16
    norm: float | None  # of the gradients before clipping: as the engine reports it, else of what it clips
    is_skipped: bool
    updates: list[Update]
    live: dict[str, Live]
    buffers: dict[str, str]  # digests of the buffers of the model after it


class Recorded(NamedTuple):
    """The notes of one rank."""

    places: dict[int, list[Place]]  # by tensor that the optimizer updates
    buffers: dict[str, torch.Tensor]
    dtypes: dict[str, torch.dtype]  # of the parameters
    frozen: list[Frozen]
    steps: list[RecordedStep]


class Recording:
    """Takes the notes of one rank while it trains."""

    def __init__(self, job: Job, rank: int) -> None:
        self._rank = rank
        self._folder = os.path.join(job.folder, RECORDINGS)
        self._places: dict[int, list[Place]] = {}
        self._buffers: dict[str, torch.Tensor] = {}
        self._dtypes: dict[str, torch.dtype] = {}
        self._frozen: list[Frozen] = []
        self._steps: list[RecordedStep] = []
        self._inputs: list[tuple[dict[str, Any], torch.Tensor]] = []
        self._random = torch.get_rng_state()
        self._factors: dict[int, float] = {}  # by forward pass of the window
        self._scale = 1.0
        self._norm: float | None = None  # of the gradients before clipping
        self._updates: list[Update] = []
        self._last: dict[int, torch.Tensor] = {}

    def before_forward(self) -> None:
        """A forward pass is about to be made."""
        self._random = torch.get_rng_state()

    def saw_forward(self, engine: Any, inputs: dict[str, Any], outputs: Any) -> None:
        """A forward pass; the gradient of its loss is what all of the stack multiplied it by."""
        if not self._buffers and not self._dtypes:
            self._buffers = {name: _copy(buffer) for name, buffer in engine.module.named_buffers()}
            self._dtypes = {name: parameter.dtype for name, parameter in engine.module.named_parameters()}
            self._frozen = [
                Frozen(name, start, _copy(weights))
                for name, parameter, start, weights in _parts(engine)
                if not parameter.requires_grad
            ]
        number = len(self._inputs)
        copied = {name: _copy(one) if torch.is_tensor(one) else one for name, one in inputs.items()}
        self._inputs.append((copied, self._random))
        loss: Any = getattr(outputs, "loss", None)
        if torch.is_tensor(loss) and loss.requires_grad:
            loss.register_hook(lambda factor: self._factors.__setitem__(number, float(factor)))

    def saw_backward(self, engine: Any) -> None:
        """A backward pass is about to be made with this loss scale."""
        self._scale = probes.loss_scale(engine) or 1.0

    def before_step(self, engine: Any) -> None:
        """The step of a whole window begins."""
        self._norm = probes.unreported_norm(engine)

    def before_update(self, engine: Any, optimizer: Any) -> list[tuple[int, Any, Update]]:
        """What the optimizer is about to step with; ZeRO-3 calls it once for each of its groups."""
        known = {id(master): number for number, master in enumerate(probes.tensors_of_masters(engine))}
        if not self._places:
            self._places = dict(enumerate(places(engine)))
        found = []
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                number = known.get(id(tensor))
                if number is None:
                    number = self._number_of(engine, tensor)
                before = _copy(tensor)
                is_same = number in self._last and torch.equal(before, self._last[number])
                gradient = None if tensor.grad is None else _copy(tensor.grad)
                update = Update(number, group["lr"], gradient, None if is_same else before, before)
                found.append((number, tensor, update))
        return found

    def after_update(self, begun: list[tuple[int, Any, Update]]) -> None:
        """What the optimizer made of it."""
        for number, tensor, update in begun:
            self._last[number] = _copy(tensor)
            # A rate that is not a number has stopped the step.
            self._updates.append(update._replace(rate=float(update.rate), after=self._last[number]))

    def saw_step(self, engine: Any, *, norm: float | None, is_skipped: bool) -> None:
        """The step is over; the next window begins."""
        micro_steps = [MicroStep(*one, self._factors.get(number)) for number, one in enumerate(self._inputs)]
        live = dict(_live(engine))
        buffers = {name: probes.digest(one) for name, one in engine.module.named_buffers()}
        self._steps.append(
            RecordedStep(
                micro_steps, self._scale, self._norm if norm is None else norm, is_skipped, self._updates, live, buffers
            )
        )
        self._inputs, self._factors, self._updates = [], {}, []

    def save(self) -> None:
        """Leave the notes for the reference run."""
        os.makedirs(self._folder, exist_ok=True)
        notes = Recorded(self._places, self._buffers, self._dtypes, self._frozen, self._steps)
        torch.save(tuple(notes), os.path.join(self._folder, f"{self._rank}.pt"))

    def _number_of(self, engine: Any, tensor: Any) -> int:
        """The number of a parameter that the optimizer updates itself; negative, unlike those of fp32 copies."""
        for number, (name, parameter) in enumerate(engine.module.named_parameters()):
            if parameter is tensor:
                self._places[-1 - number] = [Place(name, 0, 0, parameter.numel())]
                return -1 - number
        return -1 - len(self._dtypes)  # no parameter: it has no places


def load(job: Job) -> list[Recorded]:
    """The notes of all ranks of a job."""
    paths = (os.path.join(job.folder, RECORDINGS, f"{rank}.pt") for rank in range(job.world_size))
    return [Recorded(*torch.load(path, weights_only=False)) for path in paths]


def _copy(tensor: Any) -> torch.Tensor:
    copied: torch.Tensor = tensor.detach().to("cpu", copy=True)
    return copied


# ------------------------------------------------------------------------------------------ where the parameters are


def places(engine: Any) -> Iterator[list[Place]]:
    """The parts of parameters in each fp32 tensor of this rank, by what the library laid out, not by its tables."""
    optimizer = engine.optimizer
    names = {id(parameter): name for name, parameter in engine.module.named_parameters()}
    masters = probes.tensors_of_masters(engine)
    if hasattr(optimizer, "fp32_partitioned_groups_flat"):
        for parameters in optimizer.fp16_groups:
            yield list(_of_stage_3(parameters, names))
        return
    rows: list[Any] = next((getattr(optimizer, name) for name in _ROWS if hasattr(optimizer, name)), [])
    if not rows:  # FP16_UnfusedOptimizer has a copy of each parameter
        parameters = [one for group in getattr(optimizer, "fp16_groups", []) for one in group]
        yield from ([Place(names[id(one)], 0, 0, one.numel())] for one in parameters)
        return
    groups = getattr(optimizer, "real_dp_process_group", None)
    for number, (row, master) in enumerate(zip(rows, masters, strict=False)):
        rank = torch.distributed.get_rank(groups[number]) if groups and master.numel() < row.numel() else 0
        yield list(_of_row(engine, row, rank * master.numel(), master.numel()))


def _of_row(engine: Any, row: torch.Tensor, begin: int, length: int) -> Iterator[Place]:
    """The parts of parameters between two places of a row of weights, by their address."""
    for name, parameter in engine.module.named_parameters():
        if parameter.untyped_storage().data_ptr() != row.untyped_storage().data_ptr():
            continue
        at = (parameter.data_ptr() - row.data_ptr()) // row.element_size()
        first, last = max(at, begin), min(at + parameter.numel(), begin + length)
        if first < last:
            yield Place(name, first - begin, first - at, last - first)


def _of_stage_3(parameters: list[Any], names: dict[int, str]) -> Iterator[Place]:
    """Each rank has a part of every parameter, one behind the other."""
    begins = itertools.accumulate((parameter.ds_tensor.numel() for parameter in parameters), initial=0)
    for parameter, begin in zip(parameters, begins, strict=False):
        part = parameter.ds_tensor.numel()
        start = torch.distributed.get_rank(parameter.ds_process_group) * part
        if (length := min(part, parameter.ds_numel - start)) > 0:
            yield Place(names[id(parameter)], begin, start, length)


def _live(engine: Any) -> Iterator[tuple[str, Live]]:
    """The weights that this rank computes with: under ZeRO-3 its part, unless that is on NVMe."""
    for name, _, start, weights in _parts(engine):
        yield name, Live(start, weights.numel(), probes.digest(weights))


def _parts(engine: Any) -> Iterator[tuple[str, Any, int, torch.Tensor]]:
    """Each parameter, with the place and the weights of the part of it that this rank computes with."""
    for name, parameter in engine.module.named_parameters():
        start, weights = probes.own_part(parameter)
        if weights.numel():
            yield name, parameter, start, weights
