"""What ds-lint needs of ``tree_sitter_bash``: the page has the grammar."""

from __future__ import annotations


def language() -> str:
    """The grammar, for ``tree_sitter.Language``."""
    return "bash"
