"""How the settings of FSDP reach ``FullyShardedDataParallelPlugin``: as flags, variables and fields.

``prepare_multi_gpu_env`` (``utils/launch.py``) writes the variables, ``__post_init__`` and ``set_state_dict_type`` of
the plugin (``utils/dataclasses.py``) read them, some of them for one version of FSDP only.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from tools.extract import source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.extract.history import Facts

_PLUGIN = "FullyShardedDataParallelPlugin"
_VERSIONS = (1, 2)
_METHODS = ("__post_init__", "set_state_dict_type")
_NAME = re.compile("FSDP_[A-Z_]+")
_WORDS = {  # and the release since which each is there
    "FSDP_SHARDING_STRATEGY": "0.11",
    "FSDP_AUTO_WRAP_POLICY": "0.11",
    "FSDP_BACKWARD_PREFETCH": "0.11",
    "FSDP_STATE_DICT_TYPE": "0.12",
}
# The converters of a text; what none of them reads stays a text.
_KINDS = {"str_to_bool": "flag", "int": "integer"}


def variables(package: Path) -> Iterator[tuple[str, Facts]]:
    """The variable that each argument of the launch is written into.

    ``if_given`` says that None leaves the variable out, ``lowered`` that the text is written in small letters.
    """
    function = source.find(source.parse(package / "utils" / "launch.py"), "prepare_multi_gpu_env")
    read: set[str] = set()
    for statement in source.statements(function):
        node = statement.node
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        name = _variable(target)
        if not isinstance(node, ast.Assign) or not name.startswith("FSDP_"):
            continue
        read.add(name)
        value = node.value.body if isinstance(node.value, ast.IfExp) else node.value
        attributes = [part.attr for part in ast.walk(value) if isinstance(part, ast.Attribute)]
        argument = next((name for name in attributes if name != "lower"), None)
        if argument is None:
            raise LookupError(f"{function.name} writes {source.brief(value)} into {name}, which is not an argument")
        facts: Facts = {"variable": name, "lowered": ast.unparse(value).endswith(".lower()")}
        if any("is not None" in ast.unparse(test) and argument in ast.unparse(test) for test in statement.only_if):
            facts["if_given"] = True
        yield argument, facts
    if unread := sorted(_named_in(function) - read):
        raise LookupError(f"{function.name} names {unread[0]} without writing it into current_env")
    if not read:
        raise LookupError(f"{function.name} writes no variable of FSDP into current_env")


def fields(dataclasses: ast.Module) -> Facts:
    """The fields of the plugin that variables set, in the order in which they are read.

    ``versions`` are the versions of FSDP for which a variable counts, ``checked`` those for which it is converted and
    then dropped; ``policy`` is the one for which it counts; ``refused`` are the comparisons for which version 2 raises.
    """
    plugin = source.find(dataclasses, _PLUGIN)
    methods = [source.find(plugin, name) for name in _METHODS]
    read: Facts = {}
    body = [one for method in methods for one in source.statements(method)]
    for version in _VERSIONS:
        given: set[str] = set()
        for statement in body:
            _follow(statement, version, given, read)
    known = {facts["variable"] for facts in read.values()}
    for method in methods:
        for variable, how in _variables(method):
            if variable not in known or not how.startswith("os.environ.get("):
                raise LookupError(f"{method.name} of {_PLUGIN} reads {variable} by {how}, of which no field is read")
    if not read:
        raise LookupError(f"{_PLUGIN} reads no variable")
    for statement in body:
        if refused := _refused_types(statement):
            read["state_dict_type"]["refused"] = refused
    return read


def _variables(method: source.Definition) -> Iterator[tuple[str, str]]:
    """The variables that a method names in a call, or looks up, and the source that does it."""
    names = source.statements(method)[0].names
    for node in ast.walk(method):
        parts = node.args if isinstance(node, ast.Call) else []
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            parts = [node.slice]
        for part in parts:
            variable = _text(part, names) if isinstance(part, (ast.BinOp, ast.Constant)) else ""
            if _NAME.fullmatch(variable):
                yield variable, ast.unparse(node)


def _named_in(function: source.Definition) -> set[str]:
    """The variables whose names are written out in a function."""
    constants = (node.value for node in ast.walk(function) if isinstance(node, ast.Constant))
    return {one for one in constants if isinstance(one, str) and _NAME.fullmatch(one)}


def words(package: Path) -> Iterator[tuple[str, Facts]]:
    """The words for a setting, in the order of their numbers."""
    path = package / "utils" / "constants.py"
    assigned = {
        ast.unparse(node.targets[0]): node.value for node in source.parse(path).body if isinstance(node, ast.Assign)
    }
    for name, since in _WORDS.items():
        if source.predates(package, since):
            continue
        choices = source.literal(assigned.get(name), {})
        if not isinstance(choices, list) or not choices:
            raise LookupError(f"{name} is not a list of words in {path}")
        yield name, {"choices": choices}


def _variable(target: ast.expr | None) -> str:
    """The name in ``current_env["NAME"]``; "" for any other target."""
    is_one = isinstance(target, ast.Subscript) and ast.unparse(target.value) == "current_env"
    return str(source.literal(target.slice, {})) if is_one and isinstance(target, ast.Subscript) else ""


def _follow(statement: source.Statement, version: int, given: set[str], read: Facts) -> None:
    """Note what a statement does with a field of a plugin of this version, which is made without arguments."""
    node = statement.node
    target = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""
    if not isinstance(node, ast.Assign) or not target.startswith("self."):
        return
    if not all(_holds(test, version, given) for test in statement.only_if):
        return
    name = target.removeprefix("self.")
    made_of = source.calls(node.value, statement.names)
    lookup = next((call for call in made_of if ast.unparse(call.func) == "os.environ.get"), None)
    if lookup is not None and name not in given:
        facts = read.setdefault(name, _facts(lookup, made_of, statement))
        facts.setdefault("versions", []).append(version)
        given.add(name)
    elif name in read and ast.unparse(node.value) == "None" and _is_for(statement, version):
        read[name]["versions"].remove(version)
        read[name].setdefault("checked", []).append(version)


def _facts(lookup: ast.Call, made_of: list[ast.Call], statement: source.Statement) -> Facts:
    """What is known of a field that is read with this call, beside the other calls of its value."""
    variable, *otherwise = lookup.args
    facts: Facts = {"variable": _text(variable, statement.names)}
    if otherwise:
        facts["otherwise"] = _otherwise(otherwise[0])
    if kind := next((_KINDS[name] for call in made_of if (name := ast.unparse(call.func)) in _KINDS), None):
        facts["kind"] = kind
    if policy := next(filter(None, (_policy(test) for test in statement.only_if)), None):
        facts["policy"] = policy
    return facts


def _otherwise(node: ast.expr) -> Any:
    """What stands in for a variable: a constant, or one for each version."""
    if isinstance(node, ast.IfExp):
        return {
            str(version): ast.literal_eval(node.body if _holds(node.test, version, set()) else node.orelse)
            for version in _VERSIONS
        }
    return ast.literal_eval(node)


def _text(node: ast.expr, names: source.Names) -> str:
    """A constant text, also a sum of texts."""
    if isinstance(node, ast.BinOp):
        return _text(node.left, names) + _text(node.right, names)
    return str(source.literal(node, names))


def _holds(test: ast.expr, version: int, given: set[str]) -> bool:
    """Whether a condition may hold for a version; ``given`` are the fields that are not None."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(_holds(part, version, given) for part in test.values)
    if isinstance(test, ast.Compare) and ast.unparse(test.left) == "self.fsdp_version":
        is_same = ast.literal_eval(test.comparators[0]) == version
        return is_same if isinstance(test.ops[0], ast.Eq) else not is_same
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        return (ast.unparse(test.left).removeprefix("self.") in given) == isinstance(test.ops[0], ast.IsNot)
    return True


def _is_for(statement: source.Statement, version: int) -> bool:
    """Whether a statement is for one version, whatever else there is."""
    return all(ast.unparse(test).startswith(f"self.fsdp_version == {version} and ") for test in statement.only_if)


def _refused_types(statement: source.Statement) -> list[str]:
    """The comparisons of the type of state dict with which version 2 raises, such as ``== LOCAL_STATE_DICT``."""
    if not isinstance(statement.node, ast.Raise) or not _is_for(statement, 2):
        return []
    compared = (part for test in statement.only_if for part in ast.walk(test) if isinstance(part, ast.Compare))
    return [
        f"{'==' if isinstance(one.ops[0], ast.Eq) else '!='} {ast.unparse(one.comparators[0]).rpartition('.')[2]}"
        for one in compared
        if ast.unparse(one.left) == "self.state_dict_type"
    ]


def _policy(test: ast.expr) -> str | None:
    """The word for a policy that a condition compares with."""
    if isinstance(test, ast.Compare) and ast.unparse(test.left) == "self.auto_wrap_policy.upper()":
        word = source.literal(test.comparators[0], {})
        return word if isinstance(test.ops[0], ast.Eq) else None
    return None
