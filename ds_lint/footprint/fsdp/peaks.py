"""The moments at which a GPU can hold most with FSDP, by phase of the run."""

from __future__ import annotations

from itertools import accumulate

from ds_lint.footprint.band import NOTHING, Band, exactly
from ds_lint.footprint.fsdp.passes import FsdpPasses
from ds_lint.footprint.fsdp.states import shard_ranks, sharded, widths
from ds_lint.footprint.placed import FULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.footprint.fsdp.passes import UnitPass
    from ds_lint.footprint.fsdp.states import ShardedUnit
    from ds_lint.footprint.placed import Placed
    from ds_lint.footprint.setup import TrainingSetup

    Parts = dict[str, Placed]
    Moment = dict[str, Band]

_STATES = ("parameters", "optimizer_states")
_AHEAD = 2  # units that a GPU may have gathered beside the one that is computed (``_FreeEventQueue``)
_NORMS_OF_A_LAYER = 2


def gathered(setup: TrainingSetup) -> Band:
    """The bytes of whole parameters in a pass: those that stay from its start to its end, and of the largest unit."""
    passes = FsdpPasses(setup)
    one, ahead = passes.largest, passes.largest if passes.is_sharded else 0.0
    likely = max(passes.forward(), passes.lasting + one)
    return Band(min(passes.lasting + one, likely), likely, likely + _AHEAD * ahead)


def with_autocast(setup: TrainingSetup, activations: Band) -> Band:
    """Activations under the autocast that Accelerate adds to FSDP 1 with mixed precision, and not to FSDP 2.

    It computes each LayerNorm in fp32, which keeps a copy of its input in fp32, and gives the script the logits in fp32
    (``convert_outputs_to_fp32``). Other norms compute in fp32 anyway, and keep what they always keep.
    """
    if setup.fsdp is not None and setup.fsdp.offloads_checkpoints:  # inputs of layers go to the host
        activations = activations._replace(least=0)
    is_on = setup.fsdp is not None and setup.fsdp.version == 1 and setup.fsdp.is_mixed
    if not is_on or setup.micro_batch is None or setup.sequence_length is None:
        return activations
    tokens = setup.micro_batch * setup.sequences * setup.sequence_length
    inputs = [one.size for one in setup.tensors if one.name.endswith(".bias") and _is_norm(one.name)]
    if setup.is_checkpointed:  # of one layer at a time
        inputs = inputs[:_NORMS_OF_A_LAYER]
    copies = tokens * sum(inputs)  # which stand for the inputs in 16 bit, where nothing else keeps these
    logits = setup.architecture.get("vocab_size")
    kept = tokens * (FULL - setup.width) * logits if isinstance(logits, int) else 0
    more = copies * (FULL - setup.width)
    return Band(activations.least, activations.likely + more, activations.most + copies * FULL + kept)


def _is_norm(name: str) -> bool:
    module = name.lower().split(".")[-2]
    return "norm" in module or module.startswith("ln")


def moments(setup: TrainingSetup, parts: Parts, activations: Band, in_layers: Band) -> dict[str, list[Moment]]:
    """What one GPU holds at the moments that can be the highest of each phase.

    ``in_layers`` are the activations that are left when the first gradient is there.
    """
    held = {name: parts[name].gpu.bytes for name in _STATES}
    steps = [_together(held, one) for one in _steps(setup, activations, in_layers)]
    return {
        "initialization": list(_begins(setup)),
        "step": [*steps, held | {"gradients": parts["gradients"].gpu.bytes.plus(_lists(setup, parts))}],
        "saving": [_together(held, {"live": _saves(setup)})],
    }


# ---------------------------------------------------------------------------------------------------- initialization


def _begins(setup: TrainingSetup) -> Iterator[Moment]:
    """Units go to the GPU one after the other, and each is cut there; those of the layers come first."""
    assert setup.fsdp is not None  # noqa: S101 - of a run with FSDP
    sharding, width, found = setup.fsdp, widths(setup), sharded(setup)
    order = sorted(found, key=lambda one: one.unit.is_around)
    is_first = sharding.version == 1
    if is_first:  # the parameters, the flat one that they are written into, and the share that is cut out of it
        shares = [(one.share.trained + one.share.frozen) * width.frozen.likely for one in order]
        whole = [2 * one.unit.size * width.frozen.likely + more for one, more in zip(order, shares, strict=True)]
    else:
        shares = [one.share.trained * width.trained.likely + one.share.frozen * width.frozen.likely for one in order]
        whole = [_as_kept(one, setup) for one in order]
    before = [0.0, *accumulate(0.0 if sharding.offloads else share for share in shares)]
    highest = most = max((held + more for held, more in zip(before, whole, strict=False)), default=0.0)
    if not is_first and sharding.loads_once:  # one parameter after the other comes from the rank that has them
        largest = setup.largest * width.trained.likely
        highest, most = before[-1] + largest, max(most, before[-1] + 2 * largest)
    spread = width.frozen.most / width.frozen.likely if is_first else 1.0
    yield {"parameters": Band(min(before[-1] / spread, highest), highest, most * spread)}
    if is_first and sharding.is_mixed and sharding.upcasts and not sharding.offloads:
        # Shares that are not fp32 yet stay until the first forward pass (``init_flat_param_attributes``).
        trained, frozen = (sum(getattr(one.share, kind) for one in order) for kind in ("trained", "frozen"))
        copies = trained * width.frozen.likely if width.frozen.likely < FULL else 0.0
        kept = trained * FULL + frozen * width.frozen.likely
        yield {"parameters": Band(kept if width.frozen.most >= FULL else kept + copies, kept + copies, kept + copies)}


def _as_kept(one: ShardedUnit, setup: TrainingSetup) -> float:
    """A whole unit in the dtypes that its shares keep."""
    width = widths(setup)
    return sum(
        tensor.size * (width.trained if tensor.is_trained else width.frozen).likely for tensor in one.unit.tensors
    )


# -------------------------------------------------------------------------------------------------------------- step


def _steps(setup: TrainingSetup, activations: Band, in_layers: Band) -> Iterator[Moment]:
    """The forward and the backward pass, beside the states."""
    passes = FsdpPasses(setup)
    ahead = _AHEAD * passes.largest if passes.is_sharded else 0.0
    computed = widths(setup).computed
    low, high = computed.least / computed.likely, computed.most / computed.likely

    def moment(live: Band, activations: Band, gradients: Band, reduced: Band = NOTHING) -> Moment:
        found = {"live": live, "gradients": gradients, "buckets": reduced}
        scaled = {name: Band(band.least * low, band.likely, band.most * high) for name, band in found.items()}
        return scaled | {"activations": activations}

    lasting, added_up = passes.lasting, exactly(passes.added_up)
    yield moment(Band(lasting, lasting, lasting + passes.largest), activations, added_up)
    forward = passes.forward()
    before = 1 - 1 / max(passes.count, 1)  # of the layers have run when the last one is gathered
    computed_before = Band(in_layers.least * before, in_layers.likely * before, in_layers.most)
    yield moment(Band(passes.largest, forward, forward + ahead), computed_before, added_up)
    ends = list(passes.backward())
    for begun in ends[:1]:
        yield moment(_ahead(begun, ahead), in_layers, exactly(begun.kept), Band(0, begun.reduced, begun.reduced))
    of_one = _computed_again(setup, in_layers)
    highest = sorted(ends, key=lambda end: sum(end[:4]) + end.left * (in_layers.likely - of_one))
    last = passes.end()
    for end in (*highest[-1:], last):
        again = of_one if end is not last else 0.0
        likely = end.left * (in_layers.likely - again) + again / 2  # gradients come in as activations are freed
        left = Band(end.left * in_layers.least, likely, in_layers.most if end is not last else 0)
        most = end.kept + end.whole + passes.largest
        gradients = Band(end.kept, end.kept + end.whole, most)
        yield moment(_ahead(end, ahead), left, gradients, Band(0, end.reduced, end.reduced + passes.largest))


def _computed_again(setup: TrainingSetup, in_layers: Band) -> float:
    """What one layer holds that is computed again, of the activations: all but the inputs of the layers."""
    hidden = setup.architecture.get("hidden_size")
    if not setup.is_checkpointed or setup.micro_batch is None or not isinstance(hidden, int):
        return 0.0
    tokens = setup.micro_batch * setup.sequences * (setup.sequence_length or 0)
    count = sum(not one.unit.is_around for one in sharded(setup))
    return max(in_layers.likely - tokens * hidden * setup.width * count, 0.0)


def _ahead(end: UnitPass, ahead: float) -> Band:
    return Band(end.live, end.live, end.live + ahead)


def _lists(setup: TrainingSetup, parts: Parts) -> Band:
    """What the step of torch's optimizers computes with: lists of tensors of the size of what it updates."""
    if setup.optimizer.endswith("_fused"):
        return NOTHING
    lists = parts["parameters"].gpu.bytes
    return Band(0, lists.likely, 2 * lists.most)


# ------------------------------------------------------------------------------------------------------------ saving


def _saves(setup: TrainingSetup) -> Band:
    """What is gathered for a whole checkpoint: unit by unit in the dtype that is kept, or parameter by parameter."""
    assert setup.fsdp is not None  # noqa: S101 - of a run with FSDP
    if not setup.fsdp.saves_whole or (setup.fsdp.version == 1 and shard_ranks(setup) == 1):
        return NOTHING
    width = widths(setup).trained
    if setup.fsdp.version == 2:
        return Band(0, setup.largest * width.likely, 2 * setup.largest * width.most)
    found = sharded(setup)
    around = sum(one.unit.size for one in found if one.unit.is_around)
    one = around + max((one.unit.size for one in found if not one.unit.is_around), default=0)
    return Band(0, one * width.likely, 2 * one * width.most)


def _together(one: Moment, other: Moment) -> Moment:
    """What is held together, kind by kind."""
    return {name: one.get(name, NOTHING).plus(other.get(name, NOTHING)) for name in one | other}
