"""Python's own parser, for texts of the user, which are never run."""

from __future__ import annotations

import ast
import warnings

# Escapes such as "\d" are warned of since Python 3.12, on standard error and without the name of the file.
for _category in (SyntaxWarning, DeprecationWarning):
    warnings.filterwarnings("ignore", category=_category, module=r"<unknown>\Z")


def parsed(text: str) -> ast.Module:
    """The module that a text is; raises SyntaxError, ValueError, RecursionError or MemoryError if it is none."""
    return ast.parse(text.removeprefix("\ufeff"))
