"""Interpolations of OmegaConf: ``${trainer.batch_size}``, ``${.x}``, ``${..y}``, ``${oc.env:NAME,default}``.

A value that only a run shows is a template, as is ``???``. Sources: ``omegaconf/grammar``, ``resolvers/oc``.
"""

from __future__ import annotations

import re

from ds_lint.source.hydra.merging import MISSING, with_span
from ds_lint.source.hydra.overrides import NOT_READ
from ds_lint.source.tree import Member, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ds_lint.source.tree import KeyPath

_WHOLE = re.compile(r"\$\{[^${}]*(?:\$\{[^${}]*\}[^${}]*)*\}")
_INNER = re.compile(r"\$\{([^${}]*)\}")
_PATH = re.compile(r"(\.*)([\w$-]+(?:\.[\w$-]+|\[[\w$-]+\])*)?")
_RESOLVER = re.compile(r"([A-Za-z_][\w.-]*):(.*)", re.DOTALL)
_DEEPEST = 20  # interpolations that lead to others
_MOST = 2000  # of one config
_NUMBER = re.compile(r"[+-]?(?:\d+|\d*\.\d+(?:[eE][+-]?\d+)?|\d+\.|\d+[eE][+-]?\d+)")


class Interpolations:
    """Resolves what is in a config; ``environment`` are the variables that are known, None those that are not.

    ``is_word`` tells of a value whether it is one of the command line, which keeps its place.
    """

    def __init__(
        self, root: Node, environment: Mapping[str, str | None], is_word: Callable[[Node], bool] = lambda _: False
    ) -> None:
        self._root = root
        self._environment = environment
        self._is_word = is_word
        self._open: set[KeyPath] = set()  # those that are being resolved
        self._count = 0

    def resolved(self, node: Node, path: KeyPath, depth: int = 0) -> Node:
        """A part of the config, at this path, without interpolations."""
        if node.kind == "object":
            members = [
                Member(one.key, one.key_span, self.resolved(one.value, (*path, one.key), depth)) for one in node.members
            ]
            return Node("object", node.span, None, members)
        if node.kind == "array":
            items = [self.resolved(one, (*path, str(at)), depth) for at, one in enumerate(node.items)]
            return Node("array", node.span, None, None, items)
        if node.kind != "string":
            return node
        text = str(node.value)
        self._count += 1
        if text == MISSING or depth > _DEEPEST or path in self._open or self._count > _MOST:
            return Node("template", node.span, NOT_READ)
        if "${" not in text:
            return node
        if "\\$" in text:
            return Node("template", node.span, text)
        self._open.add(path)
        value = self._value(text, path, depth)
        self._open.discard(path)
        if value is None:
            return Node("template", node.span, text)
        return value if self._is_word(value) else with_span(value, node.span)

    def _value(self, text: str, path: KeyPath, depth: int) -> Node | None:
        """The value of a text with interpolations; None if it is not known."""
        if (whole := _INNER.fullmatch(text)) is not None:
            return self._one(whole[1].strip(), path, depth)
        parts: list[str] = []
        position = 0
        if _WHOLE.fullmatch(text):  # one within another
            inner = _INNER.search(text)
            assert inner is not None  # noqa: S101 - a whole one that is not simple has one
            known = self._one(inner[1].strip(), path, depth)
            filled = None if known is None else _shown(known)
            return (
                None
                if filled is None
                else self._value(text[: inner.start()] + filled + text[inner.end() :], path, depth + 1)
            )
        for match in _INNER.finditer(text):
            found = self._one(match[1].strip(), path, depth)
            shown = None if found is None else _shown(found)
            if shown is None:
                return None
            parts += (text[position : match.start()], shown)
            position = match.end()
        rest = text[position:]
        if not parts or "${" in rest:
            return None
        return Node("string", self._root.span, "".join(parts) + rest)

    def _one(self, text: str, path: KeyPath, depth: int) -> Node | None:
        if (call := _RESOLVER.fullmatch(text)) is not None:
            return self._called(call[1], [one.strip() for one in call[2].split(",")], path, depth)
        match = _PATH.fullmatch(text)
        if match is None or not text:
            return None
        keys = tuple(part for part in re.split(r"[.\[\]]+", match[2] or "") if part)
        dots = len(match[1])
        if dots > len(path):
            return None
        target = (*path[: len(path) - dots], *keys) if dots else keys
        return self._at(target, depth)

    def _at(self, target: KeyPath, depth: int) -> Node | None:
        node: Node | None = self._root
        for at, key in enumerate(target):
            if node is not None and node.kind == "string" and "${" in str(node.value):
                node = self.resolved(node, target[:at], depth + 1)
            node = node.at((key,)) if node is not None and node.kind in ("object", "array") else None
        if node is None:
            return None
        found = self.resolved(node, target, depth + 1)
        return None if found.kind == "template" else found

    def _called(self, name: str, arguments: list[str], path: KeyPath, depth: int) -> Node | None:
        span = self._root.span
        if name == "oc.env":
            variable, *default = arguments
            if variable in self._environment:
                value = self._environment[variable]
                return None if value is None else Node("string", span, value)
            if not default:
                return None
            return Node("null", span) if default[0] == "null" else Node("string", span, _unquoted(default[0]))
        if name == "oc.decode" and len(arguments) == 1:
            text = _unquoted(arguments[0])
            return _decoded(text, span)
        if name == "oc.select" and arguments:
            target, *default = arguments
            there = self._one(target, path, depth)
            if there is not None or not default:
                return there
            return None  # which may be there and not known
        return None


def _shown(node: Node) -> str | None:
    """A scalar within a text."""
    if node.kind in ("object", "array", "template"):
        return None
    return str(node.value)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0] else text


def _decoded(text: str, span: object) -> Node | None:
    from ds_lint.source.hydra.overrides import _element  # the same grammar
    from ds_lint.source.tree import Span

    if not isinstance(span, Span) or "${" in text:
        return None
    try:
        return _element(text, span)
    except ValueError:
        return None
