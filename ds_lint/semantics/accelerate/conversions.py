"""What accelerate makes of texts, such as the values of its environment variables."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TRUE, _FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def flag(value: Any) -> bool | None:
    """What ``str_to_bool`` of ``accelerate/utils/environment.py`` makes of a value; None if it raises."""
    text = str(value).lower()
    return True if text in _TRUE else False if text in _FALSE else None


def is_digits(text: str) -> bool:
    """Whether the plugin for DeepSpeed makes an integer of a text."""
    return text.isdigit() and text.isascii()
