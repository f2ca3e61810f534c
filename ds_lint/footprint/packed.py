"""The parameters of a run as it holds them: those that are quantized are packed."""

from __future__ import annotations

from ds_lint.facts.packed_weights import packed_tensors, requested
from ds_lint.footprint.doubts import is_quantized

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.tensors import Tensor
    from ds_lint.semantics.config import Config

_FUSES_EXPERTS = 5  # the major release of transformers whose classes have the experts of a layer in one parameter
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def parameters(found: tuple[Tensor, ...], config: Config, dtype: str) -> tuple[Tensor, ...]:
    """The parameters of a run as it trains them in ``dtype``: those of its model if none is packed."""
    model, weights = config.facts.model, requested(config.facts)
    if weights is None or model is None or not found:
        return found
    major = str(config.knowledge.target["transformers"] or "").partition(".")[0]
    has_linear_experts = major.isdecimal() and int(major) < _FUSES_EXPERTS
    return tuple(packed_tensors(list(found), model, weights, run=_DTYPES[dtype], has_linear_experts=has_linear_experts))


def doubt(config: Config) -> str | None:
    """What to give where it is not known whether the weights are quantized; None where it is."""
    if requested(config.facts) is not None or not is_quantized(config):
        return None
    return "the script may quantize the weights, which is not counted (set --quantization, such as nf4 or none)"
