"""The configs in a shell script: here-documents and quoted words, as the files and values that they become."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from ds_lint.source import json as json_source
from ds_lint.source import yaml
from ds_lint.source.comments import comments_of
from ds_lint.source.embedding import embedded
from ds_lint.source.parts import Part, Places
from ds_lint.source.recognition import is_config, may_be_accelerates, may_be_config
from ds_lint.source.shell.beginnings import may_write_config
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.document import Document
    from ds_lint.source.shell.texts import WrittenText
    from ds_lint.source.tree import Node

_MOST_NESTING = 3  # of a script in a here-document of a script
_PYTHON = re.compile(r"python[\d.]*")
_BEGIN_A_CONFIG = ("{", "//", "/*")
# What these are given is a program; jq's look like JSON.
_TAKE_A_PROGRAM = frozenset({"awk", "bash", "eval", "gawk", "jq", "node", "perl", "python", "ruby", "sed", "sh", "yq"})

# Where an unknown text may be members, the commas around it may be right.
_LEFT_TO_WHAT_IS_UNKNOWN = frozenset({"duplicate-key", "extra-comma", "missing-comma", "trailing-comma"})


def read(text: str, path: str) -> list[Document]:
    """The configs in a script."""
    if "\r\n" in text:
        places = _with_plain_lines(text)
        documents = [embedded(one, text, places) for one in _in_script(places.text, path, _MOST_NESTING)]
    else:
        documents = _in_script(text, path, _MOST_NESTING)
    for index, document in enumerate(documents):
        document.index = index
        document.language = "shell"
    return documents


def _with_plain_lines(text: str) -> Places:
    """A text without the carriage returns at the ends of its lines."""
    parts, start = list[Part](), 0
    for line in text.split("\r\n"):
        end = start + len(line)
        parts += [Part(line, Span(start, end)), Part("\n", Span(end + 1, end + 2))]
        start = end + 2
    return Places(parts[:-1])


def _in_script(text: str, path: str, nesting: int) -> list[Document]:
    if not may_write_config(text):
        return []
    from ds_lint.source.shell.interpreter import texts_of  # few scripts hold a config, and it takes time to import

    script = texts_of(text, path)
    documents = [document for written in script.texts for document in _in_text(written, text, path, nesting)]
    for document in documents:  # the comments of the script, and those in the config itself
        document.comments = sorted({*comments_of(document), *script.comments}, key=lambda span: span.start)
    return sorted(documents, key=lambda document: document.root.span.start if document.root is not None else 0)


def _in_text(written: WrittenText, text: str, path: str, nesting: int) -> Iterator[Document]:
    """The config that a text becomes, or those in the script that it becomes."""
    places = Places(written.parts)
    if places.text.lstrip().startswith(_BEGIN_A_CONFIG):
        if written.command.rpartition("/")[2].rstrip("0123456789.") not in _TAKE_A_PROGRAM:
            yield from _config(places, text, path)
    elif written.is_body and nesting > 1:
        if not places.unknown:
            for document in _in_another_language(written, places.text, path):
                yield embedded(document, text, places)
        if "<<" in places.text and may_be_config(places.text.encode(errors="replace")):
            for document in _in_script(places.text, path, nesting - 1):
                yield embedded(document, text, places)


def _in_another_language(written: WrittenText, content: str, path: str) -> list[Document]:
    """The configs in the Python that a here-document hands to ``python``, and the YAML of ``accelerate launch``."""
    if may_be_accelerates(content):
        return yaml.read(content, path)
    if _PYTHON.fullmatch(written.command.rpartition("/")[2]) and may_be_config(content.encode(errors="replace")):
        from ds_lint.source import python  # few scripts hold any

        return python.read(content, path)
    return []


def _config(places: Places, text: str, path: str) -> Iterator[Document]:
    """The config that a text is; none if it is something else."""
    if may_be_config(places.text.encode(errors="replace")):
        document = json_source.parse(places.text, path)
        if is_config(document):
            document = embedded(document, text, places)
            if document.root is not None and _may_have_more(document.root, places.unknown):
                document.is_fragment = True
                document.issues = [issue for issue in document.issues if issue.kind not in _LEFT_TO_WHAT_IS_UNKNOWN]
            yield document


def _may_have_more(root: Node, unknown: list[Span]) -> bool:
    """Whether an unknown place is not in a value, so that it may become members. Unknown keys are taken out."""
    if not unknown:
        return False
    spans = sorted((span.start, span.end) for span in _scalars(root, [span.start for span in unknown]))
    for place in unknown:
        before = bisect_right(spans, (place.start, place.end))
        if not any(start <= place.start and place.end <= end for start, end in spans[max(before - 1, 0) : before + 1]):
            return True
    return False


def _scalars(root: Node, unknown: list[int]) -> Iterator[Span]:
    """The spans of all values that have no elements, once the members with an unknown place in the key are removed."""
    pending = [root]
    while pending:  # a loop, not recursion: a document may nest deeper than Python's stack
        node = pending.pop()
        if node.kind not in ("object", "array"):
            yield node.span
        node.members = [member for member in node.members if not _holds(member.key_span, unknown)]
        pending += node.items
        pending += [member.value for member in node.members]


def _holds(span: Span, places: list[int]) -> bool:
    """Whether one of the places, which are in order, is in a span."""
    first = bisect_left(places, span.start)
    return first < len(places) and places[first] < span.end
