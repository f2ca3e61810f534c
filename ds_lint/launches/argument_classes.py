"""The classes of training arguments: those of transformers and trl, and those of a project below them.

A dataclass of the project has its own defaults, and those that its bases add, over those of the library.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge import trl
from ds_lint.launches.script_code import ARGUMENTS
from ds_lint.launches.script_modules import DefinedClass
from ds_lint.launches.script_options import ScriptArgument, fields_of, is_dataclass
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.script_modules import ScriptModule

_READY = "__post_init__"  # which makes a config of the fields of transformers
_DEEPEST = 8
TRANSFORMERS, TRL = "transformers", "trl"


class ArgumentsClass(NamedTuple):
    """A class of training arguments.

    ``library`` has the root of it, "" if that is unknown. ``fields`` are those that the project declares, with their
    defaults. ``changes`` are the fields that its methods set, each with whether that is before the fields are compared
    with the config; ``is_known`` is false if a method may change any field. ``path`` is the module of the project that
    defines it, "" if a library does. ``root`` is the full name of the class of the library, "" if there are several.
    """

    name: str
    library: str
    fields: dict[str, ScriptArgument]
    changes: tuple[tuple[str, bool], ...]
    is_known: bool
    path: str = ""
    root: str = ""


def arguments_class(name: str, module: ScriptModule) -> ArgumentsClass | None:
    """The class of training arguments that a name means in a module; None if it means another."""
    found = _class(module.class_of(name) or name, _DEEPEST)
    return None if found is None else found._replace(name=name)


def dataclass_fields(name: str, module: ScriptModule) -> Iterator[tuple[str, ScriptArgument]]:
    """The fields of a dataclass that a name means in a module and that another module defines."""
    found = module.class_of(name)
    if isinstance(found, DefinedClass) and found.module is not module and is_dataclass(found.node):
        yield from fields_of(found.node, found.module.values)


def _class(found: DefinedClass | str, depth: int) -> ArgumentsClass | None:
    if isinstance(found, str):
        return _of_library(found)
    node, module = found
    bases: list[ArgumentsClass] = []
    fields: dict[str, ScriptArgument] = {}
    is_known = depth > 0
    for base in reversed(node.bases) if depth else ():
        text = dotted_name(base)
        meant = module.class_of(text, but=node) if text else ""
        if (arguments := _class(meant, depth - 1)) is not None:
            bases.append(arguments)
            fields.update(arguments.fields)
        elif isinstance(meant, DefinedClass):
            fields.update(_mixed_in(meant, depth - 1))
        elif text and meant.partition(".")[0] not in ("abc", "typing"):
            is_known = False  # which may have any field
    if not bases:
        return None
    if is_dataclass(node):  # another class declares none
        fields.update(fields_of(node, module.values))
    changes, is_plain = _changes(node)
    return ArgumentsClass(
        node.name,
        bases[-1].library if len({one.library for one in bases}) == 1 else "",
        fields,
        (*(change for one in bases for change in one.changes), *changes),
        is_known and is_plain and all(one.is_known for one in bases),
        module.path,
        bases[-1].root if len({one.root for one in bases}) == 1 else "",
    )


def _of_library(name: str) -> ArgumentsClass | None:
    """A class that the project does not define, by its full name."""
    library, _, last = name.partition(".")
    last = last.rpartition(".")[2] or library
    if library == TRL and name != library:
        is_one = last.endswith("Config") and trl.is_training(trl.class_called(name)) is not False
        return ArgumentsClass(last, TRL, {}, (), is_known=True, root=name) if is_one else None
    if ARGUMENTS.fullmatch(last) is None:
        return None
    is_theirs = library == TRANSFORMERS and last in ("TrainingArguments", "Seq2SeqTrainingArguments")
    return ArgumentsClass(last, TRANSFORMERS if is_theirs else "", {}, (), is_known=True)


def _mixed_in(found: DefinedClass, depth: int) -> Iterator[tuple[str, ScriptArgument]]:
    """The fields of a dataclass that is a base beside the class of training arguments."""
    node, module = found
    for base in reversed(node.bases) if depth > 0 else ():
        meant = module.class_of(dotted_name(base), but=node)
        if isinstance(meant, DefinedClass):
            yield from _mixed_in(meant, depth - 1)
    if is_dataclass(node):
        yield from fields_of(node, module.values)


def _changes(node: ast.ClassDef) -> tuple[list[tuple[str, bool]], bool]:
    """The fields that methods set, and whether they can set no others."""
    found: list[tuple[str, bool]] = []
    is_plain = True
    for method in node.body:
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        ready = [one.lineno for one in ast.walk(method) if isinstance(one, ast.Call) and _is_ready(one)]
        is_plain &= method.name != "__init__" and (method.name != _READY or len(ready) == 1)
        for one in ast.walk(method):
            if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and dotted_name(one.value) == "self":
                found.append((one.attr, _is_before(one, method, ready)))
            elif isinstance(one, ast.Call) and dotted_name(one.func) in ("setattr", "object.__setattr__"):
                named = one.args[1] if len(one.args) > 1 else None
                if isinstance(named, ast.Constant) and isinstance(named.value, str):
                    found.append((named.value, _is_before(one, method, ready)))
                else:
                    is_plain = False
    return found, is_plain


def _is_before(node: ast.expr, method: ast.FunctionDef | ast.AsyncFunctionDef, ready: list[int]) -> bool:
    """Whether something may happen before transformers compares the fields with the config."""
    return method.name != _READY or not ready or node.lineno < ready[0]


def _is_ready(call: ast.Call) -> bool:
    """Whether a call is the one in which transformers compares the fields with the config."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == _READY
