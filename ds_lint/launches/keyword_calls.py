"""The calls of a script that make training arguments or a trainer, with their keywords.

What a library refuses in one of its releases is left out where the script itself looks at the release, or catches the
error: it knows other releases then.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ds_lint.launches.script_modules import DefinedClass, ScriptModule
from ds_lint.launches.script_options import fields_of, is_dataclass
from ds_lint.source.keyword_call import KeywordCall
from ds_lint.source.python_names import dotted_name
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.script_modules import FindModule

MAKES = re.compile(r"\w*(?:Arguments|Config|Trainer)\b")
_LIBRARIES = ("transformers", "trl")
_PLAIN_BASES = ("abc.ABC", "typing.Generic", "object")
_DEEPEST = 8
# Which replace the classes of trl, and of transformers, by others of the same names.
_PATCHING = ("unsloth", "swift", "ipex_llm", "optimum")
_LOOKS_AT_RELEASE = re.compile(
    r"[Vv]ersion|hasattr|signature|__dataclass_fields__|\bfields\b|\binspect\b|_available|dir\("
)
_CATCHES = ("TypeError", "Exception", "BaseException")


class _Origin:
    """What makes the objects of a class: classes of libraries, and the fields that the project adds."""

    def __init__(self) -> None:
        self.roots: list[str] = []
        self.own: set[str] = set()


def keyword_calls(text: str, path: str, find: FindModule | None) -> list[KeywordCall]:
    """The calls; none where Python does not parse the text."""
    try:
        module = ScriptModule(text, path, find)
        return list(_calls(module))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _calls(module: ScriptModule) -> Iterator[KeywordCall]:
    if any(_is_patching(node) for node in module.names.imports):
        return
    bound = {one.id for one in module.names.every(ast.Name) if isinstance(one.ctx, ast.Store)}
    bound |= {one.arg for one in module.names.every(ast.arg)}  # so that a name may not be what is imported
    for call in module.names.calls:
        name = dotted_name(call.func)
        if not call.keywords or not (name in module.classes or MAKES.fullmatch(name.rpartition(".")[2])):
            continue
        if name.partition(".")[0] in bound or _knows_releases(call, module):
            continue
        made = _Origin()
        if not _add(module.class_of(name), made, _DEEPEST) or not made.roots:
            continue
        keywords = [(one.arg, _of_keyword(one, module)) for one in call.keywords if one.arg is not None]
        unpacked = dict(_unpacked(call, module))
        given = {arg for arg, _ in keywords}
        keywords += [(arg, span) for arg, span in unpacked.items() if arg not in given]
        yield KeywordCall(
            module.values.span(call.func),
            name.rpartition(".")[2],
            tuple(made.roots),
            frozenset(made.own),
            keywords,
            frozenset(unpacked.keys() - given),
        )


def _add(found: DefinedClass | str, made: _Origin, depth: int) -> bool:
    """Add what makes a class; whether all of it is known."""
    if isinstance(found, str):
        library = found.partition(".")[0]
        if library in _LIBRARIES and "." in found:
            made.roots.append(found)
            return True
        return found in _PLAIN_BASES
    node, module = found
    is_plain = not node.keywords and not any(
        isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name in ("__init__", "__new__")
        for one in node.body
    )
    others = [one for one in node.decorator_list if "dataclass" not in ast.unparse(one)]
    if not is_plain or others or depth == 0:
        return False
    for base in node.bases:
        text = dotted_name(base.value if isinstance(base, ast.Subscript) else base)
        if not text or not _add(module.class_of(text, but=node) or text, made, depth - 1):
            return False
    if is_dataclass(node):
        made.own.update(name for name, _ in fields_of(node, module.values))
    return True


def _is_patching(node: ast.Import | ast.ImportFrom) -> bool:
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return any(one.partition(".")[0] in _PATCHING for one in modules)


def _knows_releases(call: ast.Call, module: ScriptModule) -> bool:
    """Whether the call is in a branch for some releases, or its error is caught."""
    node: ast.AST = call
    around = module.names.parents.get(node)
    while around is not None:
        if isinstance(around, (ast.If, ast.IfExp)) and node is not around.test:
            if _LOOKS_AT_RELEASE.search(ast.unparse(around.test)):
                return True
        elif isinstance(around, ast.Try) and node in around.body:
            caught = [ast.unparse(one.type) if one.type is not None else "Exception" for one in around.handlers]
            if any(name in text for text in caught for name in _CATCHES):
                return True
        elif isinstance(around, ast.With) and "raises" in ast.unparse(around.items[0].context_expr):
            return True
        node, around = around, module.names.parents.get(around)
    return False


def _of_keyword(one: ast.keyword, module: ScriptModule) -> Span:
    """The place of the name of a keyword."""
    start = module.values.span(one.value).start
    text = module.text[:start]
    begin = text.rindex(one.arg or "", 0, start)
    return Span(begin, begin + len(one.arg or ""))


def _unpacked(call: ast.Call, module: ScriptModule) -> Iterator[tuple[str, Span]]:
    """The keywords that a dict brings of which all keys show."""
    unpacked = [one.value for one in call.keywords if one.arg is None]
    if len(unpacked) != 1:
        return
    value = module.values.keywords(call)  # as the call gets them
    if value.node.kind == "object" and not value.is_open:
        span = module.values.span(unpacked[0])
        yield from ((member.key, span) for member in value.node.members)
