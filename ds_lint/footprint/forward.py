"""What a pass without autograd holds on one rank beside the parameters, and the cache that generation keeps.

``schemas/forward_activations.json`` has, for each model type, what each layer adds and the moments at which a pass
holds the most: of an evaluation, which has the logits of all tokens, of a prompt, and of one more token behind a cache
(``tools/activations/forward.py``). A model type that was not measured gets the spread of those that were.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint.band import Band, exactly
from ds_lint.footprint.quantities import kind_of, quantities, sizes, text_part
from ds_lint.knowledge import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from ds_lint.knowledge.records import ActivationForm, ActivationVariant, JsonObject, MeasuredForward

    PassKind = Literal["evaluation", "prompt", "token"]

_SLACK = 0.04  # of a model type that was measured, as for a training step
_TWO_STACKS = 0.25
_ANOTHER_TYPE = 0.3  # beyond the spread of the model types that were measured
_SLIDING = ("sliding_attention", "chunked_attention")  # of ``layer_types``
_VOCABULARY = "token*vocabulary"


class ForwardPass(NamedTuple):
    """A pass without autograd; what is None is not known, and the band covers every answer.

    ``sequences`` are those that are computed at once, each with ``tokens``: those of a prompt, or those in the cache.
    """

    kind: PassKind
    sequences: int
    tokens: int
    dtype: str = "bf16"
    attention: str | None = None  # eager, sdpa or flash_attention_2
    has_logits: bool = True


def activations(architecture: JsonObject, computed: ForwardPass) -> Band | None:
    """The most bytes that a pass holds at once, its cache included; None if the sizes of the model are not known."""
    config = text_part(architecture)
    store = tables.load("forward_activations")["models"]
    measured = store.get(str(config.get("model_type")))
    if measured is not None and (found := _band_of(measured, config, computed)) is not None:
        return found
    known = sizes(config, {})
    if known is None:
        return None
    kin = [one for one in store.values() if kind_of(one["defaults"]) == kind_of((*known, *config))]
    bands = [band for one in kin if (band := _band_of(one, config, computed)) is not None]
    if not bands:
        return None
    likely = sorted(band.likely for band in bands)[len(bands) // 2]
    least, most = min(band.least for band in bands), max(band.most for band in bands)
    return Band(least * (1 - _ANOTHER_TYPE), likely, most * (1 + _ANOTHER_TYPE))


def cache(architecture: JsonObject, sequences: int, tokens: int, dtype: str) -> Band | None:
    """The bytes of the keys and values that are kept of so many tokens of each sequence; None if they are not known.

    Layers with a window keep its tokens alone, as ``DynamicSlidingWindowLayer`` of transformers does; of layers of
    which it is not known whether they have one, the least counts those that do.
    """
    config = text_part(architecture)
    measured = tables.load("forward_activations")["models"].get(str(config.get("model_type")))
    known = sizes(config, measured["defaults"] if measured is not None else {})
    if known is None:
        return None
    whole = _kept(measured, known, sequences, tokens, dtype)
    windows = _windows(config, measured, known["layers"])
    if windows is None:
        return exactly(whole)
    window, sliding = windows
    if tokens <= window:
        return exactly(whole)
    spared = (whole - _kept(measured, known, sequences, window, dtype)) / known["layers"]
    return Band(whole - spared * sliding.most, whole - spared * sliding.likely, whole - spared * sliding.least)


def _kept(measured: MeasuredForward | None, known: dict[str, int], sequences: int, tokens: int, dtype: str) -> float:
    """The bytes of a cache without windows."""
    counted = _counted(known, sequences, tokens)
    width = 4 if dtype == "fp32" else 2
    variant = None
    if measured is not None:
        variant = measured["variants"].get(f"prompt {measured['attention']}")
    if variant is None:
        return 2 * width * counted["token*key"] * known.get("decoder_layers", known["layers"])
    layers = (known["layers"], known.get("decoder_layers", known["layers"]))
    stacks = zip(layers, variant["layers"], strict=False)
    return width / 2 * sum(count * _bytes(layer, counted) for count, layer in stacks)


def _windows(config: JsonObject, measured: MeasuredForward | None, layers: int) -> tuple[int, Band] | None:
    """The tokens of a window, and how many layers have one; None if none has."""
    described = measured.get("windows") if measured is not None else None
    window = config.get("sliding_window", described["window"] if described is not None else None)
    if not isinstance(window, int) or isinstance(window, bool) or window <= 0:
        return None
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return window, exactly(sum(kind in _SLIDING for kind in kinds))
    if described is None:
        return window, Band(0, 0, layers)
    if (switch := described["switch"]) and not config.get(switch, False):
        return None
    pattern = described["pattern"]
    if pattern is None:
        return window, Band(0, layers, layers)
    return window, exactly(sum(pattern[place % len(pattern)] for place in range(layers)))


def _counted(known: dict[str, int], sequences: int, tokens: int) -> dict[str, int]:
    """What bytes are counted in: for the tokens of the pass, and for one token of each sequence."""
    single = quantities(known, sequences, 1)
    return quantities(known, sequences, tokens) | {
        name.replace("token*", "sequence*"): number for name, number in single.items() if name.startswith("token*")
    }


def _band_of(measured: MeasuredForward, config: JsonObject, computed: ForwardPass) -> Band | None:
    """The band of one model type over all ways to compute that are possible; None if none was measured."""
    known = sizes(config, measured["defaults"])
    if known is None:
        return None
    counted = _counted(known, computed.sequences, computed.tokens)
    layers = (known["layers"], known.get("decoder_layers", known["layers"]))
    found = [
        _peak(variant, counted, layers, has_logits=computed.has_logits) * factor
        for variant, factor in _variants(measured, computed)
    ]
    if not found:
        return None
    slack = _TWO_STACKS if "decoder_layers" in known else _SLACK
    return Band(min(found) * (1 - slack), found[0], max(found) * (1 + slack))


def _variants(measured: MeasuredForward, computed: ForwardPass) -> Iterator[tuple[ActivationVariant, float]]:
    """The measured ways that the pass may be one of, the likely one first, each with a factor for its dtype.

    Only the usual attention was measured in 32 bit.
    """
    known = measured["variants"]
    for attention in _attentions(measured["attention"], computed):
        name = f"{computed.kind} {attention}"
        if computed.dtype == "fp32" and f"{name} fp32" in known:
            yield known[f"{name} fp32"], 1
        elif name in known:
            yield known[name], 2 if computed.dtype == "fp32" else 1


def _attentions(usual: str, computed: ForwardPass) -> list[str]:
    """The kinds of attention that are possible, the likely one first: sequences of other lengths need a mask."""
    fused = ["sdpa-mask", "sdpa"] if computed.sequences > 1 else ["sdpa", "sdpa-mask"]
    if usual == "eager" or computed.attention == "eager":
        return ["eager"]
    if computed.attention == "flash_attention_2":
        return ["sdpa"]
    return fused if computed.attention == "sdpa" else [*fused, "eager"]


def _peak(variant: ActivationVariant, counted: dict[str, int], layers: tuple[int, int], *, has_logits: bool) -> float:
    """The most that a way holds at once: what every layer leaves, and the highest moment."""
    stacks = zip(layers, variant["layers"], strict=False)
    peaks: list[ActivationForm] = [one for one in variant["peaks"] if has_logits or _VOCABULARY not in one] or [{}]
    return max(_bytes(one, counted) for one in peaks) + sum(count * _bytes(layer, counted) for count, layer in stacks)


def _bytes(form: ActivationForm, counted: dict[str, int]) -> float:
    return sum(number * counted[name] for name, number in form.items())
