"""The configs in the fenced blocks of a Markdown text. A block shows what matters to its text, and is often a part.

What a block says is checked. What it lacks matters only if it looks complete, and its syntax only if it is meant to be
strict JSON: not with an ellipsis or a choice of values, and not without braces.
"""

from __future__ import annotations

import re

from ds_lint.source import json as json_source
from ds_lint.source import yaml
from ds_lint.source.comments import comments_of
from ds_lint.source.embedding import embedded
from ds_lint.source.markdown_blocks import MarkdownBlock, read_markdown
from ds_lint.source.parts import Part, Places
from ds_lint.source.recognition import is_config, may_be_config
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.document import Document

_JSON = "json"
_LIKE_JSON = frozenset({"", "hjson", "json", "json5", "jsonc"})
_PYTHON = frozenset({"py", "py3", "python", "python3"})
_YAML = frozenset({"yaml", "yml"})
_SHELL = frozenset({"bash", "sh", "shell", "slurm", "zsh"})

_TOKEN = re.compile(
    r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|//[^\n]*|\#[^\n]*|/\*.{0,1000}?\*/|(?P<ellipsis>\.{3,}|\u2026)"""
    r"""|(?P<choice>\[[^\[\]{}\n]*\|[^\[\]{}\n]*\]|(?<![\w.+-])[\w.+-]+(?:[ \t]*\|[ \t]*[\w.+-]+)+)""",
    re.DOTALL,
)
_COLON = re.compile(r"\s*:")
_ELLIPSES = frozenset({"...", "\u2026"})
_UNKNOWN = "${...}"  # read as a placeholder
# What is wrong in a block whoever copies it. Any other construct shows that the block is an illustration.
_MISTAKES = frozenset({
    "bad-escape", "duplicate-key", "extra-comma", "infinite-number", "missing-comma", "not-a-number", "number-format",
    "python-literal", "single-quotes", "trailing-comma", "triple-quotes",
})  # fmt: skip
_BATCH_SIZES = ("train_batch_size", "train_micro_batch_size_per_gpu")
_OF_ACCELERATE = ("compute_environment", "distributed_type", "num_processes")
_SECTIONS = ("bf16", "fp16", "optimizer", "zero_optimization")


def read(text: str, path: str) -> list[Document]:
    """The configs in the blocks of a text."""
    found = read_markdown(text)
    documents = [document for block in found.blocks for document in _in_block(block, text, path)]
    for index, document in enumerate(documents):
        spans = {*found.comments, *comments_of(document)}
        document.comments = sorted(spans, key=lambda span: span.start)
        document.index, document.language = index, "markdown"
        document.is_fragment |= not _looks_complete(document)
    return documents


def _in_block(block: MarkdownBlock, text: str, path: str) -> Iterator[Document]:
    content = block.places.text
    if not may_be_config(content.encode(errors="replace")):
        return
    if block.info in _LIKE_JSON:
        yield from _json(block, text, path)
    elif block.info in _YAML:
        for document in yaml.read(content, path):
            yield embedded(document, text, block.places)
    elif block.info in _PYTHON or block.info in _SHELL:
        if block.info in _PYTHON:
            from ds_lint.source.python import read as read_language
        else:
            from ds_lint.source.shell import read as read_language
        for document in read_language(content, path):
            yield embedded(document, text, block.places)


def _json(block: MarkdownBlock, text: str, path: str) -> Iterator[Document]:
    content = block.places.text
    if block.info != _JSON and not content.lstrip().startswith(("{", "//", "/*")):
        return
    without = _without_ellipses(content)
    document = json_source.parse(without.text, path)
    if not is_config(document):
        return
    document = embedded(document, content, without)
    document.comments = list(comments_of(document))
    is_illustration = bool(without.stand_ins) or any(
        any(one in issue.found for one in _ELLIPSES) if issue.kind == "comment" else issue.kind not in _MISTAKES
        for issue in document.issues
    )
    document.is_fragment = is_illustration
    document.issues = [issue for issue in document.issues if issue.kind != "comment"]
    if is_illustration or block.info != _JSON:
        document.issues = []
    yield embedded(document, text, block.places)


def _without_ellipses(content: str) -> Places:
    """A text without the ellipses that stand for members, and with a placeholder for a value or ``[true|false]``."""
    parts: list[Part] = []
    end = 0
    for match in _TOKEN.finditer(content):
        token = match[0]
        if token[0] in "/#" or not (match.lastgroup or token[1:-1].strip() in _ELLIPSES or "|" in token):
            continue
        if _COLON.match(content, match.end()):  # it is in the place of a key
            continue
        parts.append(Part(content[end : match.start()], Span(end, match.start())))
        is_value = match.lastgroup == "choice" or "|" in token or _last_before(content, match.start()) == ":"
        end = match.end()
        parts.append(Part(_UNKNOWN if is_value else " ", Span(match.start(), end), is_verbatim=False))
    return Places([*parts, Part(content[end:], Span(end, len(content)))])


def _last_before(content: str, pos: int) -> str:
    """The last sign before a place that is not white space."""
    while pos and content[pos - 1].isspace():
        pos -= 1
    return content[pos - 1 : pos]


def _looks_complete(document: Document) -> bool:
    """Whether a config has what every one has: a batch size, and a section; or what ``accelerate config`` writes."""
    root = document.root
    if document.kind == "accelerate":
        return root is not None and all(root.get(name) is not None for name in _OF_ACCELERATE)
    return (
        root is not None
        and any(root.get(name) is not None for name in _BATCH_SIZES)
        and any(root.get(name) is not None for name in _SECTIONS)
    )
