"""The DeepSpeed config that a training script names: by the keyword of a call, or as a file that it opens.

A file counts as opened for DeepSpeed if all that the script does with what is read shows: which keys it changes.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.argument_classes import arguments_class
from ds_lint.launches.options import CONFIG_FLAGS
from ds_lint.launches.script_code import last_name
from ds_lint.launches.script_modules import ScriptModule
from ds_lint.launches.script_paths import path_of
from ds_lint.source.python_names import dotted_name
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ds_lint.launches.script_options import ScriptArgument
    from ds_lint.launches.training_ways import ArgumentsWay
    from ds_lint.source.python_names import ModuleNames

_KEYWORDS = ("deepspeed", "config", "config_params", "hf_ds_config")
_TAKERS = ("deepspeed.initialize", "DeepSpeedPlugin", "DeepSpeedStrategy", "HfDeepSpeedConfig", "TrainingArguments")
_TAKE_FIRST = ("DeepSpeedPlugin", "HfDeepSpeedConfig", "HfTrainerDeepSpeedConfig")
_ENDINGS = (".json", ".hjson")
_LOADS = ("json.load", "json.loads")
_READING = frozenset({
    "bool", "debug", "deepcopy", "dump", "dumps", "info", "isinstance", "len", "pprint", "print", "repr", "str", "type",
})  # fmt: skip
_GIVEN_ON = (ast.Assign, ast.AnnAssign, ast.Return, ast.Starred, ast.Dict, ast.List, ast.Tuple)


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
        values = [given.value if given is not None else None, field.default if field is not None else None]
        words = way.words or ()
        values += [value for name, value in pairwise(words) if name == "--deepspeed"]
        for value in (*values, *(one.partition("=")[2] for one in words if one.startswith("--deepspeed="))):
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


def imported_config(module: ScriptModule) -> tuple[str, int] | None:
    """The config that a script imports as a dict and only hands to DeepSpeed: its module, and where it begins there."""
    for call in module.names.calls:
        for keyword in call.keywords:
            value = keyword.value
            if keyword.arg in _KEYWORDS and isinstance(value, ast.Name) and _is_taken(value, module.names):
                found = module.imported_dict(value.id)
                if found is not None and all(_is_taken(use, module.names) for use in module.names.uses[value.id]):
                    return found
    return None


def changed_keys(module: ScriptModule) -> tuple[tuple[str, ...], ...]:
    """The keys of the config that a script loads from a file, changes and hands to DeepSpeed."""
    found: dict[tuple[str, ...], None] = {}
    for call in module.names.calls:
        if dotted_name(call.func).endswith(_LOADS):
            for use in _uses_of(call, module.names):
                found.update(dict.fromkeys(_changed(use, module.names) or ()))
    return tuple(found)


def _is_for_deepspeed(opened: ast.Call, names: ModuleNames) -> bool:
    around = names.parents.get(opened)
    file = around.optional_vars if isinstance(around, ast.withitem) else None
    loaded: ast.AST | None = around
    if isinstance(file, ast.Name):
        readers = [names.parents.get(use) for use in names.uses.get(file.id, [])]
        loaded = readers[0] if len(readers) == 1 else None
    if not isinstance(loaded, ast.Call) or not dotted_name(loaded.func).endswith(_LOADS):
        return False
    return _is_taken(loaded, names) or bool(_uses_of(loaded, names))


def _uses_of(loaded: ast.Call, names: ModuleNames) -> list[ast.expr]:
    """The uses of the variable that gets what is loaded; none unless DeepSpeed gets it, and all changes show."""
    statement = names.parents.get(loaded)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    name = target.id if isinstance(target, ast.Name) else ""
    uses = names.uses.get(name, [])
    is_alone = bool(name) and len(names.assignments(name, loaded)) == 1
    if not is_alone or not any(_is_taken(use, names) for use in uses):
        return []
    return uses if all(_is_taken(use, names) or _changed(use, names) is not None for use in uses) else []


def _changed(use: ast.expr, names: ModuleNames) -> list[tuple[str, ...]] | None:
    """The keys that a use of a config changes; None if that does not show."""
    path: tuple[str, ...] = ()
    node = use
    while isinstance(parent := names.parents[node], ast.Subscript) and parent.value is node:
        if not (isinstance(parent.slice, ast.Constant) and isinstance(parent.slice.value, str)):
            return [path] if path else None
        path, node = (*path, parent.slice.value), parent
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return [path]
    if isinstance(parent, ast.Attribute):
        call = names.parents[parent]
        if not (isinstance(call, ast.Call) and call.func is parent):
            return [path] if path else None
        return _changed_by(call, parent.attr, path)
    around = names.parents[parent] if isinstance(parent, ast.keyword) else parent
    if isinstance(around, ast.Call):
        is_read = dotted_name(around.func).rpartition(".")[2] in _READING
        return [] if is_read else [path] if path else None
    is_given_on = isinstance(
        parent, (ast.Assign, ast.AnnAssign, ast.Return, ast.Starred, ast.Dict, ast.List, ast.Tuple)
    )
    return ([path] if path else None) if is_given_on else []


def _changed_by(call: ast.Call, method: str, path: tuple[str, ...]) -> list[tuple[str, ...]] | None:
    """The keys that a method of a dict changes."""
    if method in ("get", "items", "keys", "values", "copy"):
        return []
    keys: list[ast.expr | None] = list(call.args[:1])
    if method == "update":
        given = call.args[0] if call.args else None
        keys = list(given.keys) if isinstance(given, ast.Dict) else [given] if given is not None else []
    names = [one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else None for one in keys]
    names += [one.arg for one in call.keywords] if method == "update" else []
    if method not in ("update", "setdefault", "pop") or None in names:
        return [path] if path else None
    return [(*path, name) for name in names if name is not None]


def _is_taken(node: ast.expr, names: ModuleNames) -> bool:
    """Whether DeepSpeed gets a value, or transformers so that it knows the stage."""
    around = names.parents.get(node)
    call = names.parents.get(around) if isinstance(around, ast.keyword) else around
    if isinstance(around, ast.keyword) and around.arg in ("config_params", "deepspeed", "hf_ds_config"):
        return True
    return isinstance(call, ast.Call) and dotted_name(call.func).endswith(_TAKERS)


class NamedConfig(NamedTuple):
    """The path of a config in a script, the place of its text, and the line."""

    path: str
    span: Span
    line: int


def configs_named_in(text: str, path: str) -> list[NamedConfig]:
    """The configs that a script hands to DeepSpeed by their paths, whole ones beside the script."""
    try:
        module = ScriptModule(text, path, None)
        return list(_named_configs(module))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _named_configs(module: ScriptModule) -> Iterator[NamedConfig]:
    names = module.names
    for call in names.calls:
        taker = dotted_name(call.func)
        values = [one.value for one in call.keywords if _takes_config(taker, one.arg, module)]
        if last_name(call) in _TAKE_FIRST:
            values += call.args[:1]
        elif taker == "open" and call.args and _is_for_deepspeed(call, names):
            values.append(call.args[0])
        for value in values:
            for path in _path(value, module, {}):
                yield NamedConfig(path, _span_of(value, path, module), value.lineno)


def _takes_config(taker: str, keyword: str | None, module: ScriptModule) -> bool:
    """Whether a keyword of a call takes the path of a DeepSpeed config."""
    if keyword in ("config_params", "hf_ds_config"):
        return True
    if keyword == "deepspeed":
        return arguments_class(taker, module) is not None
    return keyword == "config" and taker.endswith(("deepspeed.initialize", "DeepSpeedStrategy"))


def _span_of(value: ast.expr, path: str, module: ScriptModule) -> Span:
    """The text of a path, or of its end if it is put together; the expression if there is none."""
    inside = [node for node in ast.walk(value) if isinstance(node, ast.Constant)]
    for node in (*inside, *module.names.every(ast.Constant)):
        if isinstance(node.value, str) and node.value.endswith(_ENDINGS) and path.endswith(node.value.lstrip("./")):
            span = module.values.span(node)
            start = module.text.find(node.value, span.start, span.end)
            return span if start < 0 else Span(start, start + len(node.value))
    return module.values.span(value)
