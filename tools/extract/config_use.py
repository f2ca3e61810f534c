"""What a statement of transformers or accelerate does to the config: fill an ``"auto"``, or write a key."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from tools.extract import source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tools.extract.history import Facts


class Use(NamedTuple):
    """One place that gives a key of the config a value: ``facts`` say which, when and on which conditions."""

    key: str
    facts: Facts


def collected(uses: Iterable[Use]) -> Facts:
    """The uses of each key, in the order in which they happen."""
    collection: Facts = {}
    for use in uses:
        collection.setdefault(use.key, {"sources": []})["sources"].append(use.facts)
    return collection


def fill(
    value: ast.expr, statement: source.Statement, stage: str, receivers: Mapping[str, str], *, matched: bool
) -> Facts:
    """What an ``"auto"`` is replaced by; ``matched`` where any other value must equal it."""
    statement.verify_reached()
    facts: Facts = {"from": source.text(value, statement.names, receivers), "at": stage, "matched": matched}
    kind = _number(value)
    if kind:
        facts["number"] = kind
    return facts | _only_if(source.conditions(statement, receivers))


def overwrites(statement: source.Statement, stage: str, receivers: Mapping[str, str]) -> Iterator[Use]:
    """The keys that a statement sets whatever is there."""
    return (write.use for write in _writes(statement, stage, receivers) if not write.where_missing)


def inserts(statement: source.Statement, stage: str, receivers: Mapping[str, str]) -> Iterator[Use]:
    """The keys that a statement sets where the config does not have them."""
    return (write.use for write in _writes(statement, stage, receivers) if write.where_missing)


class _Write(NamedTuple):
    use: Use
    where_missing: bool


def _writes(statement: source.Statement, stage: str, receivers: Mapping[str, str]) -> Iterator[_Write]:
    conditions = source.conditions(statement, receivers)
    for key, value in _assignments(statement):
        statement.verify_reached()
        others = [condition for condition in conditions if condition != f"{key} is missing"]
        facts = {"with": source.text(value, statement.names, receivers), "at": stage, **_only_if(others)}
        yield _Write(Use(key, facts), where_missing=others != conditions)


def _assignments(statement: source.Statement) -> Iterator[tuple[str, ast.expr]]:
    """The key paths that a statement assigns in a config, and their values."""
    node, names = statement.node, statement.names
    read: set[int] = set()
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        read.add(id(node.targets[0]))
        key = _key(node.targets[0], names)
        if key is not None and ".get(" not in ast.unparse(node.value):  # keeps what is there
            yield key, node.value
    for call in statement.calls():
        if not isinstance(call.func, ast.Attribute) or not _is_config(call.func.value, names):
            continue
        if call.func.attr == "update":
            given = call.args[0] if len(call.args) == 1 and not call.keywords else None
            yield from source.items(given, f"what {ast.unparse(call.func)} takes").items()
        elif call.func.attr in _OTHER_WRITES:
            raise LookupError(f"the config is written by {source.brief(call)}")
    for part in ast.walk(node):
        is_written = isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store)
        if isinstance(part, ast.Subscript) and is_written and id(part) not in read and _key(part, names) is not None:
            raise LookupError(f"the config is written by {source.brief(node)}")


_OTHER_WRITES = ("setdefault", "__setitem__", "set_value")


def _key(target: ast.Subscript, names: source.Names) -> str | None:
    """The key path of ``config["section"]["key"]``; None for anything else."""
    is_inner = isinstance(target.value, ast.Subscript)
    section = _key(target.value, names) if isinstance(target.value, ast.Subscript) else ""
    if section is None or not (is_inner or _is_config(target.value, names)):
        return None
    name = source.literal(target.slice, names)
    if not isinstance(name, str):
        raise LookupError(f"a key of the config is {source.brief(target.slice)}")  # noqa: TRY004 - another layout
    return f"{section}.{name}" if section else name


def _is_config(node: ast.expr, names: source.Names) -> bool:
    """Whether an expression, or what its local name stands for, is a config by its name."""
    return any(text.endswith("config") for text in (ast.unparse(node), source.text(node, names, {})))


def _only_if(conditions: list[str]) -> Facts:
    return {"only_if": conditions} if conditions else {}


def _number(value: ast.expr) -> str | None:
    """Whether an expression gives an integer or a float, where it shows: DeepSpeed refuses floats for some keys."""
    if isinstance(value, ast.Call):
        return "integer" if ast.unparse(value.func) in ("int", "math.ceil") else None
    parts = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
    return "float" if isinstance(value, ast.BinOp) and any(isinstance(part, float) for part in parts) else None
