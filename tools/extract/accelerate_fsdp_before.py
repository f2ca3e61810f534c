"""How ``FullyShardedDataParallelPlugin`` reads its variables up to accelerate 0.33 (``utils/dataclasses.py``).

It keeps what it makes of a variable at once, and compares words as they are written. The policy is read when the model
is known.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tools.extract import source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.extract.history import Facts

UNTIL = "0.34"
_PLUGIN = "FullyShardedDataParallelPlugin"
_METHODS = ("__post_init__", "set_auto_wrap_policy")
_LATER = "set_state_dict_type"  # where newer ones of these releases compare the word for the type
_POLICY = "auto_wrap_policy"
_FLAGS = ("strtobool", "str_to_bool")


def fields(dataclasses: ast.Module) -> Facts:
    """The fields by the names that they have later, in the order in which they are read.

    ``takes`` says whether a field takes ``words`` as its enumeration writes them, ``numbers``, or both.
    """
    plugin = source.find(dataclasses, _PLUGIN)
    taken_later = _takes(source.find(plugin, _LATER)) if _has(plugin, _LATER) else []
    found: Facts = {}
    for name in _METHODS:
        method = source.find(plugin, name)
        prefix = {one: value for one, value in source.statements(method)[0].names.items() if one == "prefix"}
        for place in _places(method):
            for lookup in _lookups(place.read):
                facts = {**_facts(lookup, place.read, prefix), "versions": [1]}
                if place.field == _POLICY:
                    facts["takes"] = []  # any other word means that there is none
                elif name != _METHODS[0]:
                    facts["policy"] = _policy(method, lookup)
                elif "kind" not in facts:
                    takes = _takes(place.used) or (taken_later if place.field == "state_dict_type" else [])
                    facts |= {"takes": takes} if takes else {}
                found.setdefault(place.field, facts)
    lookups = sum(len(list(_lookups(source.find(plugin, name)))) for name in _METHODS)
    if not found or len(found) != lookups:
        raise LookupError(f"{_PLUGIN} looks up {lookups} variables, of which {len(found)} fields are read")
    return found


class _Place:
    """A statement that looks up a variable, the field it is for, and what is done with the value."""

    def __init__(self, field: str, read: ast.AST, used: ast.AST) -> None:
        self.field, self.read, self.used = field, read, used


def _places(method: source.Definition) -> Iterator[_Place]:
    for node in ast.walk(method):
        if isinstance(node, ast.Assign) and any(_lookups(node)):
            name = ast.unparse(node.targets[0])
            around = _around(method, node) if not name.startswith("self.") else node
            yield _Place(name.removeprefix("self.") if name.startswith("self.") else _kept(name, around), node, around)
        elif isinstance(node, ast.If) and any(_lookups(node.test)):
            yield _Place(_switched(node), node.test, node.test)


def _around(method: source.Definition, node: ast.Assign) -> ast.AST:
    """The block of the statement, where the value is used."""
    for block in ast.walk(method):
        if isinstance(block, ast.If) and node in block.body:
            return block
    return node


def _kept(name: str, block: ast.AST) -> str:
    """The field that a local name is for: that which the block fills, unless it has the name of one itself."""
    if name.startswith((_POLICY, "min_")) or "wrap" in name:
        return name
    tested = next((part.left for part in ast.walk(block) if isinstance(part, ast.Compare)), None)
    field = ast.unparse(tested) if tested is not None else ""
    if not field.startswith("self."):
        raise LookupError(f"{name} of {_PLUGIN} is for no field")
    return field.removeprefix("self.")


def _switched(node: ast.If) -> str:
    """The field that is set where a variable is on; one that another variable sets has the name of the variable."""
    (lookup, *_) = _lookups(node.test)
    target = next((ast.unparse(one.targets[0]) for one in node.body if isinstance(one, ast.Assign)), "")
    if isinstance(node.test, ast.BoolOp) or not target:
        return str(ast.literal_eval(lookup.args[0])).removeprefix("FSDP_").lower()
    return target.removeprefix("self.")


def _lookups(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.environ.get":
            yield node


def _facts(lookup: ast.Call, read: ast.AST, names: source.Names) -> Facts:
    variable = lookup.args[0]
    parts = (variable.left, variable.right) if isinstance(variable, ast.BinOp) else (variable,)
    facts: Facts = {"variable": "".join(str(source.literal(part, names)) for part in parts)}
    if len(lookup.args) > 1:
        otherwise = source.literal(lookup.args[1], {})  # None for what the model says
        facts["otherwise"] = str(otherwise) if otherwise is not None else None
    made_of = [ast.unparse(node.func) for node in ast.walk(read) if isinstance(node, ast.Call)]
    if any(name in _FLAGS for name in made_of):
        facts["kind"] = "flag"
    elif "int" in made_of and "FSDP_MIN_NUM_PARAMS" in ast.unparse(lookup):
        facts["kind"] = "integer"
    return facts


def _takes(tree: ast.AST) -> list[str]:
    """Whether words of an enumeration are looked up in a block, and whether numbers are made of the text."""
    made_of = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    taken = {"words": any(name.endswith(".index") for name in made_of), "numbers": "int" in made_of}
    return [name for name, is_taken in taken.items() if is_taken]


def _policy(method: source.Definition, lookup: ast.Call) -> str:
    """The word for the policy in whose branch a variable is looked up."""
    for branch in ast.walk(method):
        test = ast.unparse(branch.test) if isinstance(branch, ast.If) else ""
        is_policy = test.startswith(f"{_POLICY} == FSDP_AUTO_WRAP_POLICY[")
        body = branch.body if is_policy and isinstance(branch, ast.If) else []
        if any(node is lookup for one in body for node in ast.walk(one)):
            return _WORDS[int(test.rpartition("[")[2].rstrip("]"))]
    raise LookupError(f"{ast.unparse(lookup)} of {_PLUGIN} is looked up without a policy")


_WORDS = ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP")  # FSDP_AUTO_WRAP_POLICY


def _has(plugin: source.Definition, name: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in plugin.body)
