"""The DeepSpeed config that a training script names: by the keyword of a call, or as a file that it opens.

A file counts as opened for DeepSpeed only if nothing but ``deepspeed.initialize`` gets what is read, as the script may
otherwise change it before.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.launches.options import CONFIG_FLAGS
from ds_lint.launches.script_code import last_name
from ds_lint.launches.script_paths import path_of
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ds_lint.launches.script_modules import ScriptModule
    from ds_lint.launches.script_options import ScriptArgument
    from ds_lint.launches.training_ways import ArgumentsWay
    from ds_lint.source.python_names import ModuleNames

_KEYWORDS = ("deepspeed", "config", "config_params", "hf_ds_config")
_TAKERS = ("deepspeed.initialize", "DeepSpeedPlugin", "DeepSpeedStrategy", "HfDeepSpeedConfig", "TrainingArguments")
_TAKE_FIRST = ("DeepSpeedPlugin", "HfDeepSpeedConfig", "HfTrainerDeepSpeedConfig")
_ENDINGS = (".json", ".hjson")


def configs(module: ScriptModule, options: Mapping[str, ScriptArgument], ways: Iterable[ArgumentsWay]) -> Iterator[str]:
    """The paths of DeepSpeed configs, those in keywords first, then defaults of arguments; whole ones beside a script.

    An argument of the command line stands for its default.
    """
    names = module.names
    for call in names.calls:
        for keyword in call.keywords:
            if keyword.arg in _KEYWORDS:
                yield from _path(keyword.value, module, options)
        if last_name(call) in _TAKE_FIRST and call.args:
            yield from _path(call.args[0], module, options)
    for way in ways:
        given = way.given.get("deepspeed")
        field = way.of.fields.get("deepspeed")
        for value in (given.value if given is not None else None, field.default if field is not None else None):
            if isinstance(value, str) and value.endswith(_ENDINGS):
                yield value
    for call in names.calls:
        if dotted_name(call.func) == "open" and call.args and _is_for_deepspeed(call, names):
            yield from _path(call.args[0], module, options)
        elif last_name(call) == "read_text" and _is_for_deepspeed(call, names):
            yield from _path(getattr(call.func, "value", call), module, options)
    for name in CONFIG_FLAGS:
        default = options[name].default if name in options else None
        if isinstance(default, str) and default.endswith(_ENDINGS):
            yield default


def calls_with_config(module: ScriptModule, options: Mapping[str, ScriptArgument]) -> Iterator[ast.Call]:
    """The calls that are given the path of a config by a keyword."""
    for call in module.names.calls:
        if any(one.arg in _KEYWORDS and next(_path(one.value, module, options), None) for one in call.keywords):
            yield call


def _path(node: ast.expr, module: ScriptModule, options: Mapping[str, ScriptArgument]) -> Iterator[str]:
    path = path_of(node, module)
    if path is None and isinstance(node, ast.Attribute) and node.attr in options:
        path = options[node.attr].default
    if isinstance(path, str) and path.endswith(_ENDINGS):
        yield path


def _is_for_deepspeed(opened: ast.Call, names: ModuleNames) -> bool:
    around = names.parents.get(opened)
    file = around.optional_vars if isinstance(around, ast.withitem) else None
    loaded: ast.AST | None = around
    if isinstance(file, ast.Name):
        readers = [names.parents.get(use) for use in names.uses.get(file.id, [])]
        loaded = readers[0] if len(readers) == 1 else None
    if not isinstance(loaded, ast.Call) or not dotted_name(loaded.func).endswith(("json.load", "json.loads")):
        return False
    if _is_taken(loaded, names):
        return True
    statement = names.parents.get(loaded)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    uses = names.uses.get(target.id, []) if isinstance(target, ast.Name) else []
    return bool(uses) and all(_is_taken(use, names) for use in uses)


def _is_taken(node: ast.expr, names: ModuleNames) -> bool:
    """Whether DeepSpeed gets a value, or transformers so that it knows the stage."""
    around = names.parents.get(node)
    call = names.parents.get(around) if isinstance(around, ast.keyword) else around
    return isinstance(call, ast.Call) and dotted_name(call.func).endswith(_TAKERS)
