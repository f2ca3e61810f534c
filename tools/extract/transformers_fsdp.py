"""Which keys of ``fsdp_config`` the TrainingArguments read: ``_process_fsdp_args`` in ``training_args.py``.

Before 5.10.1, which makes FSDP 2 the default, it works in other ways.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tools.extract import source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.extract.history import Facts

SINCE = "5.10.1"
_FUNCTION = "_process_fsdp_args"
_LEGACY = "_apply_legacy_fsdp_to_config"  # what marks the layout
_VERSIONS = (1, 2)


def config_keys(arguments: ast.Module) -> Facts:
    """The keys, with the ``versions`` of FSDP that read them, and the number of the ``policy`` for which they count.

    ``flag_for`` are the versions for which the text must be true or false.
    """
    source.find(arguments, _LEGACY)
    function = source.find(arguments, _FUNCTION)
    _verify_lookups(function)
    found: Facts = {}
    for statement in source.statements(function):
        for place, test in enumerate(statement.only_if):
            _note(found, test, statement.only_if[:place], statement.names)
        _note(found, statement.node, statement.only_if, statement.names)
    for fact, are_missing in (
        ("flag_for", all("flag_for" not in one for one in found.values())),
        ("versions", all(one["versions"] == [*_VERSIONS] for one in found.values())),
        ("policy_number", all("policy_number" not in one for one in found.values())),
    ):
        if are_missing:
            raise LookupError(f"{_FUNCTION} tells no {fact} of a key of fsdp_config")
    return found


def _verify_lookups(function: source.Definition) -> None:
    """The config is used in no way that hides a key: handed on, or kept under another name."""
    known: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _TAKE_THE_WHOLE:
            known |= {id(argument) for argument in node.args}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _looks_up(node):
            known.add(id(node.func.value))
        elif isinstance(node, ast.Subscript):
            known |= {id(node.value)} if _is_name(node.slice) or isinstance(node.ctx, ast.Store) else set()
        elif isinstance(node, ast.Compare):  # whether it is there, or has the key that is looked up then
            known |= {id(part) for part in (node.left, *node.comparators)}
    attributes = (node for node in ast.walk(function) if isinstance(node, ast.Attribute))
    for node in (one for one in attributes if ast.unparse(one) == _CONFIG and not isinstance(one.ctx, ast.Store)):
        if id(node) not in known:
            raise LookupError(f"{_FUNCTION} uses {_CONFIG} in a way that is not read, in line {node.lineno}")


def _note(found: Facts, node: ast.AST, only_if: tuple[ast.expr, ...], names: source.Names) -> None:
    """Add the keys that a statement or a condition looks up."""
    versions = {version for version in _VERSIONS if all(_holds(test, version) for test in only_if)}
    policy = next((number for test in only_if if (number := _policy(test)) is not None), None)
    value = getattr(node, "value", None)
    made_of = source.calls(value, names) if value is not None else []
    flags = {name for call in made_of if ast.unparse(call.func) == "str_to_bool" for name in _keys(call)}
    for name in {*_keys(node), *flags}:
        facts = found.setdefault(name, {"versions": []})
        facts["versions"] = sorted({*facts["versions"], *versions})
        if name in flags:
            facts["flag_for"] = sorted({*facts.get("flag_for", ()), *versions})
        if policy is not None:
            facts["policy_number"] = policy


def _looks_up(call: ast.Call) -> bool:
    """Whether a call looks up a key that is written out, or renames one."""
    method = ast.unparse(call.func)
    return method == f"{_CONFIG}.pop" or (method in _LOOKS_UP and _is_name(call.args[0]))


def _is_name(node: ast.expr) -> bool:
    return isinstance(source.literal(node, {}), str)


def _keys(tree: ast.AST) -> Iterator[str]:
    """The keys that are looked up, or set to a default that later code reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _LOOKS_UP:
            yield str(source.literal(node.args[0], {}))
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == _CONFIG:
            name = source.literal(node.slice, {})
            if isinstance(node.ctx, ast.Load) and isinstance(name, str):
                yield name


_CONFIG = "self.fsdp_config"
_LOOKS_UP = (f"{_CONFIG}.get", f"{_CONFIG}.setdefault")
_TAKE_THE_WHOLE = ("isinstance", "open", "list", f"self.{_LEGACY}")


def _holds(test: ast.expr, version: int) -> bool:
    """Whether a condition may hold for a version."""
    condition = ast.unparse(test)
    if not condition.startswith("fsdp_version "):
        return True
    return condition in (f"fsdp_version == {version}", f"fsdp_version != {3 - version}")


def _policy(test: ast.expr) -> int | None:
    """The number in ``auto_wrap_policy == FSDP_AUTO_WRAP_POLICY[number]``."""
    for part in ast.walk(test) if not isinstance(test, ast.UnaryOp) else ():  # a negated test
        if isinstance(part, ast.Compare) and ast.unparse(part.left) == "auto_wrap_policy":
            index = part.comparators[0]
            if isinstance(part.ops[0], ast.Eq) and isinstance(index, ast.Subscript):
                return int(ast.literal_eval(index.slice))
    return None
