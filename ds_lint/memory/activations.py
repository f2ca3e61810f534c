"""What the forward and the backward pass of one micro batch hold on one rank, beside the model states.

``schemas/activations.json`` has, for each model type and way to train that was measured, the bytes that each layer adds
and the moments at which a step can hold the most (``tools/activations``). The peak is a sum of both. A model type
that was not measured gets the spread of those that were.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge import tables
from ds_lint.memory.band import Band
from ds_lint.memory.quantities import kind_of, quantities, sizes, text_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.knowledge.records import ActivationForm, JsonObject, MeasuredActivations

_SLACK = 0.04  # of a model type that was measured: tools/activations writes nothing that is further off
_TWO_STACKS = 0.25  # of a T5: batches of one sequence were up to 19% above what is likely, and 32 bit further
_OTHER_DROPOUT = 0.2  # if dropout is on where it was measured off, or off where on
_ANOTHER_TYPE = 0.3  # beyond the spread of the model types that were measured
_PLACES = {None: ("adapters", "adapters-everywhere"), False: ("adapters",), True: ("adapters-everywhere",)}
_LOGITS = "token*vocabulary"
_DROPPED = 3  # bytes: of each element that dropout has before an adapter, in 16 bit, with its mask


class AdaptedLayers(NamedTuple):
    """LoRA adapters on a frozen model.

    ``is_everywhere`` is whether every linear layer has one, and not only those that peft chooses; None if unknown.
    """

    rank: int
    is_everywhere: bool | None = None
    has_dropout: bool | None = None


class Pass(NamedTuple):
    """How a micro batch is computed; what is None is not known, and the band covers every answer."""

    micro_batch: int
    sequence_length: int  # of source and target each, in a model with an encoder and a decoder
    dtype: str = "bf16"  # bf16, fp16 or fp32
    is_checkpointed: bool | None = None
    attention: str | None = None  # eager, sdpa or flash_attention_2
    adapters: AdaptedLayers | None = None


def activations(architecture: JsonObject, computed: Pass, *, are_logits_freed: bool = False) -> Band | None:
    """The most bytes that a step holds at once, by the ``config.json`` of the model; None if its sizes are not known.

    The most includes 16-bit logits that a training script keeps. Of a model of several modalities, these are the
    activations of its text part. With ``are_logits_freed``, what the layers hold when the first gradient is there.
    """
    config = text_part(architecture)
    store = _without_logits() if are_logits_freed else tables.load("activations")["models"]
    measured = store.get(str(config.get("model_type")))
    if measured is not None:
        return _band_of(measured, config, computed)
    known = sizes(config, {})
    if known is None:
        return None
    kin = [one for one in store.values() if kind_of(one["defaults"]) == kind_of((*known, *config))]
    bands = [band for one in kin if (band := _band_of(one | {"dropouts": {}}, config, computed)) is not None]
    if not bands:
        return None
    return Band(
        min(band.least for band in bands) * (1 - _ANOTHER_TYPE),
        _median(band.likely for band in bands),
        max(band.most for band in bands) * (1 + _ANOTHER_TYPE),
    )


@cache
def _without_logits() -> dict[str, MeasuredActivations]:
    """The measured models without the moments at which the logits and what the loss makes of them are there."""
    return {
        name: one
        | {
            "variants": {
                kind: variant | {"peaks": [form for form in variant["peaks"] if _LOGITS not in form] or [{}]}
                for kind, variant in one["variants"].items()
            }
        }
        for name, one in tables.load("activations")["models"].items()
    }


def _median(values: Iterable[float]) -> float:
    """The middle of values; the module ``statistics`` takes long to import."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


class _Way(NamedTuple):
    """One answer to every question that is open."""

    attention: str
    is_checkpointed: bool


def _band_of(measured: MeasuredActivations, config: JsonObject, computed: Pass) -> Band | None:
    """The band of one model type over all ways to compute that are possible."""
    known = sizes(config, measured["defaults"])
    if known is None or not _are_adapters_known(measured, computed.adapters):
        return None
    rank = computed.adapters.rank if computed.adapters else 0
    counted = quantities(known, computed.micro_batch, computed.sequence_length, rank)
    model = _Model(measured, counted, (known["layers"], known.get("decoder_layers", known["layers"])))
    likely_way, ways = _ways(measured, computed)
    bands = [model.band(way, computed) for way in ways]
    likely = model.band(likely_way, computed).likely
    slack = _TWO_STACKS if "decoder_layers" in known else _SLACK
    slack += _OTHER_DROPOUT if _has_other_dropout(measured, config) else 0
    width = 4 if computed.dtype == "fp32" else 2
    most = max(band.most for band in bands) + width * counted[_LOGITS]
    return Band(min(band.least for band in bands) * (1 - slack), likely, most * (1 + slack))


def _ways(measured: MeasuredActivations, computed: Pass) -> tuple[_Way, list[_Way]]:
    """The likely way to compute, and all that are possible."""
    attention, *others = _attentions(measured, computed)
    checks = [computed.is_checkpointed] if computed.is_checkpointed is not None else [False, True]
    return _Way(attention, checks[0]), [_Way(kind, check) for kind in (attention, *others) for check in checks]


def _attentions(measured: MeasuredActivations, computed: Pass) -> list[str]:
    """The kinds of attention that are possible, the likely one first.

    Sequences of one batch that differ in length need a mask, with which transformers repeats keys and values. What
    flash attention keeps is what the fused kernels of torch keep (not measured: there was no GPU).
    """
    if measured["attention"] == "eager":
        return ["eager"]
    fused = ["sdpa-mask", "sdpa"] if computed.micro_batch > 1 else ["sdpa", "sdpa-mask"]
    if computed.attention == "eager":
        return ["eager"]
    if computed.attention is None:
        return [*fused, "eager"]
    return fused if computed.attention == "sdpa" else ["sdpa", "sdpa-mask"]


def _has_other_dropout(measured: MeasuredActivations, config: JsonObject) -> bool:
    """Whether the config switches a dropout on or off that was measured otherwise."""
    return any(key in config and bool(config[key]) is not is_on for key, is_on in measured["dropouts"].items())


def _named(attention: str, is_checkpointed: bool, *words: str) -> str:
    """The name of a variant in the store."""
    return " ".join((attention, *(["checkpointed"] if is_checkpointed else []), *words))


def _are_adapters_known(measured: MeasuredActivations, adapters: AdaptedLayers | None) -> bool:
    """Whether adapters in these places were measured; those on experts, say, are not."""
    usual = measured["attention"]
    return adapters is None or all(
        _named(usual, check, place) in measured["variants"]
        for place in _PLACES[adapters.is_everywhere]
        for check in (False, True)
    )


class _Model:
    """The measured variants of a model type at the sizes of one model and one batch."""

    def __init__(self, measured: MeasuredActivations, counted: dict[str, int], layers: tuple[int, int]) -> None:
        self._variants = measured["variants"]
        self._usual = measured["attention"]
        self._counted = counted
        self._layers = layers

    def band(self, way: _Way, computed: Pass) -> Band:
        """What a way to compute holds."""
        full = self._full(way)
        if computed.adapters is not None:
            return self._with_adapters(way, computed.adapters, computed.dtype)
        return self._in_fp32(way) if computed.dtype == "fp32" else Band(full, full, full)

    def _full(self, way: _Way) -> float:
        found = self._peak(way.attention, way.is_checkpointed)
        if found is None:  # a class that takes no mask, say
            found = self._peak(self._usual, way.is_checkpointed)
        return found if found is not None else max(self._all_peaks(way.is_checkpointed))

    def _in_fp32(self, way: _Way) -> Band:
        """In 32 bit, tensors are twice as large as in 16 bit, and copies in 32 bit are not made."""
        full = self._full(way)
        usual = self._peak(self._usual, way.is_checkpointed, "fp32")
        if usual is None:
            return Band(full, 1.6 * full, 2 * full)
        more = full - self._full(_Way(self._usual, way.is_checkpointed))
        bounds = sorted((more, 2 * more))
        return Band(usual + bounds[0], usual + 1.5 * more, usual + bounds[1])

    def _with_adapters(self, way: _Way, adapters: AdaptedLayers, dtype: str) -> Band:
        """Weights that are frozen keep no input; the kind of attention makes the difference that it always makes."""
        more = self._full(way) - self._full(_Way(self._usual, way.is_checkpointed))
        found = []
        for name in _PLACES[adapters.is_everywhere]:
            low = self._of(_named(self._usual, way.is_checkpointed, name)) + more
            high = low + self._dropped(way, is_everywhere=name == "adapters-everywhere")
            found.append((high if adapters.has_dropout else low, low if adapters.has_dropout is False else high))
        least, most = min(low for low, _ in found), max(high for _, high in found)
        likely = min(high for _, high in found) if adapters.has_dropout else found[0][0]
        return Band(least, 1.6 * likely, 2 * most) if dtype == "fp32" else Band(least, likely, most)

    def _dropped(self, way: _Way, *, is_everywhere: bool) -> float:
        """What dropout before the adapters keeps: its output and a mask, for each layer that has an adapter."""
        hidden, query = self._counted["token*hidden"], self._counted["token*query"]
        inputs = 2 * hidden  # of the projections of queries and values, which peft chooses mostly
        if is_everywhere:
            inputs = 5 * hidden + query + self._counted["token*intermediate"]
        return _DROPPED * inputs * (1 if way.is_checkpointed else max(self._layers))

    def _all_peaks(self, is_checkpointed: bool) -> Iterator[float]:
        for name in self._variants:
            if ("checkpointed" in name) is is_checkpointed:
                yield self._of(name)

    def _peak(self, attention: str, is_checkpointed: bool, *words: str) -> float | None:
        name = _named(attention, is_checkpointed, *words)
        return self._of(name) if name in self._variants else None

    def _of(self, name: str) -> float:
        """The most that a variant holds at once: every layer, and the highest moment."""
        variant = self._variants[name]
        stacks = zip(self._layers, variant["layers"], strict=False)
        return max(map(self._bytes, variant["peaks"])) + sum(count * self._bytes(layer) for count, layer in stacks)

    def _bytes(self, form: ActivationForm) -> float:
        return sum(number * self._counted[name] for name, number in form.items())
