"""What a model asks of the config that trains it, by its ``config.json`` and what transformers makes of its type."""

from __future__ import annotations

from ds_lint import stores

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.facts.model import Model
    from ds_lint.knowledge import Knowledge

_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16"}
_TEXT = "text_config."  # where a model of several modalities says what its text model is


def trained_in(model: Model) -> str | None:
    """The 16-bit precision that a model was trained in, or else saved in; None where nothing tells of one.

    Weights in fp32 tell of none: most were trained in mixed precision, and DS451 asks for it.
    """
    family = stores.read("families")["overflow_in_fp16"].get(model.model_type or "", {})
    return _PRECISIONS.get(family.get("trained_in") or model.dtype or "")


def size_to_write(model: Model, stack: str, knowledge: Knowledge) -> int | None:
    """The hidden size, where nobody works the sizes of stage 3's buckets out from it; None where somebody does.

    Accelerate looks at the top level of the model's config only (``Accelerator._prepare_deepspeed``), the Trainer into
    ``text_config`` too, and plain DeepSpeed nowhere.
    """
    own = model.hidden_size(_places(model, "", knowledge))
    if stack == "trainer" or (stack == "accelerate" and own is not None):
        return None
    return own or model.hidden_size(_places(model, _TEXT, knowledge))


def leaf_modules(model: Model, knowledge: Knowledge) -> tuple[str, ...]:
    """The classes whose ranks run different experts, so that stage 3 has to gather them whole.

    None where they are leaf modules by default, and where DeepSpeed knows no ``leaf_module``.
    """
    leaves = knowledge.find(("zero_optimization", "leaf_module", "classes"))
    found = (_known("chosen_experts", model, part, knowledge) for part in ("", _TEXT))
    blocks: list[str] = next((facts["blocks"] for facts in found if facts is not None), [])
    if leaves is None or set(blocks) <= set(leaves.facts["default"]):
        return ()
    return tuple(block.rpartition(".")[2] for block in blocks)


def _places(model: Model, part: str, knowledge: Knowledge) -> Iterator[str]:
    """Where a part of the model's config has its hidden size."""
    known = _known("hidden_sizes", model, part, knowledge)
    key = known.get("key") if known is not None else "hidden_size"
    yield from (f"{part}{name}" for name in (key, "hidden_sizes") if name is not None)


def _known(table: str, model: Model, part: str, knowledge: Knowledge) -> dict[str, Any] | None:
    model_type = model.at(f"{part}model_type")
    return knowledge.of_model(table, model_type) if isinstance(model_type, str) else None
