"""The options that a training script defines itself: their defaults, and how many values they take.

Those are ``add_argument`` of argparse, the fields of the dataclasses that ``HfArgumentParser`` gets, as
``_parse_dataclass_field`` in ``transformers/hf_argparser.py`` adds them, and the parameters of commands.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.script_code import CodePlace, keyword, last_name, literal, place
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.python_names import ModuleNames

COMMANDS = ("Fire", "fire.Fire", "run", "typer.run", "Typer")
_BARE = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
# Of ``add_config_arguments`` in ``deepspeed/__init__.py``.
_OF_DEEPSPEED = {"deepspeed": "0", "deepspeed_config": "1", "deepspeed_mpi": "0", "deepscale": "0"}


class ScriptArgument(NamedTuple):
    """An argument of the command line.

    ``default`` is UNKNOWN if it is computed, and words are converted to ``kind``: "bool", "float", "int", "text" or
    "?". ``flags`` are the options that set it, without dashes, which take "0", "1", "?" or "+" values.
    """

    default: Any
    kind: str
    place: CodePlace
    flags: tuple[str, ...]
    takes: str


def script_arguments(names: ModuleNames) -> dict[str, ScriptArgument]:
    """The arguments that a script declares; what two declarations of one disagree about is unknown."""
    found: dict[str, ScriptArgument] = {}
    for name, argument in (*_fields(names), *_added(names), *_of_commands(names)):
        if (before := found.get(name)) is not None:
            flags = tuple(dict.fromkeys((*before.flags, *argument.flags)))
            default = argument.default if before.default == argument.default else UNKNOWN
            kind, takes = (
                one if one == other else "?"
                for one, other in ((before.kind, argument.kind), (before.takes, argument.takes))
            )
            argument = ScriptArgument(default, kind, argument.place, flags, takes)  # noqa: PLW2901
        found[name] = argument
    return found


def _fields(names: ModuleNames) -> Iterator[tuple[str, ScriptArgument]]:
    """The fields of dataclasses."""
    for node in names.every(ast.ClassDef):
        if not _is_dataclass(node):
            continue
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                value = statement.value
                if isinstance(value, ast.Call) and last_name(value) in ("field", "Field"):
                    value = keyword(value, "default")
                name, declared = statement.target.id, ast.unparse(statement.annotation)
                takes = "+" if "list" in declared.lower() else "?" if "bool" in declared.lower() else "1"
                default, kind = _default(value, names), _kind(declared)
                yield name, ScriptArgument(default, kind, place(statement.target), (name,), takes)


def _is_dataclass(node: ast.ClassDef) -> bool:
    decorators = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return any(dotted_name(one).endswith("dataclass") for one in decorators)


def _added(names: ModuleNames) -> Iterator[tuple[str, ScriptArgument]]:
    """The arguments of argparse."""
    for call in names.calls:
        if last_name(call) == "add_config_arguments":
            for name, takes in _OF_DEEPSPEED.items():
                yield name, ScriptArgument(UNKNOWN, "?", place(call.func), (name,), takes)
        if last_name(call) != "add_argument":
            continue
        written = [one for one in map(literal, call.args) if isinstance(one, str)]
        named = [one for one in written if one.startswith("--")] or written
        dest = keyword(call, "dest")
        keeps = literal(dest) if isinstance(dest, ast.Constant) else _plain(named[0]) if named else None
        if isinstance(keeps, str):
            flags = tuple(_plain(one) for one in written if one.startswith("-"))
            yield keeps, _argument(call, names)._replace(flags=flags)


def _plain(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _argument(call: ast.Call, names: ModuleNames) -> ScriptArgument:
    """What ``add_argument`` says of an argument."""
    action, default, converts, values = (keyword(call, one) for one in ("action", "default", "type", "nargs"))
    where = place(default if default is not None else call.func)
    does = "store" if action is None else literal(action)
    if does in _BARE:
        takes = "0"
    elif values is None:
        takes = "1" if does in (None, "store", "append") else "?"  # an action of the script's own
    else:
        number = literal(values)
        takes = "+" if number in ("+", "*") or isinstance(number, int) else "?"
    if does in ("store_true", "store_false"):
        value = _default(default, names) if default is not None else does == "store_false"
        return ScriptArgument(value, "bool", where, (), takes)
    if does != "store":
        return ScriptArgument(UNKNOWN, "?", where, (), takes)
    kind = _kind(dotted_name(converts)) if converts is not None else "text"
    value = None if default is None else _default(default, names)
    return ScriptArgument(value, "?" if kind == "bool" else kind, where, (), takes)  # "False" is true for ``bool``


def _of_commands(names: ModuleNames) -> Iterator[tuple[str, ScriptArgument]]:
    """The parameters of functions that Fire or Typer makes a command of."""
    for call in names.calls:
        for one in call.args if dotted_name(call.func) in COMMANDS else ():
            for function in names.functions.get(dotted_name(one), []):
                kinds = {given.arg: given.annotation for given in function.args.args}
                for name, default in parameter_defaults(function).items():
                    annotation = kinds.get(name)
                    kind = _kind(ast.unparse(annotation)) if annotation is not None else "text"
                    yield name, ScriptArgument(_default(default, names), kind, place(default), (), "1")


def parameter_defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    """The parameters of a function that have a default."""
    order, given = [one.arg for one in function.args.args], function.args.defaults
    return dict(zip(order[len(order) - len(given) :], given, strict=True))


def _default(node: ast.expr | None, names: ModuleNames) -> Any:
    """A default that is written out, or a constant of the module; UNKNOWN for any other, and for a required field."""
    if isinstance(node, ast.Name):
        found = names.assignments(node.id, node)
        node = found[0].value if len(found) == 1 else None
    try:
        value = UNKNOWN if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN
    return value if value is None or isinstance(value, (bool, int, float, str)) else UNKNOWN


def _kind(annotation: str) -> str:
    if re.search(r"\b(?:list|List|Sequence|tuple|Tuple|dict|Dict)\b", annotation):
        return "?"
    if "Literal[" in annotation:
        return "text"
    found = re.search(r"\b(?:bool|float|int|str)\b", annotation)
    return "?" if found is None else "text" if found[0] == "str" else found[0]
