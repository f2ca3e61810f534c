"""The DeepSpeed config that a training script names: by the keyword of a call, or as a file that it opens.

A file counts as opened for DeepSpeed only if nothing but ``deepspeed.initialize`` gets what is read, as the script may
otherwise change it before.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.python_names import ModuleNames

_KEYWORDS = ("deepspeed", "config", "config_params", "hf_ds_config")
_TAKERS = ("deepspeed.initialize", "DeepSpeedPlugin", "DeepSpeedStrategy", "HfDeepSpeedConfig", "TrainingArguments")


def configs(names: ModuleNames) -> Iterator[str]:
    """The paths of DeepSpeed configs, those in keywords first."""
    for call in names.calls:
        for keyword in call.keywords:
            if keyword.arg in _KEYWORDS:
                yield from _path(keyword.value, names)
    for call in names.calls:
        if dotted_name(call.func) == "open" and call.args and _is_for_deepspeed(call, names):
            yield from _path(call.args[0], names)


def calls_with_config(names: ModuleNames) -> Iterator[ast.Call]:
    """The calls that are given the path of a config by a keyword."""
    for call in names.calls:
        if any(one.arg in _KEYWORDS and next(_path(one.value, names), None) for one in call.keywords):
            yield call


def meant(node: ast.expr, names: ModuleNames) -> ast.expr:
    """What a variable stands for that is assigned once; any other expression as it is."""
    found = names.reaching(node.id, node) if isinstance(node, ast.Name) else None
    return found.value or node if found is not None else node


def _path(node: ast.expr, names: ModuleNames) -> Iterator[str]:
    node = meant(node, names)
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith((".json", ".hjson")):
        yield node.value


def _is_for_deepspeed(opened: ast.Call, names: ModuleNames) -> bool:
    around = names.parents.get(opened)
    file = around.optional_vars if isinstance(around, ast.withitem) else None
    loaded: ast.AST | None = around
    if isinstance(file, ast.Name):
        readers = [names.parents.get(use) for use in names.uses.get(file.id, [])]
        loaded = readers[0] if len(readers) == 1 else None
    if not isinstance(loaded, ast.Call) or not dotted_name(loaded.func).endswith("json.load"):
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
