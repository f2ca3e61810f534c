"""TOML to a positioned tree, with the values that ``tomllib`` gives, and the DeepSpeed configs in it.

``tomllib`` reads the values; the tokens of the text give them their places.
"""

from __future__ import annotations

import sys

from ds_lint.source.document import Document, SyntaxIssue
from ds_lint.source.tree import SCALARS, Member, Node, Span
from ds_lint.targets.toml import TOKEN, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOML_ERROR = "toml-error"  # the kind of issue for which ``tomllib.loads`` raises
_QUOTES = ('"', "'")


def parse(text: str, path: str) -> Document:
    """The document of a TOML text; ``root`` is None if it cannot be read."""
    try:
        _strictly(text.replace("\r\n", "\n"))
        root = _TomlTree(text).root()
    except (ValueError, IndexError, RecursionError) as error:
        return Document(path, text, None, [SyntaxIssue(TOML_ERROR, Span(0, min(1, len(text))), str(error))])
    document = Document(path, text, root, [])
    document.language = "toml"
    return document


def read(text: str, path: str) -> list[Document]:
    """The DeepSpeed configs in a TOML text."""
    from ds_lint.source import inline

    return inline.configs(parse(text, path), comments(text) if "ds-lint" in text else [])


def comments(text: str) -> list[Span]:
    """The comments of a TOML text."""
    return [Span(*found.span()) for found in TOKEN.finditer(text) if found[0].startswith("#")]


class _TomlTree:
    """Makes the tree of a text that ``tomllib`` reads, so that nothing has to be refused here."""

    def __init__(self, text: str) -> None:
        found = [(one[0], one.start()) for one in TOKEN.finditer(text) if not one[0].startswith(("#", "\r"))]
        self._tokens = [*found, ("\n", len(text))][::-1]  # the next one is the last

    def root(self) -> Node:
        root = table = Node("object", Span(0, self._tokens[0][1]))
        while self._tokens:
            if self._tokens[-1][0] == "[":
                table = self._header(root)
            elif self._tokens[-1][0] != "\n":
                self._assign(table)
            self._tokens.pop()
        return root

    def _header(self, root: Node) -> Node:
        self._tokens.pop()
        if self._tokens[-1][0] != "[":
            return self._table(root, *self._key("]"))
        self._tokens.pop()
        keys, span = self._key("]")
        self._tokens.pop()
        above = self._table(root, keys[:-1], span)
        member = above.member(keys[-1])
        if member is None:
            member = Member(keys[-1], span, Node("array", span))
            _add(above, member)
        member.value.items.append(Node("object", span))
        return member.value.items[-1]

    def _key(self, end: str) -> tuple[list[str], Span]:
        """The parts of a dotted key, and where it is; the token behind it is taken."""
        words: list[str] = []
        start, stop = self._tokens[-1][1], 0
        while (token := self._tokens.pop())[0] != end:
            words.append(token[0])
            stop = token[1] + len(token[0])
        return key_of([end, *reversed(words)], end), Span(start, stop)

    def _table(self, table: Node, keys: list[str], span: Span) -> Node:
        """The table at a path, made where it is missing; of an array of tables the last."""
        for key in keys:
            member = table.member(key)
            if member is None:
                member = Member(key, span, Node("object", span))
                _add(table, member)
            table = member.value.items[-1] if member.value.kind == "array" else member.value
        return table

    def _assign(self, table: Node) -> None:
        keys, span = self._key("=")
        above = self._table(table, keys[:-1], span)
        _add(above, Member(keys[-1], span, self._value()))

    def _value(self) -> Node:
        word, start = self._tokens.pop()
        if word == "[":
            node = Node("array", Span(start, start))
            while self._next() != "]":
                node.items.append(self._value())
                if self._next() == ",":
                    self._tokens.pop()
            node.span.end = self._tokens.pop()[1] + 1
            return node
        if word == "{":
            node = Node("object", Span(start, start))
            while self._next() != "}":
                self._assign(node)
                if self._next() == ",":
                    self._tokens.pop()
            node.span.end = self._tokens.pop()[1] + 1
            return node
        value = _scalar(word)
        return Node(SCALARS.get(type(value), "other"), Span(start, start + len(word)), value)

    def _next(self) -> str:
        while self._tokens[-1][0] == "\n":
            self._tokens.pop()
        return self._tokens[-1][0]


def _add(table: Node, member: Member) -> None:
    table.members.append(member)
    table.forget_keys()


def _scalar(word: str) -> Any:
    return _strictly(f"value = {word.replace(chr(13), '')}")["value"]


def _strictly(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)
