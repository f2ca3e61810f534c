"""The places in a library's source that raise: each ``raise`` and ``assert``, with the conditions around it.

Read with ``ast``, never imported. Left out is what is not a place of its own: a bare ``raise`` that passes an exception
on, and a method whose whole body is ``raise NotImplementedError``.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tools.extract.source import negated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

MANY = 8  # sites of a module, which do not all go from one release to the next
Conditions = tuple[str, ...]


class Site(NamedTuple):
    """One ``raise`` or ``assert``; ``which`` tells apart those of a function that read the same."""

    module: str  # deepspeed/runtime/config.py
    function: str  # DeepSpeedConfig._do_error_check; "" at the top of a module
    when: Conditions  # what is true where it raises, outermost first
    raises: str  # "ValueError", "AssertionError"
    message: str  # the source of the message
    which: int
    line: int
    end: int  # the line of the statement's end

    @property
    def fingerprint(self) -> Fingerprint:
        """What stays the same while lines move."""
        return self.module, self.function, self.when, self.raises, self.message, self.which


Fingerprint = tuple[str, str, Conditions, str, str, int]


def sites(tree: Path, module: str) -> list[Site]:
    """The sites of one module of the package that lies in ``tree``."""
    parsed = ast.parse((tree / module).read_text(encoding="utf-8"))
    seen: Counter[tuple[str, Conditions, str, str]] = Counter()
    found = []
    for function, when, node in raised_in(parsed.body):
        place = (function, *described(node, when))
        found.append(Site(module, *place, seen[place], node.lineno, node.end_lineno or node.lineno))
        seen[place] += 1
    if missed := _lines(parsed) - {site.line for site in found}:
        raise LookupError(f"line {min(missed)} of {module} raises in a statement that is not followed")
    return found


def sites_of(tree: Path, modules: Sequence[str], known: Mapping[str, int]) -> list[Site]:
    """The sites of several modules; ``known`` are the modules that had some, and how many.

    A release may drop a module, and a module its last site. That all of them do is a layout that is not known.
    """
    found = {module: sites(tree, module) for module in modules if (tree / module).is_file()}
    had, number = [module for module in modules if known.get(module)], sum(known.values())
    if had and not any(found.get(module) for module in had):
        raise LookupError(f"nothing raises in {', '.join(had[:3])}{'...' * (len(had) > 3)}, which had {number} sites")
    for module in had:
        if module in found and not found[module] and known[module] >= MANY:
            raise LookupError(f"nothing raises in {module}, which had {known[module]} sites")
    return [site for one in found.values() for site in one]


def count(path: Path) -> int:
    """How many sites a file has."""
    return sum(1 for _ in raised_in(ast.parse(path.read_text(encoding="utf-8")).body))


def described(node: ast.Raise | ast.Assert, when: Conditions) -> tuple[Conditions, str, str]:
    """The conditions of a statement, the type that it raises and the source of the message."""
    if isinstance(node, ast.Assert):
        return (*when, ast.unparse(negated(node.test))), "AssertionError", ast.unparse(node.msg) if node.msg else ""
    raised = node.exc
    if isinstance(raised, ast.Call):
        return when, ast.unparse(raised.func), ", ".join(ast.unparse(argument) for argument in raised.args)
    return when, ast.unparse(raised) if raised else "", ""


def raised_in(
    body: list[ast.stmt], function: str = "", when: Conditions = ()
) -> Iterator[tuple[str, Conditions, ast.Raise | ast.Assert]]:
    """Each statement of a body that raises, with the function around it and the conditions there."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if not _is_abstract(node):
                yield from raised_in(node.body, f"{function}.{node.name}".lstrip("."))
        elif isinstance(node, ast.Assert) or (isinstance(node, ast.Raise) and node.exc is not None):
            yield function, when, node
        elif isinstance(node, ast.If):
            yield from raised_in(node.body, function, (*when, ast.unparse(node.test)))
            yield from raised_in(node.orelse, function, (*when, ast.unparse(negated(node.test))))
        elif isinstance(node, ast.Match):
            for case in node.cases:
                yield from raised_in(
                    case.body, function, (*when, ast.unparse(node.subject) + " is " + ast.unparse(case.pattern))
                )
        elif isinstance(node, ast.Try):
            yield from raised_in(node.body, function, when)
            for handler in node.handlers:
                caught = ast.unparse(handler.type) if handler.type else "anything"
                yield from raised_in(handler.body, function, (*when, f"except {caught}"))
            yield from raised_in(node.orelse, function, when)
            yield from raised_in(node.finalbody, function, when)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            yield from raised_in(node.body, function, when)
            yield from raised_in(node.orelse, function, when)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            yield from raised_in(node.body, function, when)


def _lines(parsed: ast.AST) -> set[int]:
    """The lines of everything that is a site, wherever it is."""
    abstract = {
        id(part)
        for node in ast.walk(parsed)
        if isinstance(node, ast.stmt) and _is_abstract(node)
        for part in ast.walk(node)
    }
    statements = (node for node in ast.walk(parsed) if isinstance(node, (ast.Raise, ast.Assert)))
    return {
        node.lineno
        for node in statements
        if id(node) not in abstract and (isinstance(node, ast.Assert) or node.exc is not None)
    }


def _is_abstract(node: ast.stmt) -> bool:
    """Whether a function does nothing but say that a subclass has to."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0])
