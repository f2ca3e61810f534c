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
from ds_lint.launches.script_values import constant
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.source.python_names import ModuleNames
    from ds_lint.source.python_values import Values

COMMANDS = ("Fire", "fire.Fire", "run", "typer.run", "Typer")
_BARE = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
_CHANGING = ("append", "clear", "extend", "insert", "pop", "remove")
# Of ``add_config_arguments`` in ``deepspeed/__init__.py``, with how many words each takes; the last is of old releases.
OF_DEEPSPEED = {
    "deepspeed": "0", "deepspeed_config": "1", "deepscale": "0", "deepscale_config": "1", "deepspeed_mpi": "0",
}  # fmt: skip


class ScriptArgument(NamedTuple):
    """An argument of the command line.

    ``default`` is UNKNOWN if it is computed, and words are converted to ``kind``: "bool", "float", "int", "text" or
    "?". ``flags`` are the options that set it, without dashes, which take "0", "1", "?" or "+" values; ``bare`` is
    its value where nothing stands behind them.
    """

    default: Any
    kind: str
    place: CodePlace
    flags: tuple[str, ...]
    takes: str
    bare: Any = UNKNOWN


def script_arguments(names: ModuleNames, values: Values) -> dict[str, ScriptArgument]:
    """The arguments that a script declares."""
    fields = (
        (name, field if not _is_given(name, node, names) else field._replace(default=UNKNOWN))
        for node in names.every(ast.ClassDef)
        if is_dataclass(node)
        for name, field in fields_of(node, values)
    )
    found = united([*fields, *_added(names, values), *_of_commands(names, values)])
    for call in names.calls:
        for given in call.keywords if last_name(call) == "set_defaults" else ():
            if given.arg in found:
                found[given.arg] = found[given.arg]._replace(default=_default(given.value, values), place=place(given))
    if changes_command_line(names):
        return {name: one._replace(default=UNKNOWN, kind="?", bare=UNKNOWN) for name, one in found.items()}
    return found


def _is_given(name: str, node: ast.ClassDef, names: ModuleNames) -> bool:
    """Whether the script makes a dataclass itself and may give it the field."""
    calls = names.calls_by_name.get(node.name, ())
    return any(call.args or any(one.arg in (None, name) for one in call.keywords) for call in calls)


def changes_command_line(names: ModuleNames) -> bool:
    """Whether a script changes ``sys.argv`` before a parser takes it."""
    if names.assignments("sys.argv", names.module):
        return True
    for use in names.uses.get("sys.argv", ()):
        parent = names.parents[use]
        if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
            return True
        if isinstance(parent, ast.Attribute) and parent.attr in _CHANGING:
            return True
    return False


def united(arguments: Iterable[tuple[str, ScriptArgument]]) -> dict[str, ScriptArgument]:
    """Arguments by name; what two declarations of one disagree about is unknown."""
    found: dict[str, ScriptArgument] = {}
    for name, argument in arguments:
        if (before := found.get(name)) is not None:
            flags = tuple(dict.fromkeys((*before.flags, *argument.flags)))
            default, bare = (
                one if repr(one) == repr(other) else UNKNOWN
                for one, other in ((before.default, argument.default), (before.bare, argument.bare))
            )
            kind, takes = (
                one if one == other else "?"
                for one, other in ((before.kind, argument.kind), (before.takes, argument.takes))
            )
            argument = ScriptArgument(default, kind, argument.place, flags, takes, bare)  # noqa: PLW2901
        found[name] = argument
    return found


def fields_of(node: ast.ClassDef, values: Values) -> Iterator[tuple[str, ScriptArgument]]:
    """The fields that a dataclass declares itself."""
    for statement in node.body:
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        name, declared = statement.target.id, ast.unparse(statement.annotation)
        if "ClassVar" in declared:
            continue
        value, aliases, is_made = statement.value, tuple[str, ...](), False
        if isinstance(value, ast.Call) and last_name(value) in ("field", "Field", "HfArg"):
            aliases = tuple(_aliases(value))
            factory = keyword(value, "default_factory")
            value, is_made = keyword(value, "default") or _made(factory), factory is not None
        takes = "+" if "list" in declared.lower() else "?" if "bool" in declared.lower() else "1"
        default, kind = _default(value, values), _kind(declared)
        if kind == "bool" and is_made:
            default = UNKNOWN  # the parser of transformers does not call a factory for it
        flags = (name, *(_plain(alias) for alias in aliases))
        yield name, ScriptArgument(default, kind, place(statement.target), flags, takes, takes == "?" or UNKNOWN)


def _made(factory: ast.expr | None) -> ast.expr | None:
    """What a ``default_factory`` returns, if it is a lambda."""
    return factory.body if isinstance(factory, ast.Lambda) else None


def _aliases(call: ast.Call) -> Iterator[str]:
    """The other options of a field: ``aliases`` of HfArg, or in the metadata."""
    given = keyword(call, "aliases")
    metadata = keyword(call, "metadata")
    if isinstance(metadata, ast.Dict):
        pairs = zip(metadata.keys, metadata.values, strict=True)
        given = next((value for key, value in pairs if literal(key) == "aliases"), given)
    for one in given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]:
        if isinstance(text := literal(one), str):
            yield text


def is_dataclass(node: ast.ClassDef) -> bool:
    """Whether a class is decorated as one."""
    decorators = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return any(dotted_name(one).endswith("dataclass") for one in decorators)


def _added(names: ModuleNames, values: Values) -> Iterator[tuple[str, ScriptArgument]]:
    """The arguments of argparse."""
    for call in names.calls:
        if last_name(call) == "add_config_arguments":
            for name, takes in OF_DEEPSPEED.items():
                yield name, ScriptArgument(UNKNOWN, "?", place(call.func), (name,), takes)
        if last_name(call) != "add_argument":
            continue
        written = [one for one in map(literal, call.args) if isinstance(one, str)]
        named = [one for one in written if one.startswith("--")] or written
        dest = keyword(call, "dest")
        keeps = literal(dest) if isinstance(dest, ast.Constant) else _plain(named[0]) if named else None
        if isinstance(keeps, str):
            flags = tuple(_plain(one) for one in written if one.startswith("-"))
            yield keeps, _argument(call, values)._replace(flags=flags)


def _plain(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _argument(call: ast.Call, values: Values) -> ScriptArgument:
    """What ``add_argument`` says of an argument."""
    action, default, converts, number = (keyword(call, one) for one in ("action", "default", "type", "nargs"))
    where = place(default if default is not None else call.func)
    does = "store" if action is None else literal(action)
    if does in _BARE:
        takes = "0"
    elif number is None:
        takes = "1" if does in (None, "store", "append") else "?"  # an action of the script's own
    else:
        taken = literal(number)
        takes = "+" if taken in ("+", "*") or isinstance(taken, int) else "?"
    if does in ("store_true", "store_false"):
        value = _default(default, values) if default is not None else does == "store_false"
        return ScriptArgument(value, "bool", where, (), takes, does == "store_true")
    if does != "store":
        return ScriptArgument(UNKNOWN, "?", where, (), takes)
    kind = _kind(dotted_name(converts)) if converts is not None else "text"
    kind = "?" if kind == "bool" or takes == "+" else kind  # "False" is true for ``bool``
    value = None if default is None else _default(default, values)
    if isinstance(value, str) and kind != "text":  # as argparse does with a default
        value = converted(value, kind)
    const = keyword(call, "const")
    return ScriptArgument(value, kind, where, (), takes, None if const is None else _default(const, values))


def converted(text: str, kind: str) -> Any:
    """What argparse makes of a text; UNKNOWN if it refuses it, or if that is not known."""
    try:
        return text if kind == "text" else int(text) if kind == "int" else float(text) if kind == "float" else UNKNOWN
    except ValueError:
        return UNKNOWN


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef, names: ModuleNames) -> bool:
    """Whether the command line gives a function its arguments, by Fire, Typer or click."""
    return any(last_name(one) == "command" for one in _decorators(function)) or any(
        dotted_name(call.func) in COMMANDS and any(dotted_name(one) == function.name for one in call.args)
        for call in names.calls
    )


def _decorators(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.Call]:
    return [one for one in function.decorator_list if isinstance(one, ast.Call)]


def _of_click(names: ModuleNames, values: Values) -> Iterator[tuple[str, ScriptArgument]]:
    """The options of click, which are decorators; a function of which Typer makes a command has none."""
    for functions in names.functions.values():
        for function in functions:
            made = _decorators(function)
            if not any(last_name(one) == "command" for one in made):
                continue
            options = [one for one in made if last_name(one) == "option"]
            for option in options:
                written = [text for text in map(literal, option.args) if isinstance(text, str)]
                named = [one for one in written if not one.startswith("-")] or written
                is_flag = keyword(option, "is_flag") is not None or any("/" in one for one in written)
                flags = tuple(_plain(one) for one in written if one.startswith("-"))
                if named and not is_flag and keyword(option, "multiple") is None:
                    longest = max(named, key=lambda one: one.startswith("--"))
                    yield _plain(longest).lower(), _argument(option, values)._replace(flags=flags, takes="1")
            if not options:
                yield from _parameters(function, values)


def _parameters(
    function: ast.FunctionDef | ast.AsyncFunctionDef, values: Values
) -> Iterator[tuple[str, ScriptArgument]]:
    kinds = {given.arg: given.annotation for given in function.args.args}
    for name, default in parameter_defaults(function).items():
        annotation = kinds.get(name)
        kind = _kind(ast.unparse(annotation)) if annotation is not None else "text"
        yield name, ScriptArgument(_default(default, values), kind, place(default), (), "1")


def _of_commands(names: ModuleNames, values: Values) -> Iterator[tuple[str, ScriptArgument]]:
    """The parameters of functions that Fire or Typer makes a command of."""
    yield from _of_click(names, values)
    for call in names.calls:
        for one in call.args if dotted_name(call.func) in COMMANDS else ():
            for function in names.functions.get(dotted_name(one), []):
                yield from _parameters(function, values)


def parameter_defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    """The parameters of a function that have a default."""
    order, given = [one.arg for one in function.args.args], function.args.defaults
    return dict(zip(order[len(order) - len(given) :], given, strict=True))


def _default(node: ast.expr | None, values: Values) -> Any:
    """A scalar default that shows; UNKNOWN for any other, and for a required field."""
    value = constant(node, values)
    return value if value is None or isinstance(value, (bool, int, float, str)) else UNKNOWN


def _kind(annotation: str) -> str:
    if re.search(r"\b(?:list|List|Sequence|tuple|Tuple|dict|Dict)\b", annotation):
        return "?"
    if "Literal[" in annotation:
        return "text"
    found = re.search(r"\b(?:bool|float|int|str)\b", annotation)
    return "?" if found is None else "text" if found[0] == "str" else found[0]
