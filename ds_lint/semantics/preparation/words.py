"""What the stack did to a key, in words."""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.semantics.preparation.prepared_config import StackValue
    from ds_lint.source.tree import KeyPath

_WHO = {"transformers": "the Trainer", "accelerate": "Accelerate"}


def source_of(path: KeyPath, setting: StackValue) -> str:
    """Who gave a key its value, and from what: ``filled by the Trainer with max_grad_norm``."""
    who = _WHO[setting.library]
    if setting.did == "inserted":
        return f"added by {who}"
    return f"{setting.did} by {who} with {words(path, setting.expression)}"


def words(path: KeyPath, expression: str) -> str:
    """An expression in words, where the overlay has some."""
    overlay = tables.load("trainer_overlay")
    for table in ("fills", "overwrites"):
        if (text := overlay[table].get(dotted(path), {}).get(expression)) is not None:
            return str(text)
    return expression
