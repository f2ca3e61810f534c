"""The activations of a step whose loss is not the one of supervised training."""

from __future__ import annotations

from ds_lint.footprint.band import Band
from ds_lint.footprint.quantities import sizes, text_part
from ds_lint.knowledge import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.activations import Pass
    from ds_lint.knowledge.records import JsonObject

_LOGITS = "token*vocabulary"
_USUAL = 12.0  # bytes of the loss of most model types, for each token and entry of the vocabulary


def with_loss(whole: Band, layers: Band, loss: Band, architecture: JsonObject, computed: Pass) -> Band:
    """The activations with another loss: of those with the usual one, which are ``whole``, and of the ``layers``."""
    config = text_part(architecture)
    measured = tables.load("activations")["models"].get(str(config.get("model_type")))
    known = sizes(config, measured["defaults"] if measured is not None else {})
    if known is None:
        return whole
    usual = _USUAL
    if measured is not None:
        peaks = measured["variants"][measured["attention"]]["peaks"]
        usual = max((form.get(_LOGITS, 0) for form in peaks), default=_USUAL)
    entries = computed.micro_batch * computed.sequence_length * -(-known["vocabulary"] // computed.shared.logits)
    least, likely, most = ((one - usual) * entries for one in loss)
    return Band(
        max(layers.least, whole.least + min(least, 0)),
        max(layers.likely, whole.likely + likely),
        max(layers.most, whole.most + most),
    )
