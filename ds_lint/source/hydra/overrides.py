"""Words of a command line that override values of a config: ``key=value``, ``+key=value``, ``++key=value``, ``~key``.

Source: ``grammar/OverrideLexer.g4`` and ``OverrideParser.g4`` of Hydra.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ds_lint.source.tree import SCALARS, Member, Node, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal

    How = Literal["change", "add", "force-add", "delete"]

_KEY = re.compile(
    r"([+]{0,2}|~)((?:[A-Za-z_$][\w$-]*|0|[1-9]\d*)(?:\.(?:[A-Za-z_$][\w$-]*|0|[1-9]\d*))*|[A-Za-z_][\w-]*(?:/[A-Za-z_][\w-]*)+)"
    r"(?:@([\w.$:-]*))?(?:(=)[ \t]*(.*))?",
    re.DOTALL,
)  # fmt: skip
_HOW: dict[str, How] = {"": "change", "+": "add", "++": "force-add", "~": "delete"}
_INT = re.compile(r"[+-]?(?:0|[1-9](?:_?\d)*)")
_FLOAT = re.compile(
    r"[+-]?(?:(?:(?:0|[1-9](?:_?\d)*)\.|(?:0|[1-9](?:_?\d)*)?\.\d(?:_?\d)*)(?:[eE][+-]?\d(?:_?\d)*)?"
    r"|(?:0|[1-9](?:_?\d)*)[eE][+-]?\d(?:_?\d)*|[Ii][Nn][Ff]|[Nn][Aa][Nn])"
)
_PLAIN = re.compile(r"(?:[\w/\-+.%*@?|: \t$]|\\[\\()\[\]{}:=, \t]|\$\{[^}]+\}|\\)*")
_ESCAPED = re.compile(r"\\([\\()\[\]{}:=, \t])")
_CALL = re.compile(r"[A-Za-z_][\w-]*[ \t]*\(.*\)", re.DOTALL)
_CLOSING = {"[": "]", "{": "}", "(": ")"}
NOT_READ = "not read"  # the text of a template that stands for a value that is not known


class Override(NamedTuple):
    """A word. ``value`` is None if the word has none, and a template if it is not known; ``is_sweep`` if it is several.

    ``span`` is that of the key, with the sign before it; that of the word, if it is not written as it arrives.
    """

    word: str
    how: How
    key: str
    package: str | None
    value: Node | None
    is_sweep: bool
    span: Span


class _UnreadableError(ValueError):
    """A value that Hydra does not read, either."""


def override(word: str, span: Span) -> Override | None:
    """What a word overrides; None if it is not one that Hydra reads."""
    match = _KEY.fullmatch(word)
    if match is None or (match[4] is None and match[1] != "~"):
        return None
    value, is_sweep = None, False
    key, behind = _parted(span, word)
    if match[4] is not None:
        try:
            value, is_sweep = _value(match[5].rstrip(" \t"), behind)
        except _UnreadableError:
            return None
    return Override(word, _HOW[match[1]], match[2], match[3], value, is_sweep, key)


def _parted(span: Span, word: str) -> tuple[Span, Span]:
    """The places of the key and of the value, if the place is that of the whole word."""
    sign = word.find("=")
    if span.end - span.start != len(word) or not 0 < sign < len(word) - 1:
        return span, span
    return Span(span.start, span.start + sign), Span(span.start + sign + 1, span.end)


def of_unknown(name: str, span: Span) -> Override | None:
    """The same of ``name=$VALUE``, whose value is not known."""
    found = override(f"{name}=0", span)
    return None if found is None else found._replace(word=name, value=Node("template", span, NOT_READ))


def dotlist(word: str, span: Span) -> Override | None:
    """The same of a word of ``OmegaConf.from_cli``, whose value is YAML, and which adds keys."""
    name, sign, text = word.partition("=")
    if not sign or not re.fullmatch(r"[A-Za-z_][\w.-]*", name):
        return None
    from ds_lint.source import yaml
    from ds_lint.source.hydra.files import as_omegaconf_reads

    root = yaml.parse(text, "").root
    key, behind = _parted(span, word)
    value = Node("null", span) if root is None else as_omegaconf_reads(root, text)
    return Override(word, "force-add", name, None, at(value, behind), False, key)


def at(node: Node, span: Span) -> Node:
    """A value, all of which is at one place."""
    members = [Member(one.key, span, at(one.value, span)) for one in node.members]
    return Node(node.kind, span, node.value, members, [at(one, span) for one in node.items])


def _value(text: str, span: Span) -> tuple[Node, bool]:
    parts = list(_parts(text))
    if len(parts) > 1:
        return Node("template", span, NOT_READ), True
    return _element(text, span), _is_sweep(text)


def _is_sweep(text: str) -> bool:
    return re.match(r"(?:choice|range|interval|glob|shuffle|sort|tag)[ \t]*\(", text) is not None


def _element(text: str, span: Span) -> Node:
    text = text.strip(" \t")
    if text[:1] in ("'", '"') and len(text) > 1 and text[-1] == text[0]:
        quote = text[0]
        return Node("string", span, text[1:-1].replace(f"\\{quote}", quote))
    if text[:1] in ("[", "{"):
        if text[-1:] != _CLOSING[text[0]]:
            raise _UnreadableError
        inner = text[1:-1].strip(" \t")
        parts = list(_parts(inner)) if inner else []
        if text[0] == "[":
            return Node("array", span, None, None, [_element(one, span) for one in parts])
        return Node("object", span, None, [_pair(one, span) for one in parts])
    if _CALL.fullmatch(text):
        return Node("template", span, NOT_READ)
    if not _PLAIN.fullmatch(text):
        raise _UnreadableError
    value = _primitive(text)
    return Node(SCALARS[type(value)], span, value)


def _pair(text: str, span: Span) -> Member:
    key, colon, value = text.partition(":")
    if not colon or not _PLAIN.fullmatch(key.strip(" \t")):
        raise _UnreadableError
    return Member(str(_primitive(key.strip(" \t"))), span, _element(value, span))


def _primitive(text: str) -> Any:
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered == "null":
        return None
    if _INT.fullmatch(text):
        return int(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return _ESCAPED.sub(r"\1", text)


def _parts(text: str) -> Iterator[str]:
    """The parts of a text between commas that are not in quotes or brackets."""
    expected: list[str] = []
    quote, start, position = "", 0, 0
    while position < len(text):
        sign = text[position]
        if sign == "\\" and not quote:
            position += 2
            continue
        if quote:
            if sign == quote and text[position - 1] != "\\":
                quote = ""
        elif sign in "'\"":
            quote = sign
        elif text.startswith("${", position):
            expected.append("}")
            position += 1
        elif sign in _CLOSING:
            expected.append(_CLOSING[sign])
        elif sign in ")]}":
            if not expected or expected.pop() != sign:
                raise _UnreadableError
        elif sign == "," and not expected:
            yield text[start:position]
            start = position + 1
        position += 1
    if expected or quote:
        raise _UnreadableError
    yield text[start:]
