"""What the forward and the backward pass of one micro batch hold on one rank, beside the model states.

``schemas/activations.json`` has, for each model type and way to train that was measured, the bytes that each layer adds
and the moments at which a step can hold the most (``tools/activations``). The peak is a sum of both. A model type
that was not measured gets the spread of those that were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.footprint.band import Band
from ds_lint.footprint.quantities import kind_of, quantities, sizes, text_part
from ds_lint.footprint.shared import Shared, of_rank
from ds_lint.knowledge import tables
from ds_lint.targets.releases import numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.knowledge.records import ActivationForm, ActivationVariant, JsonObject, MeasuredActivations

_SLACK = 0.04  # of a model type that was measured: tools/activations writes nothing that is further off
_TWO_STACKS = 0.25  # of a T5: batches of one sequence were up to 19% above what is likely, and 32 bit further
_OTHER_DROPOUT = 0.2  # if dropout is on where it was measured off, or off where on
_ANOTHER_TYPE = 0.3  # beyond the spread of the model types that were measured
_NORMS = ("rms_norm", "layer_norm", "layernorm")  # begin keys of config.json
_PLACES = {None: ("adapters", "adapters-everywhere"), False: ("adapters",), True: ("adapters-everywhere",)}
PLAIN, LIGER = "transformers", "liger"  # whose kernels compute the layers
_LOGITS = "token*vocabulary"
_OF_LOSS = (_LOGITS, "shifted*vocabulary", "chunk*vocabulary")  # the last is of Liger, which has some of them at once
_HEAD = "vocabulary*hidden"
_CUT: ActivationForm = {
    "token*hidden": 2,
    "token*one": 8,
}  # of a loss without logits: the gradient of its input, and two sums in fp32
# At the loss of Liger, in all model types that were measured; the last but one is the gradient of the head.
_FUSED: ActivationForm = {"token*hidden": 6, "token*one": 17, _HEAD: 2, "chunk*vocabulary": 2}
_FEWER = Band(0.5, 0.8, 1)  # of a type for which Liger has kernels that were not measured, as those of experts
# Some releases of Liger add each chunk's gradient of the head to their sum as a matrix in 16 bit, and in 32 bit
# (``grad_weight += torch.mm(...).float()`` in ops/fused_linear_cross_entropy.py); newer ones add in place.
_SUMMED = 6
_DROPPED = 3  # bytes: of each element that dropout has before an adapter, in 16 bit, with its mask


_MOST_REMEMBERED = 128
_remembered: dict[tuple[str, Pass, bool], Band | None] = {}  # advice and sweeps ask for the same again and again


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
    kernels: str | None = None  # of the layers: those of transformers or of liger
    loss: str | None = None  # logits: of all tokens at once; fused: in chunks, by Liger; cut: never in memory
    is_packed: bool | None = None  # sequences of a batch have one length, so that none is padded
    sums_head_gradients: bool = False  # as some releases of Liger do
    transformers: str | None = None  # the release; None is the newest
    shared: Shared = Shared()  # among ranks


def activations(architecture: JsonObject, computed: Pass, *, are_logits_freed: bool = False) -> Band | None:
    """The most bytes that a step holds at once, by the ``config.json`` of the model; None if its sizes are not known.

    The most includes 16-bit logits that a training script keeps. Of a model of several modalities, these are the
    activations of its text part. With ``are_logits_freed``, what the layers hold when the first gradient is there.
    """
    key = repr(architecture), computed, are_logits_freed
    if key not in _remembered:
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[key] = _activations(architecture, computed, are_logits_freed=are_logits_freed)
    return _remembered[key]


def _activations(architecture: JsonObject, computed: Pass, *, are_logits_freed: bool) -> Band | None:
    config = text_part(architecture)
    are_logits_freed = are_logits_freed or not computed.shared.has_head
    store = tables.load("activations")["models"]
    measured = store.get(str(config.get("model_type")))
    if measured is not None:
        return _band_of(measured, config, computed, are_logits_freed=are_logits_freed)
    known = sizes(config, {})
    if known is None:
        return None
    kin = [one | {"dropouts": {}} for one in store.values() if _is_kin(one, config, known)]
    if computed.attention not in (None, "eager"):  # which a class that has none of its kind refuses
        kin = [one for one in kin if one["attention"] != "eager"] or kin
    found = [_band_of(one, config, computed, are_logits_freed=are_logits_freed) for one in kin]
    bands = [band for band in found if band is not None]
    if not bands:
        return None
    return Band(
        min(band.least for band in bands) * (1 - _ANOTHER_TYPE),
        _median(band.likely for band in bands),
        max(band.most for band in bands) * (1 + _ANOTHER_TYPE),
    )


def _median(values: Iterable[float]) -> float:
    """The middle of values; the module ``statistics`` takes long to import."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _is_kin(measured: MeasuredActivations, config: JsonObject, known: Iterable[str]) -> bool:
    """Whether a measured type is built like the model: its stacks, its experts, and its norm as far as that shows.

    Nearly all types whose norm is the root mean square have a gate and rotary positions, too, as a Llama has.
    """
    has_rms_norm = next((norm == "rms_norm" for norm in _NORMS if any(key.startswith(norm) for key in config)), None)
    if has_rms_norm is not None and measured["has_rms_norm"] is not has_rms_norm:
        return False
    return kind_of(measured["defaults"]) == kind_of((*known, *config))


class _Way(NamedTuple):
    """One answer to every question that is open."""

    attention: str
    is_checkpointed: bool
    kernels: str
    loss: str


def _band_of(
    measured: MeasuredActivations, config: JsonObject, computed: Pass, *, are_logits_freed: bool
) -> Band | None:
    """The band of one model type over all ways to compute that are possible."""
    known = sizes(config, measured["defaults"])
    if known is None or not _are_adapters_known(measured, computed.adapters):
        return None
    rank = computed.adapters.rank if computed.adapters else 0
    counted = quantities(known, computed.micro_batch, computed.sequence_length, rank)
    counted = of_rank(counted, computed.shared, known["key_value_heads"])
    layers = (known["layers"], known.get("decoder_layers", known["layers"]))
    if computed.shared.layers is not None:
        layers = (computed.shared.layers, 0)
    model = _Model(measured, counted, layers, computed, are_logits_freed=are_logits_freed)
    likely_way, ways = _ways(measured, computed)
    bands = [model.band(way) for way in ways]
    likely = model.band(likely_way).likely
    slack = _TWO_STACKS if "decoder_layers" in known else _SLACK
    slack += _OTHER_DROPOUT if _has_other_dropout(measured, config) else 0
    return Band(min(band.least for band in bands) * (1 - slack), likely, max(band.most for band in bands) * (1 + slack))


def _ways(measured: MeasuredActivations, computed: Pass) -> tuple[_Way, list[_Way]]:
    """The likely way to compute, and all that are possible."""
    checks = [computed.is_checkpointed] if computed.is_checkpointed is not None else [False, True]
    every = [
        _Way(attention, check, kernels, loss)
        for attention in _attentions(measured, computed)
        for check in checks
        for kernels, loss in _kernels(measured, computed)
    ]
    return every[0], every


def _kernels(measured: MeasuredActivations, computed: Pass) -> list[tuple[str, str]]:
    """The kernels of the layers and of the loss that are possible, the likely ones first."""
    has_liger = measured.get("has_liger", False)
    if has_liger and computed.kernels is None and computed.loss is None:
        return [(PLAIN, "logits"), (LIGER, "fused"), (LIGER, "cut")]  # any other is between these
    layers = [computed.kernels] if computed.kernels is not None else [PLAIN, LIGER]
    if not has_liger:  # which leaves the classes that it does not know as they are
        layers = [PLAIN]
    found = []
    for kernels in layers:
        usual = "fused" if kernels == LIGER else "logits"
        losses = [computed.loss] if computed.loss is not None else [usual, "cut"]
        found += [(kernels, "logits" if loss == "fused" and not has_liger else loss) for loss in losses]
    return found


def _attentions(measured: MeasuredActivations, computed: Pass) -> list[str]:
    """The kinds of attention that are possible, the likely one first.

    Sequences of one batch that differ in length need a mask, with which transformers repeats keys and values. Flash
    attention gets them without what is padded instead, one after the other.
    """
    if measured["attention"] == "eager" or computed.attention == "eager":
        return ["eager"]
    needs_mask = computed.micro_batch > 1 and not computed.is_packed
    if computed.attention == "flash_attention_2":
        return ["flash-unpadded", "flash"] if needs_mask else ["flash", "flash-unpadded"]
    fused = ["sdpa-mask", "sdpa"] if needs_mask else ["sdpa", "sdpa-mask"]
    return fused if computed.attention == "sdpa" else [*fused, "eager"]


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
    """The measured variants of a model type at the sizes of one model and one batch, computed in one dtype."""

    def __init__(
        self,
        measured: MeasuredActivations,
        counted: dict[str, int],
        layers: tuple[int, int],
        computed: Pass,
        *,
        are_logits_freed: bool,
    ) -> None:
        self._variants = variants(measured, computed.transformers)
        self._usual = measured["attention"]
        self._counted = counted
        self._layers = layers
        self._computed = computed
        self._are_logits_freed = are_logits_freed
        self._sums: dict[str, float] = {}  # of all layers, by the names of variants
        self._moments: dict[tuple[str, str], list[float]] = {}

    def band(self, way: _Way) -> Band:
        """What a way to compute holds; the most includes what not every release or script holds beside it."""
        if way.kernels == LIGER and _variant(way._replace(attention=self._usual)) not in self._variants:
            plain = self.band(way._replace(kernels=PLAIN))
            return Band(*(bound * part for bound, part in zip(plain, _FEWER, strict=True)))
        adapters, dtype = self._computed.adapters, self._computed.dtype
        if adapters is not None:
            found = self._with_adapters(way, adapters)
        elif dtype == "fp32":
            found = self._in_fp32(way)
        else:
            full = self._full(way)
            found = Band(full, full, full)
        if way.attention == "flash-unpadded":
            found = found.plus(self._unpadded(way))
        width = 4 if dtype == "fp32" else 2
        if way.loss == "logits" and self._computed.shared.has_head:  # a script may keep them
            found = found._replace(most=found.most + width * self._counted[_LOGITS])
        sums_gradients = way.loss == "fused" and adapters is None and self._computed.sums_head_gradients
        if sums_gradients and not self._are_logits_freed:
            at_the_loss = self._at_the_loss(way) + _SUMMED * self._counted[_HEAD]
            found = found._replace(most=max(found.most, at_the_loss))
        return found

    def _unpadded(self, way: _Way) -> Band:
        """Flash attention without what is padded: its output once more, padded, and its inputs for a moment.

        Source: ``_upad_input`` and ``pad_input`` in transformers/modeling_flash_attention_utils.py.
        """
        query, key = (2 * self._counted[name] for name in ("token*query", "token*key"))
        kept = query * (1 if way.is_checkpointed else max(self._layers))
        return Band(0, kept, kept + query + 2 * key)

    def _full(self, way: _Way) -> float:
        """What training of all weights in 16 bit holds."""
        found = self._peak(way)
        if found is None:  # a class that takes no mask, say, or kernels that were not measured with this attention
            found = usual = self._peak(way._replace(attention=self._usual))
            plain, other = (
                self._peak(_Way(kind, way.is_checkpointed, PLAIN, way.loss)) for kind in (self._usual, way.attention)
            )
            if usual is not None and plain is not None and other is not None:
                found = usual + other - plain
        return found if found is not None else max(self._all_peaks(is_checkpointed=way.is_checkpointed))

    def _in_fp32(self, way: _Way) -> Band:
        """In 32 bit, tensors are twice as large as in 16 bit, and copies in 32 bit are not made."""
        full = self._full(way)
        alike = _Way(self._usual, way.is_checkpointed, PLAIN, way.loss)
        usual = self._peak(alike, "fp32")
        if usual is None:
            return Band(full, 1.6 * full, 2 * full)
        more = full - self._full(alike)
        bounds = sorted((more, 2 * more))
        least = max(full, usual + bounds[0])
        return Band(least, max(least, usual + 1.5 * more), max(least, usual + bounds[1]))

    def _with_adapters(self, way: _Way, adapters: AdaptedLayers) -> Band:
        """Weights that are frozen keep no input; the kind of attention makes the difference that it always makes."""
        usual = way._replace(attention=self._usual)
        more = self._full(way) - self._full(usual)
        found = []
        for name in _PLACES[adapters.is_everywhere]:
            base = self._peak(usual, name)
            if base is None:  # Liger's kernels without a figure of adapters
                plain = _Way(self._usual, way.is_checkpointed, PLAIN, way.loss)
                base = (self._peak(plain, name) or 0) + min(0, self._full(usual) - self._full(plain))
            low = base + more
            high = low + self._dropped(way, is_everywhere=name == "adapters-everywhere")
            found.append((high if adapters.has_dropout else low, low if adapters.has_dropout is False else high))
        least, most = min(low for low, _ in found), max(high for _, high in found)
        likely = min(high for _, high in found) if adapters.has_dropout else found[0][0]
        return Band(least, 1.6 * likely, 2 * most) if self._computed.dtype == "fp32" else Band(least, likely, most)

    def _dropped(self, way: _Way, *, is_everywhere: bool) -> float:
        """What dropout before the adapters keeps: its output and a mask, for each layer that has an adapter."""
        hidden, query = self._counted["token*hidden"], self._counted["token*query"]
        inputs = 2 * hidden  # of the projections of queries and values, which peft chooses mostly
        if is_everywhere:
            inputs = 5 * hidden + query + self._counted["token*intermediate"]
        return _DROPPED * inputs * (1 if way.is_checkpointed else max(self._layers))

    def _all_peaks(self, *, is_checkpointed: bool) -> Iterator[float]:
        for name in self._variants:
            if ("checkpointed" in name) is is_checkpointed:
                yield self._held(name) + max(map(self._bytes, self._peaks(name)))

    def _peak(self, way: _Way, *words: str) -> float | None:
        """The most that a variant holds at once: every layer, and the highest moment; None if it was not measured."""
        name = _variant(way, *words)
        if name not in self._variants:
            return None
        moments = self._at_moments(name, "layers")
        if not self._are_logits_freed:
            moments = [*moments, *self._of_loss(way, *words)]
        return self._held(name) + max(moments, default=0)

    def _at_the_loss(self, way: _Way) -> float:
        """What a way holds while the loss is computed."""
        name = _variant(way)
        if name not in self._variants:
            name = _variant(way._replace(attention=self._usual))
        return self._held(name) + max(self._of_loss(way), default=0)

    def _of_loss(self, way: _Way, *words: str) -> list[float]:
        """The bytes at the moments at which the loss is computed, the same whatever kernels the layers have."""
        kernels = LIGER if way.loss == "fused" else PLAIN
        name = _variant(way._replace(kernels=kernels), *words)
        if name not in self._variants:
            name = _variant(way._replace(kernels=kernels, attention=self._usual), *words)
        found = self._at_moments(name, "cut" if way.loss == "cut" else "loss") if name in self._variants else []
        if way.loss == "fused" and not found:
            is_trained = self._computed.adapters is None
            found = [self._bytes({one: _FUSED[one] for one in _FUSED if is_trained or one != _HEAD})]
        return found

    def _at_moments(self, name: str, of: str) -> list[float]:
        """The bytes at the moments of a variant in the layers, at the loss, or there without the logits."""
        if (name, of) not in self._moments:
            forms = [form for form in self._peaks(name) if _is_of_loss(form) is (of != "layers")]
            if of == "cut":
                forms = [{one: number for one, number in form.items() if one not in _OF_LOSS} for form in forms]
            more = self._bytes(_CUT) if of == "cut" else 0
            self._moments[name, of] = [self._bytes(form) + more for form in forms]
        return self._moments[name, of]

    def _peaks(self, name: str) -> list[ActivationForm]:
        return self._variants[name]["peaks"]

    def _held(self, name: str) -> float:
        """What all layers of a variant hold."""
        if name not in self._sums:
            stacks = zip(self._layers, self._variants[name]["layers"], strict=False)
            self._sums[name] = sum(count * self._bytes(layer) for count, layer in stacks)
        return self._sums[name]

    def _bytes(self, form: ActivationForm) -> float:
        return sum(number * self._counted[name] for name, number in form.items())


def _variant(way: _Way, *words: str) -> str:
    """The name in the store of a way to compute."""
    attention = "sdpa" if way.attention.startswith("flash") else way.attention  # which keep the same
    return _named(attention, way.is_checkpointed, *words, *([LIGER] if way.kernels == LIGER else []))


def _is_of_loss(form: ActivationForm) -> bool:
    """Whether a moment is one at which there are logits, all or some of them."""
    return any(name in form for name in _OF_LOSS)


def variants(measured: MeasuredActivations, release: str | None) -> dict[str, ActivationVariant]:
    """The variants of a model type as a release of transformers computes them; of the newest one if None."""
    found = measured["variants"]
    at = numbers_of(release) if release is not None else None
    if at is None:
        return found
    for older in measured.get("older", ()):  # the newest first
        if at < (numbers_of(older["before"]) or ()):
            found = found | older["variants"]
    return found
