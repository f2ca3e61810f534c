"""Which reader refuses which construct: Python's json (Trainer, Accelerate) and hjson (DeepSpeed, from a file).

This is about a text that is strict JSON but for constructs of one kind. Where several kinds meet, hjson may make
something else of them (a value without quotes swallows the rest of its line), so the functions that lint a whole
document ask ``hjson.parse``. The Trainer reads with ``json.load(open(path, encoding="utf-8"))``, hence strict JSON, in
which Python allows NaN and duplicate keys.
"""

from __future__ import annotations

from ds_lint.source.limits import MOST_NESTING_JSON
from ds_lint.source.tree import as_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.document import Document
    from ds_lint.source.hjson import Refused
    from ds_lint.source.tree import Node, Scalar

ALWAYS = "always"
NEVER = "never"
DEPENDS = "depends"


class Refusal:
    """Whether json and hjson refuse a construct: ``always``, ``never`` or ``depends``, which means: ask them."""

    __slots__ = ("hjson", "json")

    def __init__(self, json: str, hjson: str) -> None:
        self.json = json
        self.hjson = hjson


_REFUSALS = {
    "bad-escape": Refusal(ALWAYS, DEPENDS),  # hjson takes \' and, for a \u escape, whatever int() takes
    "bom": Refusal(ALWAYS, NEVER),
    "comment": Refusal(ALWAYS, NEVER),
    "control-character": Refusal(ALWAYS, ALWAYS),
    "deep-nesting": Refusal(DEPENDS, ALWAYS),  # ``found`` is the depth; both depend on Python and on the caller's stack
    "duplicate-key": Refusal(NEVER, ALWAYS),  # json keeps the last; DeepSpeed's hook raises
    "empty": Refusal(ALWAYS, DEPENDS),  # {} for hjson, but not after a byte order mark
    "extra-comma": Refusal(ALWAYS, ALWAYS),
    "infinite-number": Refusal(NEVER, ALWAYS),  # 1e400: hjson crashes when it asks whether infinity is integral
    "long-integer": Refusal(ALWAYS, ALWAYS),  # thousands of digits, refused by Python itself since 3.10.7
    "missing-colon": Refusal(ALWAYS, ALWAYS),
    "missing-comma": Refusal(ALWAYS, DEPENDS),
    "missing-key": Refusal(ALWAYS, DEPENDS),
    "missing-value": Refusal(ALWAYS, DEPENDS),  # with the value on the next line, hjson may read on there
    "no-braces": Refusal(ALWAYS, NEVER),
    "not-a-number": Refusal(NEVER, DEPENDS),  # a string for hjson
    "not-an-object": Refusal(NEVER, NEVER),  # readable, but nothing that DeepSpeed or the Trainer can use
    "not-utf8": Refusal(ALWAYS, ALWAYS),
    "number-format": Refusal(ALWAYS, DEPENDS),
    "python-literal": Refusal(ALWAYS, DEPENDS),
    "single-quotes": Refusal(ALWAYS, NEVER),
    "stray-text": Refusal(ALWAYS, DEPENDS),
    "template": Refusal(DEPENDS, DEPENDS),  # json reads one in quotes; the issue is at the first without
    "trailing-comma": Refusal(ALWAYS, NEVER),
    "triple-quotes": Refusal(ALWAYS, DEPENDS),  # hjson wants a line feed somewhere in the text
    # ``found`` is the missing brackets, ``related`` where they belong; or "/*", which hjson takes inside a key.
    "unclosed": Refusal(ALWAYS, DEPENDS),
    "unopened": Refusal(ALWAYS, ALWAYS),  # the root lacks its first brace
    "unquoted-key": Refusal(ALWAYS, DEPENDS),
    "unquoted-value": Refusal(ALWAYS, DEPENDS),
    "unterminated-string": Refusal(ALWAYS, ALWAYS),
}
KINDS = frozenset(_REFUSALS)


def refused_by(kind: str) -> Refusal:
    """Which readers refuse a text because of an issue of this kind."""
    return _REFUSALS[kind]


def json_refuses(document: Document) -> bool:
    """Whether Python's json, and so the Trainer and Accelerate, raises when it reads a document."""
    for issue in document.issues:
        if issue.kind not in KINDS:
            continue  # an error of PyYAML, or of Python
        refusal = _REFUSALS[issue.kind].json
        if refusal == ALWAYS:
            return True
        if issue.kind == "template" and not document.text.startswith(('"', "'"), issue.span.start):
            return True
        if issue.kind == "deep-nesting" and int(issue.found) > MOST_NESTING_JSON:
            return True
    return False


def is_readable(document: Document) -> bool:
    """Whether any of the libraries reads a document."""
    return not json_refuses(document) or hjson_refusal(document) is None


def reads_alike(meant: Node | None, read: Node | None) -> bool:
    """Whether hjson got the values that a person sees in a text; ``read`` is what it made of the text, or of a part."""
    pending = [(meant, read)]
    while pending:  # a loop, not recursion: a document may nest deeper than Python's stack
        one, other = pending.pop()
        if one is None or other is None or not reads_value_alike(one, other):
            return False
        pending += zip(one.items, other.items, strict=True)
        pending += [(member.value, other.get(member.key)) for member in one.members]
    return True


def reads_value_alike(meant: Node, read: Node) -> bool:
    """The same of one scalar, and of an object or array without what its elements hold."""
    if read.kind != "string":
        return (
            (meant.kind == read.kind or (meant.kind, read.kind) == ("float", "integer"))
            and as_read(meant) == read.value
            and len(meant.members) == len(read.members)
            and len(meant.items) == len(read.items)
        )
    if meant.kind not in ("string", "template"):
        return False
    return meant.value == read.value or _lines(meant.value) == _lines(read.value)


def _lines(text: Scalar) -> list[str]:
    """The lines of a string in triple quotes, without the indentation of which hjson takes some away."""
    return [line.strip() for line in str(text).strip().split("\n")]


def hjson_refusal(document: Document) -> Refused | None:
    """What hjson, and so DeepSpeed, raises when it reads a document from a file; None if it reads it."""
    if not any(issue.kind in KINDS for issue in document.issues):
        return None  # and the errors of PyYAML and of Python are not its
    from ds_lint.source import hjson

    try:
        as_hjson_reads(document)
    except hjson.Refused as refused:
        return refused
    return None


def as_hjson_reads(document: Document) -> Node:
    """The tree that hjson, and so DeepSpeed, reads in a document; raises what it raises."""
    from ds_lint.source import hjson

    if document.places is None:
        return hjson.parse(document.content)
    from ds_lint.source.parts import in_place

    try:
        return in_place(hjson.parse(document.content), document.places)
    except hjson.Refused as refused:
        refused.span = document.places.span(refused.span)
        raise
