"""YAML to a positioned tree, with the values that ``yaml.safe_load`` gives.

PyYAML's events carry the positions, and its resolver and constructor make the scalars, so that ``no``, ``1e-5``,
``0o17`` and ``1:30`` are what the libraries get. Memory and time are bounded: an alias counts with all that it stands
for, and what is larger than any config is refused.
"""

from __future__ import annotations

from ds_lint.source.document import Document, SyntaxIssue
from ds_lint.source.limits import MOST_BITS, MOST_DIGITS
from ds_lint.source.tree import SCALARS, Member, Node, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

YAML_ERROR = "yaml-error"  # the kind of issue for which ``yaml.safe_load`` raises; ``found`` is its message
SEVERAL_DOCUMENTS = "several-documents"  # the kind of issue at the second one, for which it raises too
TOO_LARGE = "yaml-too-large"  # the kind of issue for what ds-lint does not read to its end; ``found`` says why
MOST_NESTING = 100  # levels; PyYAML makes several Python calls for each
MOST_VALUES = 100_000  # in all of a file
_STRING, _MERGE, _VALUE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:value"
_MAPPING, _SEQUENCE = "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"


def parse(text: str, path: str) -> Document:
    """The document of a YAML text, whatever is wrong with it; ``root`` is None if it is empty or cannot be read."""
    found, issue = _roots(text)
    issues = [issue] if issue is not None else []
    if issue is None and len(found) > 1:
        issues.append(SyntaxIssue(SEVERAL_DOCUMENTS, found[1].span, "expected a single document in the stream"))
    return Document(path, text, found[0] if found else None, issues)


def read(text: str, path: str) -> list[Document]:
    """The configs in a YAML text: one if it is Accelerate's or a recipe, whose root is that of the file; else any."""
    from ds_lint.source import recognition

    may_be_recipe = recognition.may_be_recipe(text.encode(errors="replace"))
    may_be_inline = recognition.may_be_inline(text)
    if not (may_be_recipe or may_be_inline or recognition.may_be_accelerates(text)):
        return []  # PyYAML needs seconds for a megabyte
    document = parse(text, path)
    if may_be_recipe and recognition.as_recipe(document):
        document.language = "yaml"
        document.comments = comments(text) if "ds-lint" in text else []
        return [document]
    if document.root is None:
        is_accelerates = bool(document.issues) and recognition.looks_like_accelerates(text)
    else:
        is_accelerates = bool(recognition.accelerates_keys(document.root))
    if not is_accelerates:
        return _inline(document) if may_be_inline else []
    document.language, document.kind, document.stack = "yaml", "accelerate", "accelerate"
    document.is_dict = True  # DeepSpeed gets the config that the plugin makes
    document.comments = comments(text) if "ds-lint" in text else []
    return [document]


def _inline(document: Document) -> list[Document]:
    """The DeepSpeed configs that are mappings in a YAML of another tool."""
    from ds_lint.source import inline  # few files have one

    document.language = "yaml"
    return inline.configs(document, comments(document.text) if "ds-lint" in document.text else [])


def documents(text: str) -> list[Node]:
    """The documents of a YAML stream, as ``yaml.safe_load_all`` reads them; none if one of them cannot be read."""
    found, issue = _roots(text)
    return [] if issue is not None else found


def comments(text: str) -> list[Span]:
    """The comments of a YAML text that has no errors, in its order."""
    import yaml

    found: list[Span] = []
    gap = 0  # the end of the last scalar: a # inside of a scalar is text
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.ScalarEvent):
                start, end = _offsets(event)
                found += _comments_between(text, gap, start)
                gap = end
    except yaml.YAMLError:
        return found
    return found + list(_comments_between(text, gap, len(text)))


class _RefusedError(Exception):
    """A text that is larger or deeper than ds-lint reads, or that no library reads; its issue."""

    def __init__(self, kind: str, span: Span, found: str) -> None:
        super().__init__(found)
        self.issue = SyntaxIssue(kind, span, found)


def _roots(text: str) -> tuple[list[Node], SyntaxIssue | None]:
    """The roots of all documents, and why the text cannot be read."""
    import yaml

    try:
        return _Composer(text).roots(), None
    except _RefusedError as error:
        return [], error.issue
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return [], SyntaxIssue(YAML_ERROR, _span_at(text, mark.index if mark else 0), error.problem or "invalid YAML")
    except yaml.reader.ReaderError as error:
        character = error.character if isinstance(error.character, int) else ord(error.character)
        found = f"the character #x{character:04x} is not allowed"
        return [], SyntaxIssue(YAML_ERROR, _span_at(text, error.position), found)
    except yaml.YAMLError:
        return [], SyntaxIssue(YAML_ERROR, Span(0, min(1, len(text))), "invalid YAML")


class _OpenCollection:
    """A collection that is being read; ``key`` is the key of a mapping that still waits for its value."""

    __slots__ = ("anchor", "before", "is_flow", "key", "merged", "node")

    def __init__(self, node: Node, anchor: str | None, before: int, *, is_flow: bool) -> None:
        self.node = node
        self.anchor = anchor
        self.before = before  # values of the document up to here
        self.is_flow = is_flow  # in braces or brackets
        self.key: Node | None = None
        self.merged: list[Node] = []  # the values of ``<<``

    @property
    def takes_key(self) -> bool:
        """Whether the next node is a key."""
        return self.node.kind == "object" and self.key is None


class _Composer:
    """Makes the trees of one text from PyYAML's events, without recursion."""

    def __init__(self, text: str) -> None:
        import yaml

        self._yaml = yaml
        self._text = text
        self._loader = yaml.SafeLoader("")  # resolves and constructs scalars
        self._resolve: Any = self._loader.resolve
        self._start_document()

    def _start_document(self) -> None:
        self._anchors: dict[str, tuple[Node, int]] = {}  # the node, and how many values it stands for
        self._names: set[str | None] = set()  # of anchors, also of those that are being read
        self._open: list[_OpenCollection] = []
        self._count = 0

    def roots(self) -> list[Node]:
        """The root of each document."""
        yaml, found = self._yaml, []
        for event in yaml.parse(self._text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.DocumentStartEvent):
                self._start_document()
            elif isinstance(event, yaml.CollectionEndEvent):
                done = self._close(event)
                if not self._open:
                    found.append(done)
            elif isinstance(event, yaml.NodeEvent):
                node = self._node(event)
                if not self._open:
                    found.append(node)
        return found

    def _node(self, event: Any) -> Node:
        """The node that begins with an event; it is put where it belongs."""
        yaml = self._yaml
        if isinstance(event, yaml.AliasEvent):
            node, size = self._aliased(event)
            self._count_values(size, event)
            self._put(node)
            return node
        if event.anchor is not None and event.anchor in self._names:
            raise _RefusedError(YAML_ERROR, Span(*_offsets(event)), f"found duplicate anchor {event.anchor!r}")
        self._names.add(event.anchor)
        self._count_values(1, event)
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = node, 1
            self._put(node)
            return node
        if len(self._open) == MOST_NESTING:
            raise self._refused(f"nested deeper than {MOST_NESTING} levels", event)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", _MAPPING if is_mapping else _SEQUENCE):
            raise _RefusedError(YAML_ERROR, Span(*_offsets(event)), f"the tag {event.tag!r} is not supported")
        node = Node("object" if is_mapping else "array", Span(*_offsets(event)))
        self._put(node)
        self._open.append(_OpenCollection(node, event.anchor, self._count - 1, is_flow=event.flow_style))
        return node

    def _close(self, event: Any) -> Node:
        """End the innermost collection; one in block style ends with the last thing in it."""
        done = self._open.pop()
        node, end = done.node, _offsets(event)[1]
        node.span.end = end if done.is_flow else max([node.span.start, *self._ends(node)])
        if done.merged:
            node.members = [member for value in done.merged for member in _merged(value)] + node.members
        if done.anchor:
            self._anchors[done.anchor] = node, self._count - done.before
        return node

    def _ends(self, node: Node) -> Iterator[int]:
        """Where what is in a collection ends; an alias is where its key does."""
        for member in node.members:
            inside = member.value.span.start >= member.key_span.end
            yield member.value.span.end if inside else member.key_span.end
        for item in node.items:
            if item.span.start >= node.span.start:
                yield item.span.end

    def _aliased(self, event: Any) -> tuple[Node, int]:
        span = Span(*_offsets(event))
        if any(one.anchor == event.anchor for one in self._open):
            raise _RefusedError(TOO_LARGE, span, f"*{event.anchor} refers to a value that contains it")
        if event.anchor not in self._anchors:
            raise _RefusedError(YAML_ERROR, span, f"found undefined alias {event.anchor!r}")
        return self._anchors[event.anchor]

    def _scalar(self, event: Any) -> Node:
        """The node of a scalar, with the value that PyYAML's constructor makes of it."""
        yaml, tag, span = self._yaml, event.tag, Span(*_offsets(event))
        if event.style in ("|", ">"):
            span.end = span.start + len(self._text[span.start : span.end].rstrip())
        if tag in (None, "!"):
            implicit = event.implicit if tag is None else (False, True)
            tag = self._resolve(yaml.ScalarNode, event.value, implicit)
        is_key = bool(self._open) and self._open[-1].takes_key
        if tag == _MERGE and is_key:
            return Node("merge", span, event.value)
        if tag == _STRING or (tag == _VALUE and is_key):
            return Node("string", span, event.value)
        try:
            value = self._loader.construct_object(yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark))
        except (ValueError, OverflowError, AttributeError, TypeError) as error:  # a 13th month; an integer of megabytes
            raise _RefusedError(YAML_ERROR, span, f"{event.value[:40]!r}: {error}") from None
        if isinstance(value, int) and value.bit_length() > MOST_BITS:  # in another base, and not to be printed
            value = (10**MOST_DIGITS - 1) * (1 if value > 0 else -1)
        return Node(SCALARS.get(type(value), "other"), span, value)

    def _put(self, node: Node) -> None:
        """Put a node into the innermost open collection: an item, a key, or the value of the key before it."""
        if not self._open:
            return
        here = self._open[-1]
        if here.node.kind == "array":
            here.node.items.append(node)
        elif here.key is None:
            if node.kind in ("object", "array"):
                raise _RefusedError(YAML_ERROR, node.span, "found unhashable key")
            here.key = node
        else:
            if here.key.kind == "merge":
                here.merged.append(node)
            else:
                here.node.members.append(Member(str(here.key.value), here.key.span, node))
            here.key = None

    def _count_values(self, more: int, event: Any) -> None:
        self._count += more
        if self._count > MOST_VALUES:
            raise self._refused(f"more than {MOST_VALUES:,} values, aliases counted in full", event)

    def _refused(self, why: str, event: Any) -> _RefusedError:
        return _RefusedError(TOO_LARGE, Span(*_offsets(event)), why)


def _merged(node: Node) -> list[Member]:
    """The members that a value of ``<<`` brings in, all of which come before the mapping's own; the last one wins."""
    if node.kind == "object":
        return node.members
    if node.kind == "array" and all(item.kind == "object" for item in node.items):
        return [member for item in reversed(node.items) for member in item.members]
    raise _RefusedError(YAML_ERROR, node.span, "expected a mapping or list of mappings for merging")


def _offsets(event: Any) -> tuple[int, int]:
    """Where an event begins and ends in the text."""
    return event.start_mark.index, event.end_mark.index


def _span_at(text: str, offset: int) -> Span:
    return Span(min(offset, len(text)), min(offset + 1, len(text)))


def _comments_between(text: str, start: int, end: int) -> Iterator[Span]:
    """The comments in a part of a text without scalars: a # at the beginning of a line or after white space."""
    while (found := text.find("#", start, end)) != -1:
        if found == 0 or text[found - 1] in " \t\r\n\ufeff":
            line_end = text.find("\n", found)
            line_end = len(text) if line_end == -1 else line_end - (text[line_end - 1] == "\r")
            yield Span(found, line_end)
            start = line_end
        else:
            start = found + 1
