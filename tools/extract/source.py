"""Python source as an extractor reads it: with ``ast``, never by importing it.

A ``LookupError`` says that a release is not laid out as the extractor knows it: silence would claim that the library
does nothing.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.extract import forms
from tools.extract.releases import number

if TYPE_CHECKING:
    from pathlib import Path

Names = Mapping[str, ast.expr]  # what a local name stands for
Definition = ast.FunctionDef | ast.ClassDef
_LONGEST = 60  # of a piece of source in an error

_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


class Statement(NamedTuple):
    """One statement of a function, with the conditions under which it runs.

    ``returned`` are the conditions under which the function has returned before.
    """

    node: ast.stmt
    only_if: tuple[ast.expr, ...]
    names: Names
    returned: tuple[tuple[ast.expr, ...], ...] = ()

    def calls(self) -> Iterator[ast.Call]:
        """Every call that the statement makes itself."""
        return (node for node in ast.walk(self.node) if isinstance(node, ast.Call))

    def verify_reached(self) -> None:
        """That the conditions of the statement say all: an early return is one more."""
        for tests in self.returned:
            condition = " and ".join(ast.unparse(test) for test in tests)
            raise LookupError(f"before {brief(self.node)}, the function returns where {condition}")


class Module(ast.Module):  # its name too, by which visitors of ast find their method
    """The syntax tree of a file, which knows where it is from."""

    path: Path


def parse(path: Path) -> Module:
    """The syntax tree of a file."""
    if not path.is_file():
        raise LookupError(f"there is no {path}")
    tree = Module(forms.simplified(ast.parse(path.read_text(encoding="utf-8"), path)).body, [])
    tree.path = path
    return tree


def predates(package: Path, release: str) -> bool:
    """Whether a package says that it is older than a release, and so may lack what came with that.

    One that does not say it is taken for new, of which everything is expected.
    """
    for name, pattern in _VERSIONS.items():
        path = package / name
        stated = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE) if path.is_file() else None
        if stated is not None:
            return number(stated[1]) < number(release)
    return False


_VERSIONS = {  # where a package says its version; the latter two are DeepSpeed's
    "__init__.py": r"""^__version__ = ["'](\d+(?:\.\d+)*)""",
    "git_version_info_installed.py": r"^version='(\d+(?:\.\d+)*)",
    "../version.txt": r"^(\d+(?:\.\d+)*)$",
}


def find(tree: ast.AST, name: str) -> Definition:
    """The function or class of this name."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return node
    raise LookupError(f"there is no {name}{_where(tree)}")


def _where(tree: ast.AST) -> str:
    """The place of a syntax tree, as the end of a sentence."""
    if isinstance(tree, Module):
        return f" in {tree.path}"
    return f" in {tree.name}" if isinstance(tree, (ast.FunctionDef, ast.ClassDef)) else ""


def statements(function: Definition) -> list[Statement]:
    """The simple statements of a function in their order; a loop over constants is written out."""
    found: list[Statement] = []
    returned: list[tuple[ast.expr, ...]] = []
    for one in _statements(function.body, (), _assigned_once(function)):
        known = {ast.unparse(test) for test in one.only_if}
        earlier = (tests for tests in returned if known.isdisjoint(ast.unparse(negated(test)) for test in tests))
        found.append(one._replace(returned=tuple(earlier)))
        if isinstance(one.node, ast.Return) and one.only_if:
            returned.append(one.only_if)
    return found


def literal(node: ast.expr | None, names: Names) -> Any:
    """The value of an expression that is a constant, also through local names; None if it is none."""
    try:
        return ast.literal_eval(_spelled(node, names)) if node is not None else None
    except ValueError:
        return None


def text(node: ast.expr, names: Names, receivers: Mapping[str, str]) -> str:
    """An expression in field terms: local names replaced by what they stand for, and receivers as given.

    ``args.learning_rate`` with the receiver ``args`` named "" is ``learning_rate``.
    """
    others = {name: value for name, value in names.items() if name not in receivers}
    return ast.unparse(_Renamed(receivers).visit(_spelled(node, others)))


def calls(node: ast.expr, names: Names) -> list[ast.Call]:
    """The calls in an expression, also those that local names stand for."""
    return [part for part in ast.walk(_spelled(node, names)) if isinstance(part, ast.Call)]


def negated(test: ast.expr) -> ast.expr:
    """The opposite of a condition, without a double negation."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITES:
        return ast.Compare(test.left, [_OPPOSITES[type(test.ops[0])]()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


def literal_items(node: ast.expr | None) -> dict[str, ast.expr]:
    """The members of a dict display that have plain names."""
    if not isinstance(node, ast.Dict):
        return {}
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def items(node: ast.expr | None, what: str) -> dict[str, ast.expr]:
    """The members of a dict display, all of which must have plain names; ``what`` it is, for the error."""
    found = literal_items(node)
    if not isinstance(node, ast.Dict) or len(found) != len(node.keys):
        raise LookupError(f"{what} is not a dict with its keys written out: {brief(node)}")
    return found


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The argument that a call passes by this name."""
    return next((argument.value for argument in call.keywords if argument.arg == name), None)


def fields(cls: Definition) -> dict[str, dict[str, Any]]:
    """The public fields of a dataclass: type as text and default; ``default_is`` if the default is not a constant.

    ``bare`` is what a flag without a value stands for, if the metadata of the field have that.
    """
    return {
        node.target.id: {"type": ast.unparse(node.annotation), **default(node.value), **_bare(node.value)}
        for node in cls.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _is_field(node.target.id, node)
    }


def _is_field(name: str, node: ast.AnnAssign) -> bool:
    return not name.startswith("_") and "ClassVar" not in ast.unparse(node.annotation)


def own_fields(cls: Definition, bases: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """The fields of a dataclass that has no others; ``bases`` are those whose fields are read elsewhere."""
    inherited = [ast.unparse(base) for base in getattr(cls, "bases", ()) if ast.unparse(base) not in bases]
    if inherited:
        raise LookupError(f"{cls.name} inherits from {', '.join(inherited)}, whose fields are not read")
    found = fields(cls)
    if not found:
        raise LookupError(f"{cls.name} declares no field")
    return found


def brief(node: ast.AST | None) -> str:
    """The beginning of a piece of source, for an error."""
    text = ast.unparse(node) if node is not None else "nothing"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def refusals(
    function: Definition, receivers: Mapping[str, str], *, all_conditions: bool = True
) -> Iterator[tuple[str, list[str]]]:
    """Every message that a function raises with, and under which conditions, which must be all that there are.

    It is an error if the function passes a message to another function, or raises one that it receives.
    """
    if callee := next(_handed_on(function), None):
        raise LookupError(f"{function.name} hands a message to {callee}, which may raise and is not read")
    handed = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    for statement in statements(function):
        raised = statement.node.exc if isinstance(statement.node, ast.Raise) else None
        if isinstance(raised, ast.Call) and raised.args:
            if isinstance(raised.args[0], ast.Name) and raised.args[0].id in handed:
                raise LookupError(f"{function.name} raises with a message that it is handed")
            if all_conditions:
                statement.verify_reached()
            yield _message(raised.args[0], statement.names), conditions(statement, receivers)


def _handed_on(function: Definition) -> Iterator[str]:
    """The functions that are handed a sentence, other than those that only say it."""
    nodes = list(ast.walk(function))
    raised = {id(node.exc) for node in nodes if isinstance(node, ast.Raise)}
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        texts = (part for argument in call.args for part in _texts(argument))
        is_reported = name.split(".")[0] in _SAYING or name.endswith(".append")
        if id(call) not in raised and not is_reported and any(len(one.split()) > 2 for one in texts):
            yield name


# The last refuses another version of a library.
_SAYING = ("LOG", "logger", "logging", "print", "warnings", "require_version")


def _texts(node: ast.expr) -> list[str]:
    """The constant parts of a text that is written out."""
    parts = ast.walk(node) if isinstance(node, (ast.BinOp, ast.Constant, ast.JoinedStr)) else ()
    values = (part.value for part in parts if isinstance(part, ast.Constant))
    return [value for value in values if isinstance(value, str)]


def raising(tree: ast.AST) -> set[str]:
    """The names of the functions that raise an exception of their own."""
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(part, ast.Raise) and part.exc is not None for part in ast.walk(node))
    }


def called(function: ast.AST) -> set[str]:
    """The last names of what a function calls: ``check`` of ``self.plugin.check()``."""
    return {ast.unparse(node.func).rpartition(".")[2] for node in ast.walk(function) if isinstance(node, ast.Call)}


def conditions(statement: Statement, receivers: Mapping[str, str]) -> list[str]:
    """When a statement runs, in field terms; that there is something to work on goes without saying."""
    parts = [part for test in statement.only_if for part in _conjuncts(test)]
    texts = (_condition(test, statement.names, receivers) for test in parts if not _asks_for_presence(test))
    return [one for one in texts if "is_auto(" not in one]  # nothing but "auto" is ever filled


def _condition(test: ast.expr, names: Names, receivers: Mapping[str, str]) -> str:
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.In, ast.NotIn)):
        key = literal(test.left, names)
        if isinstance(key, str) and ast.unparse(test.comparators[0]).endswith("config"):
            return f"{key} is {'present' if isinstance(test.ops[0], ast.In) else 'missing'}"
    return text(test, names, receivers)


def _conjuncts(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _asks_for_presence(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.IsNot):
        return False
    return isinstance(test.left, ast.Name) and ast.unparse(test.comparators[0]) == "None"


def _statements(body: list[ast.stmt], only_if: tuple[ast.expr, ...], names: Names) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, ast.If):
            yield from _statements(node.body, (*only_if, node.test), names)
            yield from _statements(node.orelse, (*only_if, negated(node.test)), names)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            for bound in _rounds(node, names):
                yield from _statements(node.body, only_if, bound)
            yield from _statements(node.orelse, only_if, names)
        elif isinstance(node, ast.While):
            yield from _statements(node.body, (*only_if, node.test), names)
            yield from _statements(node.orelse, only_if, names)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            yield from _statements(node.body, only_if, names)
        elif isinstance(node, _TRIES):
            handlers = (handler.body for handler in node.handlers)
            for part in (node.body, *handlers, node.orelse, node.finalbody):
                yield from _statements(part, only_if, names)
        elif isinstance(node, ast.Match) or (hasattr(node, "body") and not isinstance(node, _DEFINITIONS)):
            raise LookupError(f"a statement is not followed: {brief(node)}")
        else:
            yield Statement(node, only_if, names)


_TRIES = (ast.Try, getattr(ast, "TryStar", ast.Try))  # Python 3.10 has no except*
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _rounds(loop: ast.For | ast.AsyncFor, names: Names) -> Iterator[Names]:
    """The names in each round of a loop over constants; one round with the names as they are for any other loop."""
    constants = literal(loop.iter, names)
    if isinstance(loop.target, ast.Name) and isinstance(constants, (list, tuple)):
        for constant in constants:
            yield {**names, loop.target.id: ast.Constant(constant)}
    else:
        yield names


def _assigned_once(function: Definition) -> Names:
    """The local names with one meaning: assigned in one place, and no part of that assignment."""
    nodes = list(ast.walk(function))
    stored = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    stored.update(node.arg for node in nodes if isinstance(node, ast.arg))
    values = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    return {name: value for name, value in values.items() if stored[name] == 1 and name not in _read(value)}


def _read(expression: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _bare(value: ast.expr | None) -> dict[str, Any]:
    """``const`` in the metadata of a field, which HfArgumentParser gives to argparse."""
    found = metadata(value, "const")
    return {"bare": found["const"]} if found else {}


def metadata(value: ast.expr | None, *names: str) -> dict[str, Any]:
    """Items of these names in the metadata of a field; HfArgumentParser gives all that are there to argparse."""
    display = keyword(value, "metadata") if isinstance(value, ast.Call) else None
    if not isinstance(display, ast.Dict):
        return {}
    return {
        key.value: ast.literal_eval(given)
        for key, given in zip(display.keys, display.values, strict=True)
        if isinstance(key, ast.Constant) and key.value in names
    }


def default(value: ast.expr | None) -> dict[str, Any]:
    """The default of a field or parameter; ``default_is`` if it is not a constant."""
    if value is None:
        return {}
    is_field = isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in ("field", "Field")
    if isinstance(value, ast.Call) and any(
        one.arg is None if is_field else one.arg in ("default", "default_factory") for one in value.keywords
    ):
        raise LookupError(f"a default is given by {brief(value)}")
    if isinstance(value, ast.Call) and is_field:
        factory = keyword(value, "default_factory")
        given = keyword(value, "default") or next(iter(value.args), None)  # the latter is pydantic's
        return {"default_is": ast.unparse(factory)} if factory else default(given)
    try:
        return {"default": ast.literal_eval(value)}
    except ValueError:
        return {"default_is": ast.unparse(value)}


def _message(node: ast.expr, names: Names) -> str:
    """The text of a message, with "..." for what is put in at run time."""
    node = _spelled(node, names)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return f"{_message(node.left, {})} {_message(node.right, {})}"
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return " ".join("".join(str(literal(part, {}) or "...") for part in parts).split())


def _spelled(node: ast.expr, names: Names) -> ast.expr:
    """An expression with what its local names stand for; the tree that it was taken from stays as it is."""
    spelled: ast.expr = _Spelled(names).visit(copy.deepcopy(node))
    return spelled


class _Spelled(ast.NodeTransformer):
    """Puts in what local names stand for."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Put in the value of one name, whose own names may stand for something too."""
        if not isinstance(node.ctx, ast.Load) or node.id not in self._names:
            return node
        others = {name: value for name, value in self._names.items() if name != node.id}
        return _spelled(self._names[node.id], others)


class _Renamed(ast.NodeTransformer):
    """Names whom an attribute belongs to, or leaves that out."""

    def __init__(self, receivers: Mapping[str, str]) -> None:
        self._receivers = receivers

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Rename the receiver of one attribute."""
        if not isinstance(node.value, ast.Name) or node.value.id not in self._receivers:
            return ast.Attribute(self.visit(node.value), node.attr, ast.Load())
        owner = self._receivers[node.value.id]
        return ast.Attribute(_name(owner), node.attr, ast.Load()) if owner else _name(node.attr)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())
