"""The commands of a script: tree-sitter's tree in the words of the shell.

tree-sitter-bash says where commands and words are. What a word means is read from its text by ``words``, since the tree
of a word leaves out blanks that count, and here-documents by ``heredocs``, since the parser loses its way in some.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.source.shell.heredocs import Heredocs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Language, Node

    from ds_lint.source.shell.heredocs import Heredoc


class ShellText(NamedTuple):
    """A text of the shell: ``base`` is where it begins in the script, None if it is not written there as it is."""

    text: str
    base: int | None
    heredocs: Heredocs


class ShellCommand(NamedTuple):
    """A node of the tree with the text that it is in."""

    node: Node
    source: ShellText

    @property
    def kind(self) -> str:
        """What it is, as the grammar names it."""
        return self.node.type

    @property
    def text(self) -> str:
        """The text as it is written."""
        return self.source.text[self.node.start_byte : self.node.end_byte]

    @property
    def at(self) -> int | None:
        """Where it begins in the script."""
        return None if self.source.base is None else self.source.base + self.node.start_byte

    @property
    def line(self) -> int:
        """The line in its script, counted from 0."""
        return int(self.node.start_point.row)

    @property
    def end(self) -> int:
        """Where it ends, with the here-documents that begin in its last line."""
        return max(self.node.end_byte, self.source.heredocs.behind(self.node.end_byte) - 1)

    @property
    def end_line(self) -> int:
        """The line that it ends in, counted from 0."""
        return int(self.node.end_point.row) + self.source.text.count("\n", self.node.end_byte, self.end)

    @property
    def heredoc(self) -> Heredoc | None:
        """The here-document that a redirection gives."""
        found = (self.source.heredocs.found.get(child.start_byte) for child in self.node.children)
        return next((heredoc for heredoc in found if heredoc is not None), None)

    @property
    def named(self) -> list[ShellCommand]:
        """The parts without the operators between them."""
        return [ShellCommand(child, self.source) for child in self.node.named_children if child.type != "comment"]

    @property
    def children(self) -> list[ShellCommand]:
        """The parts with the operators between them."""
        return [ShellCommand(child, self.source) for child in self.node.children if child.type != "comment"]

    @property
    def words(self) -> list[WrittenWord]:
        """The words of a simple command. The parser cuts some in two: parts without a blank between them are one."""
        words = list[WrittenWord]()
        end = -1
        for part in self.children:
            start = part.node.start_byte
            between = self.source.text[end:start] if words else " "
            if between in ("", "\\\n") and part.kind not in _APART and words[-1].kind not in _APART:
                words[-1] = words[-1]._replace(text=words[-1].text + part.text)
            elif part.node.end_byte > start:
                words.append(WrittenWord(part.kind, part.text, part))
            end = part.node.end_byte
        if words and _BLANK_IN_THE_END.match(self.source.text, end):  # which the parser takes for the end of the line
            words.append(WrittenWord("word", "\\ ", self))
        return words

    def field(self, name: str) -> ShellCommand | None:
        """The part in one role."""
        found = self.node.child_by_field_name(name)
        return None if found is None else ShellCommand(found, self.source)

    def fields(self, name: str) -> list[ShellCommand]:
        """The parts in one role."""
        return [ShellCommand(found, self.source) for found in self.node.children_by_field_name(name)]

    @property
    def is_broken(self) -> bool:
        """Whether the parser did not understand a part of it."""
        return self.node.has_error


class WrittenWord(NamedTuple):
    """A word of a command, as it is written."""

    kind: str
    text: str
    command: ShellCommand


REDIRECTIONS = ("file_redirect", "herestring_redirect", "heredoc_redirect")
_BLANK_IN_THE_END = re.compile(r"[ \t]+\\ [ \t]*\n")
_APART = (*REDIRECTIONS, "variable_assignment")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


# `# between lines`, a comment that the parser does not see the end of
_INLINE_COMMENT = re.compile(r"`[ \t]*#[^`\n]*`")


def _hidden(comment: re.Match[str]) -> str:
    """A command of the same length instead of a comment in backquotes."""
    return f"`{':' * (len(comment[0]) - 2)}`"


@lru_cache(maxsize=128)  # a loop evaluates the same text in each turn
def parse(text: str, base: int | None = None) -> ShellCommand:
    """The program of a script."""
    import tree_sitter

    text = (text.rstrip().rstrip("\\") + "\n").replace("\r\n", "\n")
    # The scanner of tree-sitter-bash looks characters up in tables that end with ASCII, and may crash behind their end.
    # For the shell, every other one is part of a word, and of no name. So offsets in bytes are those of characters.
    seen = bytearray(_INLINE_COMMENT.sub(_hidden, _BEYOND_ASCII.sub(".", text)).encode())
    heredocs = Heredocs(text)
    while True:
        parser = tree_sitter.Parser(_language())  # used again after a text that it does not understand, it may crash
        root = parser.parse(bytes(seen)).root_node
        if not heredocs.hide([node for node in nodes(root, text, "<<") if _is_operator(node)], seen):
            return ShellCommand(root, ShellText(text, base, heredocs))


def nodes(root: Node, text: str, sign: str) -> Iterator[Node]:
    """The nodes that hold a sign, in the order of the text."""
    signs = [match.start() for match in re.finditer(re.escape(sign), text)]
    pending = [root] if signs else []
    while pending:
        node = pending.pop()
        first = bisect_left(signs, node.start_byte)
        if first < len(signs) and signs[first] < node.end_byte:
            yield node
            pending += reversed(node.children)


def _is_operator(node: Node) -> bool:
    """Whether a node is that of a here-document, and not a shift in arithmetic."""
    return node.type in ("<<", "<<-") and (node.parent is None or node.parent.type != "binary_expression")


@cache
def _language() -> Language:
    import tree_sitter

    return tree_sitter.Language(_grammar().language())


def _grammar() -> Any:
    """The compiled module of tree-sitter-bash; its package imports ``importlib.resources``, for its queries."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    package = PathFinder.find_spec("tree_sitter_bash")
    spec = package and PathFinder.find_spec("tree_sitter_bash._binding", package.submodule_search_locations)
    if spec is None or spec.loader is None:  # it is in an archive, or has another shape
        import tree_sitter_bash

        return tree_sitter_bash
    compiled = module_from_spec(spec)
    spec.loader.exec_module(compiled)
    return compiled
