"""How the texts begin that may become configs, told before anything of the shell is parsed."""

from __future__ import annotations

import re

_QUOTED = r"['\"]\s*(?:\{|//|/\*)"
_IN_QUOTES = re.compile(_QUOTED)
_WORD = re.compile(r"\$?" + _QUOTED)
_BODY = re.compile(r"^[ \t]*(?:\{|//|/\*)|compute_environment|distributed_type|python", re.MULTILINE)


def may_write_config(text: str) -> bool:
    """Whether a text of the shell is worth parsing for what it writes."""
    return _IN_QUOTES.search(text) is not None or ("<<" in text and _BODY.search(text) is not None)


def begins_like_config(word: str) -> bool:
    """Whether a word, as it is written, begins with a bracket or a comment in quotes."""
    return _WORD.match(word) is not None
