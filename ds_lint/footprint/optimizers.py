"""What an optimizer keeps of each element that it updates, by the name in the config or of the Trainer's ``optim``.

The numbers are checked against the classes (tests/fidelity/test_optimizer_states.py), apart from those that need a GPU
or a package beside: 8-bit states are those of bitsandbytes, which has a scale for each 256 of them.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint.band import NOTHING, Band, exactly
from ds_lint.footprint.partition import holds_most, is_for_muon, of_muon, share, sub_groups, touched, width_of_muon
from ds_lint.footprint.placed import FULL, Amount, Placed, amount
from ds_lint.footprint.swapping import SWAPPED, aligned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.setup import TrainingSetup
    from ds_lint.knowledge.records import JsonObject


class Kept(NamedTuple):
    """States of each element, and the bytes of one."""

    states: Band
    width: Band = exactly(FULL)


_UNKNOWN = Kept(Band(0, 2, 4))  # none, Adam's, and more than any optimizer here has
_EIGHT_BIT = Band(1, 1 + FULL / 256, FULL)  # bytes; small tensors have states in fp32
_ONE, _TWO, _THREE = Kept(exactly(1)), Kept(exactly(2)), Kept(exactly(3))
_OF: dict[str, Kept] = {
    # DeepSpeed's
    "adam": _TWO, "adamw": _TWO, "lion": _ONE, "lamb": _TWO, "muadam": _TWO, "muadamw": _TWO, "musgd": Kept(NOTHING),
    "onebitadam": Kept(Band(2, 3, 4)), "onebitlamb": Kept(Band(2, 3, 4)), "zerooneadam": Kept(Band(2, 4, 5)),
    # torch's, by name
    "adadelta": _TWO, "adagrad": _ONE, "adamax": _TWO, "asgd": _ONE, "nadam": _TWO, "radam": _TWO, "rmsprop": _ONE,
    "rprop": _TWO, "sgd": Kept(NOTHING),
    # the Trainer's
    "adamw_hf": _TWO, "adamw_torch": _TWO, "adamw_torch_fused": _TWO, "adamw_torch_xla": _TWO,
    "adamw_torch_npu_fused": _TWO, "adamw_apex_fused": _TWO, "adamw_anyprecision": Kept(Band(2, 2, 3)),
    "adamw_torch_8bit": Kept(exactly(2), _EIGHT_BIT), "adamw_torch_4bit": Kept(exactly(2), Band(0.5, 0.6, FULL)),
    "adamw_8bit": Kept(exactly(2), _EIGHT_BIT), "adamw_bnb_8bit": Kept(exactly(2), _EIGHT_BIT),
    "paged_adamw_8bit": Kept(exactly(2), _EIGHT_BIT), "paged_adamw_32bit": _TWO,
    "lion_8bit": Kept(exactly(1), _EIGHT_BIT), "paged_lion_8bit": Kept(exactly(1), _EIGHT_BIT),
    "lion_32bit": _ONE, "paged_lion_32bit": _ONE,
    "rmsprop_bnb": _ONE, "rmsprop_bnb_32bit": _ONE, "rmsprop_bnb_8bit": Kept(exactly(1), _EIGHT_BIT),
    "ademamix": _THREE, "paged_ademamix_32bit": _THREE,
    "ademamix_8bit": Kept(exactly(3), _EIGHT_BIT), "paged_ademamix_8bit": Kept(exactly(3), _EIGHT_BIT),
    "schedule_free_adamw": _TWO, "schedule_free_radam": _TWO, "schedule_free_sgd": _ONE,
    "grokadamw": _THREE, "stable_adamw": Kept(Band(2, 2, 3)),
}  # fmt: skip


def is_known(setup: TrainingSetup) -> bool:
    """Whether it is known what the optimizer of this setup keeps."""
    return setup.optimizer in (*_OF, "adafactor", "muon")


def kept(setup: TrainingSetup) -> Kept:
    """What the optimizer of this setup keeps of each element of its master weights."""
    name, given = setup.optimizer, setup.optimizer_parameters or {}
    if name == "adafactor":  # rows and columns of a matrix; under ZeRO masters are flat, and a vector is kept whole
        return _ONE if setup.stage else Kept(Band(0, 0.01, 1))
    found = _OF.get(name, _UNKNOWN)
    if name == "lion" and setup.optimizer_offload is not None:
        found = _TWO  # DeepSpeedCPULion makes a second one, which it never reads
    more = sum(bool(given.get(key)) for key in _MORE.get(name, ()))
    width = exactly(_state_width(setup, given)) if found.width == exactly(FULL) else found.width
    return Kept(found.states.plus(exactly(more)), width)


def _state_width(setup: TrainingSetup, given: JsonObject) -> int:
    """The bytes of a state: as of the weights that are stepped on, but DeepSpeed's optimizers on the CPU have fp32."""
    if setup.optimizer in ("adam", "adamw"):
        return setup.state_width
    if setup.optimizer in ("lion", "adagrad") and setup.optimizer_offload is not None:
        return setup.master_width if given.get("fp32_optimizer_states") is False else FULL
    return setup.master_width


_MORE = {  # parameters that each add a state
    "sgd": ("momentum",), "rmsprop": ("momentum", "centered"), "musgd": ("momentum",),
    "adam": ("amsgrad",), "adamw": ("amsgrad",),
}  # fmt: skip


def master_weights(setup: TrainingSetup) -> Placed:
    """The weights in full precision that the optimizer steps on, where they are not the parameters themselves."""
    if setup.stage == 0 and setup.dtype == "fp32":
        return Placed()
    return _where_the_optimizer_is(setup, exactly(1), exactly(setup.master_width))


def optimizer_states(setup: TrainingSetup) -> Placed:
    """What the optimizer keeps beside the weights after its first step."""
    if setup.optimizer == "muon":
        return _muon(setup)
    states, width = kept(setup)
    held = _where_the_optimizer_is(setup, states, width)
    if setup.optimizer.startswith("paged_"):  # in unified memory, which CUDA moves to the host if the GPU is full
        held = Placed(
            gpu=Amount(*(Band(0, band.likely, band.most) for band in held.gpu)),
            host=held.host.plus(Amount(*(Band(0, 0, band.most) for band in held.gpu))),
            nvme=held.nvme,
        )
    return held.plus(_left_behind(setup))


def _muon(setup: TrainingSetup) -> Placed:
    """One state of each matrix between embedding and head, Adam's two of the rest.

    At stages 1 and 2 Muon updates whole matrices as gradients come in, and holds their momentum a second time until it
    is known that the step is made (``_muon_staging_momentum``).
    """
    matrices = of_muon(setup)
    rest = setup._replace(tensors=tuple(one for one in setup.tensors if not is_for_muon(one)), optimizer="adamw")
    states = _where_the_optimizer_is(rest, exactly(2), exactly(FULL))
    if setup.stage in (0, 3) or setup.optimizer_offload is not None:
        is_in_full = setup.stage == 0 or setup.optimizer_offload is not None
        width = FULL if is_in_full else setup.communication_width or setup.width
        return states.plus(_where_the_optimizer_is(matrices, exactly(1), exactly(width)))
    held = touched(matrices, pads=False, rank=holds_most(setup))
    return states.plus(Placed(gpu=amount(2 * held, width_of_muon(setup))))


def _left_behind(setup: TrainingSetup) -> Placed:
    """The states that torch's Adagrad makes of the parameters before ZeRO makes another of its partitions.

    The engine keeps the first one (``basic_optimizer``). ``zero.Init`` leaves it nothing to make states of.
    """
    if setup.optimizer != "adagrad" or setup.optimizer_offload is not None:
        return Placed()
    if setup.stage == 0 and setup.dtype == "fp32":  # it is the one that steps
        return Placed()
    stale = setup.trained_count
    if setup.stage < 3 or setup.uses_zero_init is False:
        return Placed(gpu=amount(stale, setup.width))
    return Placed() if setup.uses_zero_init else Placed(gpu=amount(Band(0, stale, stale), setup.width))


def _where_the_optimizer_is(setup: TrainingSetup, states: Band, width: Band) -> Placed:
    """So many numbers of each element of a rank's share, where ``offload_optimizer`` puts them."""
    offload = setup.optimizer_offload
    if offload is None:
        return Placed(gpu=_numbers(share(setup), states, width))
    if setup.stage < 3:
        return Placed(host=_numbers(share(setup), states, width))
    groups = sub_groups(setup)
    stays = _numbers(sum(group.size for group in groups if not group.is_moved), states, width)
    moved = [group.size for group in groups if group.is_moved]
    if offload.device == "cpu":
        return Placed(stays, host=_numbers(sum(moved), states, width))
    swapped = [size for size in moved if size * FULL >= SWAPPED]
    written = sum(aligned(size, FULL) for size in swapped)
    return Placed(
        stays,
        host=_numbers(sum(moved) - sum(swapped), states, width),
        nvme=Amount(_numbers(sum(swapped), states, width).elements, _numbers(written, states, width).bytes),
    )


def _numbers(elements: int, states: Band, width: Band) -> Amount:
    counts = states.times(elements)
    return Amount(counts, Band(counts.least * width.least, counts.likely * width.likely, counts.most * width.most))
