"""The commands of a script: tree-sitter's tree in the words of the shell.

tree-sitter-bash says where commands, words and here-documents are. What a word means is read from its text by
``words``, since the tree of a word leaves out blanks that count.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Language, Node


class ShellCommand(NamedTuple):
    """A node of the tree with the bytes of the script that it is in."""

    node: Node
    source: bytes

    @property
    def kind(self) -> str:
        """What it is, as the grammar names it."""
        return self.node.type

    @property
    def text(self) -> str:
        """The text as it is written."""
        return self.source[self.node.start_byte : self.node.end_byte].decode()

    @property
    def line(self) -> int:
        """The line in its script, counted from 0."""
        return int(self.node.start_point.row)

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
            if start == end and words and part.kind not in _APART and words[-1].kind not in _APART:
                words[-1] = words[-1]._replace(text=words[-1].text + part.text)
            elif part.node.end_byte > start:
                words.append(WrittenWord(part.kind, part.text, part))
            end = part.node.end_byte
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


_APART = ("file_redirect", "herestring_redirect", "heredoc_redirect", "variable_assignment")


# The scanner of tree-sitter-bash looks characters up in tables that end with ASCII, and may crash behind their end. For
# the shell, every other byte is part of a word, and of no name.
_IN_ASCII = bytes(range(128)) + b"." * 128


def parse(text: str) -> ShellCommand:
    """The program of a script."""
    import tree_sitter

    source = (text.rstrip().rstrip("\\") + "\n").replace("\r\n", "\n").encode("utf-8", "replace")
    parser = tree_sitter.Parser(_language())  # used again after a text that it does not understand, it may crash
    return ShellCommand(parser.parse(source.translate(_IN_ASCII)).root_node, source)


@cache
def _language() -> Language:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())
