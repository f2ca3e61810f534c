"""Whether edits of Python or YAML change nothing but what they are about, as the reader of the language sees it."""

from __future__ import annotations

import ast
from bisect import bisect_right

from ds_lint.source.python_syntax import parsed
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.diagnostics.finding import Edit
    from ds_lint.source.document import Document
    from ds_lint.source.tree import KeyPath, Node

    Leaf = tuple[KeyPath, str, object]  # path, kind and value


def keeps_the_rest(before: Document, after: Document, edits: Sequence[Edit]) -> bool:
    """Whether the file has the same values as before wherever no edit is; other languages are not compared."""
    rest = _leaves if before.kind == "accelerate" else _statements if before.language == "python" else None
    if rest is None:
        return True
    left = rest(before, sorted((edit.span for edit in edits), key=lambda span: span.start))
    return left is not None and left == rest(after, _places(edits))


def _places(edits: Sequence[Edit]) -> list[Span]:
    """Where what the edits write is once all are applied."""
    places, moved = [], 0
    for edit in sorted(edits, key=lambda edit: edit.span.start):
        start = edit.span.start + moved
        places.append(Span(start, start + len(edit.text)))
        moved += len(edit.text) - (edit.span.end - edit.span.start)
    return places


def _meets(span: Span, edits: Sequence[Span]) -> bool:
    """Whether a range touches one of the edits, which are in order and do not overlap."""
    place = bisect_right(edits, span.end, key=lambda edit: edit.start)
    return place > 0 and edits[place - 1].end >= span.start


def _leaves(document: Document, edits: Sequence[Span]) -> tuple[list[Leaf], int] | None:
    """The scalars that no edit touches, nor the keys above them, in the order of the file; and how many are touched.

    None if an edit touches what stands for another value, too, through an alias.
    """
    found: list[Leaf] = []
    touched: set[Span] = set()
    pending: list[tuple[KeyPath, Node]] = [((), document.root)] if document.root is not None else []
    while pending:
        path, node = pending.pop()
        if _is_leaf(node):
            found.append((path, node.kind, node.value))
        below: list[tuple[KeyPath, Node]] = []
        for member in node.members:
            spans = [member.key_span, member.value.span] if _is_leaf(member.value) else [member.key_span]
            met = [span for span in spans if _meets(span, edits)]
            if not touched.isdisjoint(met):
                return None
            touched.update(met)
            if not met:
                below.append(((*path, member.key), member.value))
        below += [((*path, str(index)), item) for index, item in enumerate(node.items)]
        pending += reversed(below)
    return found, len(touched)


def _is_leaf(node: Node) -> bool:
    return not node.members and not node.items


def _statements(document: Document, edits: Sequence[Span]) -> tuple[list[str], int] | None:
    """The statements of a module that no edit touches, as trees, and how many are touched; of a block, those in it.

    None if Python does not parse the module.
    """
    from ds_lint.source.python_offsets import Offsets

    try:
        module, offsets = parsed(document.text), Offsets(document.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    statements = list(_simple(module))
    rest = [ast.dump(one) for one in statements if not _meets(offsets.span(one), edits)]
    return rest, len(statements) - len(rest)


def _simple(module: ast.Module) -> Iterator[ast.stmt]:
    """The statements that have no others in them."""
    pending: list[ast.AST] = [module]
    while pending:
        node = pending.pop()
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.ExceptHandler))]
        if isinstance(node, ast.stmt) and not inner:
            yield node
        pending += reversed(inner)
