"""What quantized weights take of a rank beside their partitions, and what a step unpacks of them.

Measured with bitsandbytes 0.50.2 in engines of DeepSpeed 0.19.8 (``tests/fidelity/test_quantized_states.py``): stage 3
partitions packed weights as any others, but their scales stay whole on each rank, and of 8 bit the weights do, too,
because ``MatmulLtState.CB`` holds them.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint.band import NOTHING, Band, exactly, total
from ds_lint.footprint.partition import persistent
from ds_lint.footprint.placed import FULL, Amount
from ds_lint.footprint.remembered import by_tensors
from ds_lint.frameworks.record import BITSANDBYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.setup import TrainingSetup
    from ds_lint.frameworks.record import PackedWeights
    from ds_lint.semantics.config import Config

_INT8 = 8  # bits
_HALF = 2  # bytes
_MATRIX = 2  # dimensions
_OTHER_INPUTS = 0.3  # of layers of models that have their inputs in another way


def why_not(config: Config, setup: TrainingSetup) -> str | None:
    """Why a run with quantized weights fails before it trains, in words; None if it may train."""
    weights = setup.weights
    if weights is None:
        return None
    if setup.stage == 3 and not config.knowledge.stack_does("quantized-models-are-not-partitioned"):
        release = config.knowledge.target["transformers"]
        return f"{weights.source} quantizes the weights, which transformers {release} cannot load at stage 3"
    is_cast = weights.method == BITSANDBYTES and weights.storage == "float32" and setup.dtype != "fp32"
    if is_cast and weights.bits != _INT8:
        return f"the packed weights of {weights.source} are float32, and the engine casts them to {setup.dtype}"
    return None


def not_included(setup: TrainingSetup) -> str | None:
    """What is not counted of quantized weights, in words; None if all is."""
    weights = setup.weights
    if weights is None or _is_known(setup) or _beside(setup.tensors).most:
        return None
    return f"the weights, which are quantized by {weights.method} ({weights.source})"


def in_words(weights: PackedWeights) -> str:
    """How weights are quantized, for people."""
    if weights.method != BITSANDBYTES:
        return f"quantized by {weights.method}"
    double = ", double quantization" if weights.is_nested else ""
    return f"the weights of linear layers in {weights.bits} bit{double} ({weights.source})"


def stored(setup: TrainingSetup, sizes: Iterable[tuple[Tensor, int]]) -> Amount:
    """So many elements of each of these parameters, each with the bytes of the tensor that holds it."""
    elements = held = 0
    for tensor, size in sizes:
        elements += size
        held += size * width(setup, tensor)
    return Amount(exactly(elements), exactly(held))


def doubted(setup: TrainingSetup, held: Amount) -> Amount:
    """What parameters that are not trained take, if the script may pack them, in 4 bit at the least."""
    if not setup.may_be_quantized:
        return held
    return held._replace(bytes=held.bytes._replace(least=held.bytes.least / (2 * _HALF)))


def width(setup: TrainingSetup, tensor: Tensor) -> int:
    """The bytes of an element of the tensor that holds a parameter."""
    return setup.width if tensor.packed is None else tensor.packed.width


def whole(setup: TrainingSetup) -> Amount:
    """All parameters of the model, with what lies beside them."""
    found = _sizes(setup)
    held = Amount(exactly(found.elements), exactly(found.plain * setup.width + found.packed))
    return held.plus(Amount(bytes=_beside(setup.tensors)))


def largest(setup: TrainingSetup) -> int:
    """The bytes of the largest parameter."""
    found = _sizes(setup)
    return max(found.largest_plain * setup.width, found.largest_packed)


class _Sizes(NamedTuple):
    """The elements of all parameters; those that are not packed, and the bytes of the others."""

    elements: int
    plain: int
    packed: int
    largest_plain: int
    largest_packed: int


@by_tensors
def _sizes(setup: TrainingSetup) -> _Sizes:
    plain = [one.size for one in setup.tensors if one.packed is None]
    packed = [one.size * one.packed.width for one in setup.tensors if one.packed is not None]
    elements = sum(one.size for one in setup.tensors)
    return _Sizes(elements, sum(plain), sum(packed), max(plain, default=0), max(packed, default=0))


def beside(setup: TrainingSetup) -> Amount:
    """What a rank has of quantized weights whatever is partitioned and offloaded: scales, and the weights of 8 bit."""
    found = _beside(setup.tensors)
    if setup.stage == 3 and not _is_known(setup):  # of another method: whether DeepSpeed partitions them is not known
        found = found._replace(least=found.least / setup.shards)
    kept = 0
    if _keeps_whole(setup):  # of those that are persistent, it is the same tensor
        kept = sum(
            tensor.size
            for tensor, stays in zip(setup.tensors, persistent(setup), strict=True)
            if tensor.packed is not None and not stays
        )
    return Amount(exactly(kept), found.plus(exactly(kept)))


def unpacked(setup: TrainingSetup) -> Band:
    """The weight that a layer computes with for a moment: the largest of those that are packed.

    4 bit are unpacked to the dtype that the model was loaded in, and once more to that in which is computed
    (``MatMul4Bit.backward``); 8 bit to that of the activations (``MatMul8bitLt.backward``).
    """
    weights = (one.packed for one in setup.tensors if one.packed is not None and one.packed.width)
    largest = max((-(-one.elements // one.parts) for one in weights), default=0)
    if not largest or setup.weights is None:
        return NOTHING
    copied = Band(0, 0, FULL)
    if setup.weights.bits == _INT8 or setup.weights.computes_in_full is False:
        copied = NOTHING
    elif setup.weights.computes_in_full:
        copied = exactly(FULL)
    found = Band(_HALF, setup.width, setup.width).plus(copied).times(largest)
    if setup.micro_batch is None or setup.sequence_length is None:
        return found
    tokens = setup.micro_batch * setup.sequences * setup.sequence_length
    around = max(sum(one.shape[-2:]) for one in setup.tensors if one.packed is not None and one.packed.width)
    return found.plus(copied.times(tokens * around))  # the input and the output of the layer, in fp32


def kept_inputs(setup: TrainingSetup) -> Band:
    """What layers of 8 bit keep although activations are computed again: their inputs, until the backward pass.

    ``MatMul8bitLt`` has them in an attribute of its context, where only reentrant recomputation lets them go. The
    projections of queries, keys and values have one input, and so have gate and up.
    """
    if not _is_int8(setup) or setup.is_checkpointed is not True or not setup.micro_batch or not setup.sequence_length:
        return NOTHING
    tokens = setup.micro_batch * setup.sequences * setup.sequence_length
    widths: dict[str, dict[int, int]] = {}  # of the inputs by the module around the layers, and how often there
    last: dict[str, int] = {}
    for tensor in setup.tensors:
        if tensor.packed is not None and len(tensor.shape) == _MATRIX:
            around = tensor.name.rpartition(".")[0].rpartition(".")[0]
            widths.setdefault(around, {}).setdefault(tensor.shape[-1], 0)
            widths[around][tensor.shape[-1]] += 1
            last[around] = tensor.shape[-1]
    layers = {around: _layers(setup, around) for around in widths}
    kept = sum(layers[around] * (sum(sizes) + _of_output(around, sizes, last)) for around, sizes in widths.items())
    held = float(kept * tokens * setup.width)
    return Band(0, 0 if setup.is_reentrant else held, held * (1 + _OTHER_INPUTS))


def _layers(setup: TrainingSetup, around: str) -> int:
    """The modules of a name, of which only the kind may be known."""
    first = next(one.name for one in setup.tensors if one.packed is not None and one.name.startswith(f"{around}."))
    return sum(1 for one in setup.tensors if one.name == first)


def _of_output(around: str, sizes: dict[int, int], last: dict[str, int]) -> int:
    """The input of the output projection of attention, which is another tensor than one as wide."""
    return last[around] if "att" in around.lower() and sizes[last[around]] > 1 else 0


def computes(weight: Band, activations: Band, in_layers: Band) -> dict[str, Band]:
    """What the weight of a layer adds to the passes, which is not there while the loss is computed."""
    within = in_layers.plus(weight)
    least, likely = max(0, within.least - activations.least), max(0, within.likely - activations.likely)
    return {"unpacked": Band(least, likely, weight.most)}


def loads(setup: TrainingSetup) -> list[dict[str, Band]]:
    """The moments at which a quantized model is loaded to the GPU; none of a model that is not.

    transformers packs one weight after the other there. ``prepare_model_for_kbit_training`` of peft then casts what is
    not packed to fp32, until the engine casts it back.
    """
    if setup.weights is None:
        return []
    held, count = (
        whole(setup).bytes,
        sum(one.size for one in setup.tensors if one.packed is None and not one.is_trained),
    )
    cast = Band(0, 0, (FULL - setup.width) * count if _is_known(setup) else 0)
    return [{"parameters": held.plus(Band(0, 0, max(unpacked(setup).most, cast.most)))}]


def _beside(tensors: Iterable[Tensor]) -> Band:
    return total([Band(*one.packed.beside) for one in tensors if one.packed is not None])


def _is_known(setup: TrainingSetup) -> bool:
    return setup.weights is None or setup.weights.method == BITSANDBYTES


def _is_int8(setup: TrainingSetup) -> bool:
    return setup.weights is not None and setup.weights.bits == _INT8


def _keeps_whole(setup: TrainingSetup) -> bool:
    return setup.stage == 3 and _is_int8(setup)
