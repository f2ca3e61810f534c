"""Where the nodes of a Python module are in its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.source.tree import Span

if TYPE_CHECKING:
    import ast


class Offsets:
    """Where the nodes of a module are in its text: the parser counts lines, and bytes of UTF-8 in them."""

    def __init__(self, text: str) -> None:
        self._mark = text.startswith("\ufeff")
        self._lines = _lines(text)
        self.starts = [int(self._mark)]  # of the lines, and the end
        for line in self._lines:
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """The half-open range of an expression or statement."""
        assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: S101, PT018 - it was parsed
        return Span(self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset))

    def offset(self, line: int, byte: int) -> int:
        """The offset of a place that the parser names."""
        text = self._lines[line - 1]
        return self.starts[line - 1] + (byte if text.isascii() else len(text.encode()[:byte].decode()))


def _lines(text: str) -> list[str]:
    """The lines as Python counts them: what else ends a line for ``splitlines``, such as a form feed, ends none."""
    if text.isascii() and not any(sign in text for sign in "\x0b\x0c\x1c\x1d\x1e"):
        return text.splitlines(keepends=True)
    import re

    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text.removeprefix("\ufeff"))
