"""The model states of one rank: parameters, gradients, master weights, optimizer states and communication buckets.

Sources: ``deepspeed/runtime/zero/stage_1_and_2.py``, ``stage3.py``, ``partition_parameters.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.memory.band import NOTHING, exactly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.memory.band import Band
    from ds_lint.memory.setup import TrainingSetup

_FULL = 4  # bytes of an element in fp32
_ADAM = 2  # states of each element


class Amount(NamedTuple):
    """How many elements there are, and the bytes that they take."""

    elements: Band = NOTHING
    bytes: Band = NOTHING

    def plus(self, other: Amount) -> Amount:
        """Two amounts together."""
        return Amount(self.elements.plus(other.elements), self.bytes.plus(other.bytes))

    def times(self, factor: float) -> Amount:
        """The amount so many times."""
        return Amount(self.elements.times(factor), self.bytes.times(factor))


class Placed(NamedTuple):
    """What one rank holds of a kind, by where it lies."""

    gpu: Amount = Amount()
    host: Amount = Amount()
    nvme: Amount = Amount()


def of(setup: TrainingSetup) -> dict[str, Placed]:
    """What each kind of model state takes on one rank, of several kinds of ranks the one that holds most."""
    return {
        "parameters": _parameters(setup),
        "gradients": _gradients(setup),
        "master_weights": _master_weights(setup),
        "optimizer_states": _optimizer_states(setup),
        "buckets": _buckets(setup),
    }


def partition(setup: TrainingSetup) -> int:
    """The elements of the trained parameters that one rank updates."""
    trained = [tensor.size for tensor in setup.tensors if tensor.is_trained]
    if setup.stage == 0:
        return sum(trained)
    if setup.stage < 3:
        return 2 * -(-sum(trained) // (2 * setup.ranks))
    return sum(-(-size // setup.ranks) for size in trained)


def _amount(elements: float, width: int) -> Amount:
    return Amount(exactly(elements), exactly(elements * width))


def _moved(setup: TrainingSetup, part: Amount) -> Placed:
    """A part of the optimizer, where ``offload_optimizer`` puts it."""
    offload = setup.optimizer_offload
    if offload is None:
        return Placed(gpu=part)
    there = part.times(offload.ratio)
    here = part.times(1 - offload.ratio)
    return Placed(here, nvme=there) if offload.device == "nvme" else Placed(here, host=there)


def _parameters(setup: TrainingSetup) -> Placed:
    if setup.stage < 3:
        return Placed(gpu=_amount(setup.parameter_count, setup.width))
    held = sum(-(-tensor.size // setup.ranks) for tensor in setup.tensors)
    whole = sum(tensor.size for tensor in setup.tensors if tensor.size <= setup.persistence_threshold)
    part, persistent = _amount(held, setup.width), _amount(whole, setup.width)
    if setup.parameter_offload is None:
        return Placed(gpu=part.plus(persistent))
    if setup.parameter_offload.device == "nvme":
        return Placed(gpu=persistent, nvme=part)
    return Placed(gpu=persistent, host=part)


def _gradients(setup: TrainingSetup) -> Placed:
    mine = _amount(partition(setup), setup.width)
    if setup.optimizer_offload is None:
        return Placed(gpu=mine)
    full = _amount(partition(setup), _FULL)
    return Placed(host=full.plus(mine) if setup.stage == 3 else full)


def _master_weights(setup: TrainingSetup) -> Placed:
    if setup.stage == 0 and setup.dtype == "fp32":
        return Placed()
    return _moved(setup, _amount(partition(setup), _FULL))


def _optimizer_states(setup: TrainingSetup) -> Placed:
    return _moved(setup, _amount(_ADAM * partition(setup), _FULL))


def _buckets(setup: TrainingSetup) -> Placed:
    return Placed(gpu=_amount(setup.reduce_bucket, setup.width)) if setup.stage == 3 else Placed()
