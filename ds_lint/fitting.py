"""What a model asks of the config that trains it, by its ``config.json``."""

from __future__ import annotations

from ds_lint import stores

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.model import Model

_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}

# Where Accelerate and the Trainer look first, and where else a model says how wide it is.
_FILLED_FROM = ("hidden_size", "hidden_sizes")
_ELSEWHERE = ("text_config.hidden_size", "text_config.hidden_sizes", "n_embd", "d_model")


def trained_in(model: Model) -> str | None:
    """The precision that a model was trained in, or else saved in; None where nothing tells."""
    family = stores.read("families")["overflow_in_fp16"].get(model.model_type or "", {})
    return _PRECISIONS.get(family.get("trained_in") or model.dtype or "")


def size_to_write(model: Model, stack: str) -> int | None:
    """The hidden size, where nobody works the sizes of stage 3's buckets out from it; None where somebody does.

    Accelerate looks at the top level of the model's config only (``Accelerator._prepare_deepspeed``), the Trainer into
    ``text_config`` too, and plain DeepSpeed nowhere.
    """
    if stack == "trainer" or (stack == "accelerate" and model.hidden_size(_FILLED_FROM) is not None):
        return None
    return model.hidden_size(_FILLED_FROM + _ELSEWHERE)
