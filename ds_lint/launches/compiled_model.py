"""A model that a script hands to ``deepspeed.initialize`` in the wrapper of ``torch.compile``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import CodePlace, place
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from ds_lint.launches.script_code import ImportedNames
    from ds_lint.launches.trained_names import TrainedNames, Wrap


class CompiledModel(NamedTuple):
    """Where the model is compiled, and where the engine gets it."""

    place: CodePlace
    engine_place: CodePlace


def compiled_model(trained: TrainedNames, imported: ImportedNames) -> CompiledModel | None:
    """The first model that certainly is compiled when ``deepspeed.initialize`` gets it."""
    for wrap in trained.wraps:
        compiled = _compiled(wrap, trained, imported)
        if compiled is not None:
            return CompiledModel(place(compiled.func), place(wrap.call.func))
    return None


def _compiled(wrap: Wrap, trained: TrainedNames, imported: ImportedNames) -> ast.Call | None:
    """The call of ``torch.compile`` whose result a call of ``deepspeed.initialize`` gets."""
    if not wrap.engines or not wrap.models:
        return None
    model, names = wrap.models[0], trained.names
    if isinstance(model, ast.Call):
        return model if _compiles(model, imported) else None
    name = dotted_name(model)
    if not isinstance(model, ast.Name):
        return None
    stores = [one for one in trained.stores.get(name, []) if names.means_the_same(name, one, model)]
    before = [one for one in stores if one.lineno < wrap.call.lineno]
    last = max(before, key=lambda one: one.lineno, default=None)
    statement = names.parents.get(last) if last is not None else None
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(value, ast.Call) or not _compiles(value, imported):
        return None
    is_here = names.places[value].scope is names.places[wrap.call].scope
    return value if is_here and trained.precedes(value, wrap.call) else None


def _compiles(call: ast.Call, imported: ImportedNames) -> bool:
    """Whether a call wraps a model: one with ``disable`` may return it as it is."""
    is_compile = imported.full_name(dotted_name(call.func)) == "torch.compile"
    return is_compile and bool(call.args) and all(one.arg not in (None, "disable") for one in call.keywords)
