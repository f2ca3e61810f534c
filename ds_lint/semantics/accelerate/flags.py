"""The flags of ``accelerate launch``, as its parser takes them.

Source: ``launch_command_parser`` in ``accelerate/commands/launch.py``.
"""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.accelerate.refusal import is_integer, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.knowledge.records import StackFacts

_NUMBERS = {"int": "a whole number", "float": "a number"}


def value_of_flag(text: str | None, facts: StackFacts) -> Any:
    """The value of a flag in the namespace; UNKNOWN if its word is not known, or the parser rejects it."""
    if text is None or problem_of_flag(text, facts) is not None:
        return UNKNOWN
    kind = facts.get("type")
    if kind is None and not text:
        return True  # a switch
    if kind == "int":
        return int(text)
    if kind == "float":
        return float(text)
    if kind == "str_to_bool":
        return flag(text)
    if kind == "bool":
        return bool(text)
    return text if kind in (None, "str") else UNKNOWN


def problem_of_flag(text: str | None, facts: StackFacts) -> str | None:
    """Why the parser rejects the value of a flag; None if it accepts it."""
    kind, choices = facts.get("type"), facts.get("choices")
    if text is None:
        return None
    if kind in _NUMBERS and not (is_integer(text) if kind == "int" else _is_float(text)):
        return f"not {_NUMBERS[kind]}"
    if choices and text not in choices:
        return f"not one of {listed(list(choices))}"
    return "neither true nor false" if kind == "str_to_bool" and flag(text) is None else None


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
