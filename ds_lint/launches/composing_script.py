"""How a script composes its config with Hydra or OmegaConf, and to whom it hands a mapping of it.

What is not written out, such as a path that the script computes, makes the config unknown.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.source.python_names import ModuleNames, dotted_name
from ds_lint.source.python_syntax import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.source.tree import KeyPath

_MARKS = ("hydra", "OmegaConf")
_UNWRAPPED = ("to_container", "dict", "to_object", "deepcopy")
_INITIALIZES = ("deepspeed.initialize", "ds.initialize")
_CONFIGS = ("cfg", "config", "conf", "hparams", "args")
_OF_ARGUMENTS = ("args.", "opt.", "options.", "cli.", "opts.")


class HandedOver(NamedTuple):
    """A mapping of the config that a call takes; it is a fragment if the script may change it before."""

    path: KeyPath
    stack: Stack
    is_fragment: bool


class ComposingScript(NamedTuple):
    """``name`` and ``folder`` are those of Hydra's config, relative to the script; ``files`` those that are merged.

    An element of ``files`` is a path, or the name of an argument of the command line after ``--``. ``takes_words``
    says that words of the command line count. ``changed`` are the keys that the script itself sets afterwards.
    """

    name: str
    folder: str
    files: tuple[str, ...]
    takes_words: bool
    handed_over: tuple[HandedOver, ...]
    changed: tuple[KeyPath, ...]

    @property
    def is_of_hydra(self) -> bool:
        """Whether Hydra composes it."""
        return not self.files


def composing_script(text: str) -> ComposingScript | None:
    """How a script composes its config; None if it does not, or it does not show."""
    if not any(mark in text for mark in _MARKS):
        return None
    try:
        names = ModuleNames(parsed(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    handed_over, changed = tuple(_handed_over(names)), tuple(_changed(names))
    found = list(_mains(names))
    if len(found) == 1:
        name, folder = found[0]
        return ComposingScript(name, folder, (), takes_words=True, handed_over=handed_over, changed=changed)
    files = tuple(_loaded(names)) if not found else ()
    if not files or "" in files:
        return None
    calls = {dotted_name(call.func).rpartition(".")[2] for call in names.calls}
    takes_words = "from_cli" in calls
    if takes_words and ("merge" not in calls or any(_has_arguments(call) for call in _called(names, "from_cli"))):
        return None
    if not takes_words and "from_dotlist" in calls:
        return None
    return ComposingScript("", "", files, takes_words, handed_over, changed)


def _has_arguments(call: ast.Call) -> bool:
    return bool(call.args or call.keywords)


def _called(names: ModuleNames, last: str) -> list[ast.Call]:
    return [call for call in names.calls if dotted_name(call.func).rpartition(".")[2] == last]


def _mains(names: ModuleNames) -> Iterator[tuple[str, str]]:
    """The name and folder of each function that ``hydra.main`` decorates."""
    for node in names.every(ast.FunctionDef):
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call) or dotted_name(decorator.func) not in ("hydra.main", "main"):
                continue
            given = {keyword.arg: keyword.value for keyword in decorator.keywords}
            given.update(zip(("config_path", "config_name"), decorator.args, strict=False))
            if "config_name" not in given and "config_path" not in given:
                continue
            name, folder = (_text(given[one], names) if one in given else "" for one in ("config_name", "config_path"))
            if name is not None and folder is not None:
                yield name, folder


def _text(node: ast.expr, names: ModuleNames) -> str | None:
    """A text that is written out, or assigned once to a name."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "" if node.value is None else None
    if isinstance(node, ast.Name):
        assigned = names.assignments(node.id, node)
        if len(assigned) == 1 and isinstance(assigned[0].value, ast.Constant):
            return _text(assigned[0].value, names)
    return None


def _loaded(names: ModuleNames) -> Iterator[str]:
    """The files that ``OmegaConf.load`` reads: a path, ``--name`` for an argument, "" if it does not show."""
    for call in names.calls:
        if dotted_name(call.func) != "OmegaConf.load" or len(call.args) != 1:
            continue
        text = _text(call.args[0], names)
        argument = dotted_name(call.args[0])
        if text:
            yield text
        elif argument.startswith(_OF_ARGUMENTS) and argument.count(".") == 1:
            yield f"--{argument.partition('.')[2]}"
        else:
            yield ""


def _changed(names: ModuleNames) -> Iterator[KeyPath]:
    """The keys below the name of the config that the script sets; ``update`` and the like may set any below theirs."""
    targets = [target for node in names.every(ast.Assign) for target in node.targets]
    targets += [node.target for node in names.every(ast.AugAssign)]
    for target in targets:
        if isinstance(target, (ast.Attribute, ast.Subscript)) and (path := _keys(target)) is not None:
            yield path
    for call in names.calls:
        method = dotted_name(call.func)
        if method == "OmegaConf.update" and len(call.args) > 1:
            key = call.args[1].value if isinstance(call.args[1], ast.Constant) else ""
            yield tuple(key.split(".")) if isinstance(key, str) and key else ()
        elif isinstance(call.func, ast.Attribute) and call.func.attr in ("update", "setdefault", "merge_with", "pop"):
            path = _keys(call.func.value)
            if path is not None:
                yield path


def _keys(node: ast.expr) -> KeyPath | None:
    """The keys of ``cfg.a["b"]``, up to one that is computed; None if it does not begin with the name of a config."""
    keys: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            keys.insert(0, node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            keys = [key, *keys] if isinstance(key, str) else []
            node = node.value
        else:
            return None
    return tuple(keys) if node.id in _CONFIGS else None


def _handed_over(names: ModuleNames) -> Iterator[HandedOver]:
    for call in names.calls:
        name = dotted_name(call.func)
        last = name.rpartition(".")[2]
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        stack: Stack
        if name in _INITIALIZES:
            value, stack = keywords.get("config") or keywords.get("config_params"), "deepspeed"
        elif last == "DeepSpeedStrategy":
            value, stack = keywords.get("config"), "deepspeed"
        elif last.endswith(("Arguments", "Config")) and "deepspeed" in keywords:
            value, stack = keywords["deepspeed"], "trainer"
        elif last == "DeepSpeedPlugin":
            value, stack = keywords.get("hf_ds_config"), "accelerate"
        else:
            continue
        if value is None:
            continue
        is_direct = not isinstance(value, ast.Name)
        if isinstance(value, ast.Name):
            assigned = names.assignments(value.id, value)
            uses = [one for one in names.every(ast.Name) if one.id == value.id and isinstance(one.ctx, ast.Load)]
            if len(assigned) != 1 or assigned[0].value is None or len(uses) > 1:
                continue  # the script may change what it hands over
            value = assigned[0].value
        path = _path_in_config(value)
        if path:
            yield HandedOver(path, stack, not is_direct or last == "DeepSpeedStrategy")


def _path_in_config(value: ast.expr) -> KeyPath:
    """The keys of ``OmegaConf.to_container(cfg.a.b)``, without the name of the config; empty for anything else."""
    while isinstance(value, ast.Call) and dotted_name(value.func).rpartition(".")[2] in _UNWRAPPED and value.args:
        value = value.args[0]
    first, *keys = (dotted_name(value) or "").split(".")
    return tuple(keys) if first in _CONFIGS else ()
