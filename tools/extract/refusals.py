"""Bring ``schemas/refusals.json`` up to new releases of the frameworks that reject what they cannot train.

    python -m tools.extract.refusals axolotl 0.22.0
    python -m tools.extract.refusals --cache DIR [--check]

Read are the functions that look at DeepSpeed or FSDP, ``__post_init__``, and those of the same file that they call:
each message that one raises with, and when, if fields of the framework and DeepSpeed decide. A field that the framework
itself sets may have another value by then: it is ``changed.NAME``, of which nothing is known. Without a framework, all
releases of the store are read again. Standard output is the change log.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import partial
from typing import TYPE_CHECKING

from ds_lint import frameworks
from tools.extract import source
from tools.extract.framework_stores import FrameworkStore
from tools.extract.framework_stores import main as run
from tools.extract.frameworks import NO_CONSTANT, Facts, classes, defaults, files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ds_lint.frameworks.layout import SourceLayout
    from ds_lint.frameworks.record import Framework

FRAMEWORKS = {
    name: one for name, one in frameworks.FRAMEWORKS.items() if one.source is not None and one.source.refusing
}
RECEIVERS = dict.fromkeys(("training_args", "finetuning_args", "model_args", "data_args", "self"), "")
# What a condition may have beside fields; ``ds_lint/facts/refusals.py`` has the values.
KNOWN = {"is_deepspeed_zero3_enabled", "parallel_mode", "ParallelMode"}
SAME = {"deepspeed", "fsdp", "fsdp_config"}  # are set again to what is in the files that they name
_ASKS = ("deepspeed", "fsdp")
_MAKES = "__post_init__"
_CHANGED = "changed"


def extract(framework: Framework, tree: Path, release: str | None = None) -> Facts:
    """Why a release rejects a recipe or flags with DeepSpeed, and the defaults of the fields that decide."""
    layout = framework.source
    if layout is None or not layout.refusing:
        raise LookupError(f"the record of {framework.name} does not say where it rejects anything")
    known = classes(tree, layout, release)
    fields = defaults(known)
    trees = [source.parse(path) for path in dict.fromkeys(files(tree, layout.refusing, release))]
    hidden = {name for module in trees for name in _set_in(module)} - SAME
    taken = fields.keys() | {name for module in trees for name in _of_trainer(module)}
    found: dict[str, Facts] = {}
    everyones = _everyones(known, layout)
    for module in trees:
        others = [
            cls
            for cls in ast.walk(module)
            if isinstance(cls, ast.ClassDef) and not _is_everyones(cls, everyones, layout)
        ]
        apart = [one for cls in others for one in cls.body]
        for function in (one for one in _looking(module) if one not in apart):
            for message, conditions in _refusals(function):
                only_if = [_without(one, hidden) for one in conditions]
                if only_if and all(_may_hold(one, taken | KNOWN | SAME) for one in only_if):
                    number = sum(key.partition(" #")[0] == message for key in found)
                    found[f"{message} #{number + 1}" if number else message] = {"only_if": only_if}
    read = sorted({name for one in found.values() for test in one["only_if"] for name in _names(test)} - {"deepspeed"})
    return {
        "refusals": found,
        "defaults": {name: {"default": fields[name]} for name in read if fields.get(name, NO_CONSTANT) != NO_CONSTANT},
    }


def _looking(module: ast.Module) -> list[ast.FunctionDef]:
    """The functions that look at DeepSpeed or FSDP or make an argument class, and those that they certainly call."""
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    found = [one for one in functions if one.name == _MAKES or any(word in ast.unparse(one) for word in _ASKS)]
    statements = (one for function in found for one in source.statements(function) if not one.only_if)
    called = {ast.unparse(call.func).rpartition(".")[2] for one in statements for call in one.calls()}
    return [one for one in functions if one in found or one.name in called]


def _everyones(known: Sequence[ast.ClassDef], layout: SourceLayout) -> set[str]:
    """The argument classes that check whatever is trained.

    A root that inherits from another one is for one kind of training, as ``RLHFArguments`` is.
    """
    by_name = {cls.name: cls for cls in known}
    roots = [name for name in by_name if any(re.fullmatch(root.what, name) for root in layout.roots)]
    return {
        name
        for root in roots
        if not any(one in _bases(by_name[root], by_name) for one in roots)
        for name in (root, *_bases(by_name[root], by_name))
    }


def _is_everyones(cls: ast.ClassDef, everyones: set[str], layout: SourceLayout) -> bool:
    """Whether a class checks whatever is trained; one that inherits from a root stands for it, as axolotl's does."""
    is_root = any(re.fullmatch(root.what, cls.name) for root in layout.roots)
    extends_root = any(re.fullmatch(root.what, ast.unparse(base)) for root in layout.roots for base in cls.bases)
    return cls.name in everyones or (extends_root and not is_root)


def _bases(cls: ast.ClassDef, by_name: Mapping[str, ast.ClassDef]) -> set[str]:
    """The classes that one inherits from, by name."""
    names = {ast.unparse(base).rpartition(".")[2] for base in cls.bases} & by_name.keys()
    return names.union(*(_bases(by_name[name], by_name) for name in names))


def _refusals(function: ast.FunctionDef) -> Iterator[tuple[str, list[str]]]:
    try:
        messages = [message for message, _ in source.refusals(function, RECEIVERS, all_conditions=False)]
    except LookupError:
        return  # a message that another function raises with, which is not read
    raising = [one for one in source.statements(function) if _raises(one.node)]
    handled = [one for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) for one in ast.walk(node)]
    for message, statement in zip(messages, raising, strict=True):
        if statement.node in handled:
            continue  # it depends on what is installed
        only_if = [source.text(test, statement.names, RECEIVERS) for test in statement.only_if]
        only_if += list(_otherwise_returned(function, statement, RECEIVERS))
        yield message, [_by_name(one) for one in only_if]


def _raises(node: ast.stmt) -> bool:
    """Whether a statement raises an exception with a message."""
    return isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and bool(node.exc.args)


def _otherwise_returned(function: ast.FunctionDef, statement: source.Statement, receivers: Facts) -> Iterator[str]:
    """The conditions under which a function has not returned before a statement."""
    for earlier in source.statements(function):
        if earlier.node is statement.node:
            return
        if isinstance(earlier.node, ast.Return) and earlier.only_if:
            tests = (f"({source.text(test, earlier.names, receivers)})" for test in earlier.only_if)
            yield f"not ({' and '.join(tests)})"


def _by_name(text: str) -> str:
    """A condition with names for ``data.get("name")``."""
    return ast.unparse(_Items().visit(ast.parse(text, mode="eval")))


class _Items(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        is_item = ast.unparse(node.func) in ("data.get", "getattr") and ast.unparse(node.args[0]) != "data"
        key = node.args[0] if ast.unparse(node.func) == "data.get" else node.args[1] if len(node.args) > 1 else None
        is_item = is_item and isinstance(key, ast.Constant) and isinstance(key.value, str)
        rest = node.args[1:] if ast.unparse(node.func) == "data.get" else node.args[2:]
        nothing = all(isinstance(one, ast.Constant) and not one.value for one in rest)
        return ast.Name(str(key.value)) if is_item and nothing and isinstance(key, ast.Constant) else node


def _names(text: str) -> set[str]:
    """The names in a condition; of what is not evaluated, a name that no field has."""
    tree = ast.parse(text, mode="eval")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    functions = {id(call.func) for call in calls if ast.unparse(call.func) in _FUNCTIONS}
    is_open = any(isinstance(node, ast.Subscript) for node in ast.walk(tree)) or not all(map(_is_evaluated, calls))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions}
    return names | {"?"} if is_open else names


_FUNCTIONS = ("str",)
_METHODS = ("lower", "startswith")


def _is_evaluated(call: ast.Call) -> bool:
    """Whether ``ds_lint/knowledge/expressions.py`` evaluates a call."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS
    return is_method or ast.unparse(call) == _IS_STAGE_3 or ast.unparse(call.func) in _FUNCTIONS


_IS_STAGE_3 = "is_deepspeed_zero3_enabled()"


def _without(text: str, hidden: set[str]) -> str:
    """A condition in which the fields that the framework sets have no value."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in hidden:
            node.id = f"{_CHANGED}.{node.id}"
    return ast.unparse(tree)


def _may_hold(text: str, taken: set[str]) -> bool:
    """Whether known fields alone may make a condition true."""
    node = ast.parse(text, mode="eval").body
    parts = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) else [node]
    return any(_names(ast.unparse(part)) <= taken for part in parts)


def _of_trainer(module: ast.Module) -> Iterator[str]:
    """The training arguments that a module reads."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "training_args":
            yield node.attr


def _set_in(module: ast.Module) -> Iterator[str]:
    """The fields that a module sets itself: in classes, and in the functions that are read."""
    read = _looking(module)
    parts = [one for one in module.body if not isinstance(one, ast.FunctionDef) or one in read]
    for node in (node for one in parts for node in ast.walk(one)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "data":
            yield str(source.literal(node.slice, {}))


def _is_line(value: object, depth: int, _key: str) -> bool:
    """Each list and each record."""
    if not isinstance(value, dict):
        return True
    is_flat = depth > 0 and not any(isinstance(one, (dict, list)) for one in value.values())
    return is_flat or not value.keys().isdisjoint(("only_if", "default", "runs"))


STORE = FrameworkStore("refusals", FRAMEWORKS, extract, _is_line)
main = partial(run, STORE, __doc__)

if __name__ == "__main__":
    sys.exit(main())
