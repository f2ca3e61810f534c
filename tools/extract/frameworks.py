"""What a release of a framework makes of a recipe, read from its source.

The fields that a recipe may have, the defaults that differ from those of transformers, what the framework sets itself,
and how it renames fields.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint import frameworks
from ds_lint.frameworks.layout import SourcePart
from tools.extract import source
from tools.extract.releases import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.frameworks.layout import SourceLayout
    from ds_lint.frameworks.record import Framework

SCHEMAS = Path(__file__).parent.parent.parent / "schemas"

Facts = dict[str, Any]
Assigned = dict[str, list[tuple[str, list[str]]]]  # by training argument, each expression with its conditions
FRAMEWORKS = {name: one for name, one in frameworks.FRAMEWORKS.items() if one.source is not None}


def is_of(part: SourcePart, release: str | None) -> bool:
    """Whether a release must have a part; None is any that is newer than those that are known."""
    if release is None:
        return not part.before
    is_older = not part.before or number(release) < number(part.before)
    return number(release) >= number(part.since) and is_older


def extract(framework: Framework, tree: Path, release: str | None = None) -> Facts:
    """What one release makes of a recipe; one without a number counts as new."""
    layout = framework.source
    if layout is None:
        raise LookupError(f"the record of {framework.name} does not say where its source has the fields")
    known = transformers_fields()
    fields = defaults(classes(tree, layout, release))
    functions = [one for path in files(tree, layout.builders, release) for one in _functions(path)]
    renames = framework.renames
    assigned = _assigned(functions, layout.names, all_conditions=renames)
    if layout.builders and not assigned:
        raise LookupError(f"no builder assigns anything to {' or '.join(layout.names)}")
    facts: Facts = {"fields": sorted(set(fields) - known)}
    if renames:
        _verify_nothing_hides(functions, layout.names)
        assigned = _with_words(assigned, tree)
        facts["defaults"] = {name: value for name, value in sorted(fields.items()) if value not in (None, NO_CONSTANT)}
        facts["unknown"] = sorted(name for name, value in fields.items() if value == NO_CONSTANT)
        facts["arguments"] = {
            name: [{"value": value, "only_if": only_if} for value, only_if in uses]
            for name, uses in sorted(assigned.items())
            if name in known
        }
    else:
        _verify_attributes(functions, layout)
        sets = {name for name, uses in assigned.items() for _, only_if in uses if f"{name} is None" not in only_if}
        fills = set(assigned) - sets
        own = {name for name in fields if name in known}
        uncertain = {name for name in own if fields[name] in (None, NO_CONSTANT)} | fills
        if layout.has_several_configs:
            uncertain |= own
        facts["defaults"] = {name: fields[name] for name in sorted(own - uncertain)}
        facts["unknown"] = sorted(uncertain & known)
        facts["sets"] = sorted(sets & known)
    facts["behaviours"] = [name for name, does in _BEHAVIOURS.items() if any(map(does, functions))]
    return facts


NO_CONSTANT = "$not a constant"


def _gives_muon_matrices(function: ast.FunctionDef) -> bool:
    """Whether the optimizer Muon gets the parameters of two dimensions."""
    tests = (ast.unparse(node.test) for node in ast.walk(function) if isinstance(node, ast.If))
    return "muon" in function.name and any("param.ndim == 2" in test for test in tests)


_BEHAVIOURS = {"muon-takes-matrices": _gives_muon_matrices}


def transformers_fields() -> set[str]:
    """The fields of TrainingArguments in any release."""
    store = json.loads((SCHEMAS / "transformers.json").read_text(encoding="utf-8"))
    return set(store["training_arguments"])


def files(tree: Path, parts: Iterable[SourcePart], release: str | None) -> Iterator[Path]:
    """The files of these parts in a release."""
    for part in parts:
        if is_of(part, release):
            found = sorted(tree.glob(part.what))
            if not found:
                raise LookupError(f"there is no {part.what} in {tree}")
            yield from found


# ------------------------------------------------------------------------------------------------------------- fields


def defaults(known: Iterable[ast.ClassDef]) -> dict[str, Any]:
    """The fields of classes with their defaults; where classes differ, that is ``NO_CONSTANT``."""
    found: dict[str, Any] = {}
    for cls in known:
        for name, field in source.fields(cls).items():
            value = field.get("default", NO_CONSTANT)
            is_same = json.dumps(found.setdefault(name, value)) == json.dumps(value)  # 1, 1.0 and True differ
            found[name] = value if is_same else NO_CONSTANT
    return found


class _Class(NamedTuple):
    node: ast.ClassDef
    module: source.Module


def classes(tree: Path, layout: SourceLayout, release: str | None) -> list[ast.ClassDef]:
    """The classes that a recipe is read into, and those below them in the framework."""
    known: dict[str, list[_Class]] = {}
    for path in files(tree, layout.modules, release):
        module = source.parse(path)
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                known.setdefault(node.name, []).append(_Class(node, module))
    pending, found = list[_Class](), list[ast.ClassDef]()
    for root in layout.roots:
        named = [cls for name, classes in known.items() if re.fullmatch(root.what, name) for cls in classes]
        if not named and is_of(root, release):
            raise LookupError(f"no class {root.what} in {', '.join(part.what for part in layout.modules)} of {tree}")
        pending += named
    while pending:
        cls = pending.pop()
        if cls.node not in found:
            found.append(cls.node)
            for base in cls.node.bases:
                name = ast.unparse(base).split(".")[-1]
                if name not in known and name not in layout.unread:
                    _verify_foreign(cls, name, layout)
                pending += known.get(name, ())
    return found


def _import_name(layout: SourceLayout) -> str:
    """The package as its modules import each other."""
    return layout.modules[0].what.removeprefix("**/").partition("/")[0]


def _verify_foreign(cls: _Class, base: str, layout: SourceLayout) -> None:
    """A base whose fields are not read is one of another library."""
    for node in ast.walk(cls.module):
        if isinstance(node, ast.ImportFrom) and base in [alias.asname or alias.name for alias in node.names]:
            origin = node.module or ""
            if not node.level and origin.partition(".")[0] != _import_name(layout):
                return
            raise LookupError(f"{cls.node.name} inherits from {base}, which is in {'.' * node.level}{origin}")
        if isinstance(node, ast.Name) and node.id == base and isinstance(node.ctx, ast.Store):
            return
    if base != "object":
        raise LookupError(f"{cls.node.name} inherits from {base}, which is not found")


# ---------------------------------------------------------------------------------------------------------- arguments


def _functions(path: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(source.parse(path)) if isinstance(node, ast.FunctionDef))


def _assigned(functions: Iterable[ast.FunctionDef], receivers: Iterable[str], *, all_conditions: bool) -> Assigned:
    """What is assigned to training arguments, as an attribute or an item: the expressions and their conditions.

    ``all_conditions`` where these must be all that there are.
    """
    owners = set(receivers)
    spelled = dict.fromkeys(owners, "") | {"self": ""}
    found: Assigned = {}
    for function in functions:
        for statement in source.statements(function):
            node = statement.node
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                name = _target(target, owners, statement.names)
                if name is not None:
                    if all_conditions:
                        statement.verify_reached()
                    names = {key: value for key, value in statement.names.items() if key not in owners}
                    value = source.text(node.value, names, spelled)
                    only_if = [source.text(test, names, spelled) for test in statement.only_if]
                    found.setdefault(name, []).append((_plain(value), [_plain(one) for one in only_if]))
    return found


def _target(target: ast.expr, owners: set[str], names: source.Names) -> str | None:
    """The training argument that is assigned to."""
    if isinstance(target, ast.Attribute) and ast.unparse(target.value) in owners:
        return target.attr
    if isinstance(target, ast.Subscript) and ast.unparse(target.value) in owners:
        name = source.literal(target.slice, names)
        return name if isinstance(name, str) else None
    return None


def _verify_attributes(functions: list[ast.FunctionDef], layout: SourceLayout) -> None:
    """Training arguments that are an object get their attributes by assignments, in the functions that are read."""
    owners = {f"{name}{suffix}" for name in layout.names for suffix in ("", ".__dict__")}
    owners |= {f"vars({name})" for name in layout.names}
    handed = {name for name in layout.names if name != "self"}  # which every other call is handed
    known = {*(function.name for function in functions), *_READERS, *layout.readers}
    for function in functions:
        for node in ast.walk(function):
            target = node.value if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else None
            if target is not None and ast.unparse(target) in owners - {*layout.names}:
                raise LookupError(f"training arguments are set by an item of {ast.unparse(target)}")
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            owner, _, method = called.rpartition(".")
            passed = {ast.unparse(one) for one in (*node.args, *(keyword.value for keyword in node.keywords))}
            is_written = called in _SETTERS and bool(node.args) and ast.unparse(node.args[0]) in owners
            is_written |= owner in layout.names and method == "__setattr__"
            is_written |= owner in owners - {*layout.names} and method in ("__setitem__", "setdefault", "update")
            if is_written and function.name not in layout.loaders:
                raise LookupError(f"training arguments are set by {source.brief(node)}")
            if passed & handed and called not in known and method not in known:
                raise LookupError(f"training arguments are handed to {called}, which is not read")


_READERS = ("bool", "dict", "getattr", "hasattr", "id", "isinstance", "print", "repr", "str", "type", "vars")
_SETTERS = ("setattr", "object.__setattr__", "dataclasses.replace", "replace")


def _verify_nothing_hides(functions: list[ast.FunctionDef], owners: tuple[str, ...]) -> None:
    """The dicts of training arguments are filled item by item, in the functions that are read."""
    defined = {function.name for function in functions}
    for node in (part for function in functions for part in ast.walk(function)):
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) in owners:
            raise LookupError(f"training arguments are added by {source.brief(node)}")
        is_whole = isinstance(node, ast.Assign) and any(ast.unparse(target) in owners for target in node.targets)
        if isinstance(node, ast.Assign) and is_whole and _is_filled(node.value):
            raise LookupError(f"training arguments are made by {source.brief(node)}")
        if not isinstance(node, ast.Call):
            continue
        owner, _, method = ast.unparse(node.func).rpartition(".")
        if owner in owners and (method not in ("get", "pop", "update") or _is_own(node, defined)):
            raise LookupError(f"training arguments are added by {source.brief(node)}")
        if any(ast.unparse(argument) in owners for argument in node.args) and method not in defined:
            raise LookupError(f"training arguments are handed to {ast.unparse(node.func)}, which is not read")


def _is_filled(made: ast.expr) -> bool:
    """Whether a dict has items from the beginning."""
    if isinstance(made, ast.Call):
        return ast.unparse(made.func) == "dict" and bool(made.args or made.keywords)
    return isinstance(made, ast.DictComp) or (isinstance(made, ast.Dict) and bool(made.keys))


def _is_own(call: ast.Call, defined: set[str]) -> bool:
    """Whether a dict is updated with arguments of the builder itself, and not with those of a plugin."""
    given = call.args[0] if call.args else None
    is_made_here = isinstance(given, ast.Call) and ast.unparse(given.func).rpartition(".")[2] in defined
    return ast.unparse(call.func).endswith(".update") and (
        bool(call.keywords) or isinstance(given, (ast.Dict, ast.DictComp)) or is_made_here
    )


def _with_words(assigned: Assigned, tree: Path) -> Assigned:
    """Expressions with the words of an enumeration instead of a loop over it."""
    enumeration = "CustomSupportedOptimizers"
    (path, *_) = files(tree, [SourcePart("**/axolotl/utils/schemas/enums.py")], None)
    members = source.find(source.parse(path), enumeration).body
    words = [source.literal(node.value, {}) for node in members if isinstance(node, ast.Assign)]
    loop = f"[opt.value for opt in {enumeration}]"
    spelled = {
        name: [(value, [one.replace(loop, repr(words)) for one in only_if]) for value, only_if in uses]
        for name, uses in assigned.items()
    }
    left = [one for uses in spelled.values() for value, only_if in uses for one in (value, *only_if)]
    if not words or None in words or any(enumeration in one for one in left):
        raise LookupError(f"the words of {enumeration} are used in another way than {loop}")
    return spelled


def _plain(expression: str) -> str:
    """``getattr(cfg, 'x')`` as ``cfg.x``; that a config has an attribute goes without saying."""
    expression = re.sub(r"getattr\(cfg, '(\w+)'(?:, None)?\)", r"cfg.\1", expression)
    return re.sub(r"hasattr\(cfg, '\w+'\) and ", "", expression)
