"""The options that the calls of ``add_argument`` in a module add to its parsers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ds_lint.launches.certain import certainly_runs
from ds_lint.launches.parser_options import ANY_NUMBER, ParserOption
from ds_lint.launches.script_code import keyword, last_name, literal
from ds_lint.launches.script_options import OF_DEEPSPEED
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ds_lint.launches.parser_options import ValueKind
    from ds_lint.source.python_names import ModuleNames

_KINDS: dict[str, ValueKind] = {"int": "int", "float": "float", "str": "text"}
_BARE = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
_STORING = ("store", "append", "extend")
_NUMBERS = ("?", "+", "*")


def added_options(names: ModuleNames) -> tuple[ParserOption, ...] | None:
    """The options of all parsers of a module; None if one of them does not show.

    Of two with the same name, either may count.
    """
    found: list[ParserOption] = []
    for call in names.calls:
        if last_name(call) == "add_config_arguments":
            found += [ParserOption((f"--{name}",), ANY_NUMBER, "any", name) for name in OF_DEEPSPEED]
        if getattr(call.func, "attr", "") != "add_argument":
            continue
        for looped in _loops(call, names):
            options = list(_options(call, looped)) if looped is not None else []
            if not options:
                return None
            is_added = certainly_runs(names, call)
            found += options if is_added else [one._replace(is_required=False) for one in options]
    return _united(found)


def _loops(call: ast.Call, names: ModuleNames) -> Iterator[Mapping[str, Any] | None]:
    """What the variable of the loop around a call is in each turn; None if that does not show."""
    loops: list[ast.For] = []
    around = names.parents.get(call)
    while around is not None and not isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
        if isinstance(around, ast.For):
            loops.append(around)
        around = names.parents.get(around)
    if not loops:
        yield {}
        return
    if len(loops) > 1 or not isinstance(loops[0].target, ast.Name):
        yield None
        return
    over: ast.expr | None = loops[0].iter
    if isinstance(over, ast.Name):
        assigned = names.assignments(over.id, over)
        over = assigned[0].value if len(assigned) == 1 else None
    try:
        turns = ast.literal_eval(over) if over is not None else None
    except ValueError:
        turns = None
    if not isinstance(turns, (list, tuple)):
        yield None
        return
    for one in turns:
        yield {loops[0].target.id: one}


def _text(node: ast.expr, looped: Mapping[str, Any]) -> str | None:
    """A text that is written out, or made of the variable of a loop."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        found = looped.get(node.id)
        return found if isinstance(found, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left, looped), _text(node.right, looped)
        return left + right if left is not None and right is not None else None
    if isinstance(node, ast.JoinedStr):
        parts = [
            _text(one.value, looped)
            if isinstance(one, ast.FormattedValue) and one.format_spec is None
            else literal(one)
            for one in node.values
        ]
        texts = [one for one in parts if isinstance(one, str)]
        return "".join(texts) if len(texts) == len(parts) else None
    return None


def _options(call: ast.Call, looped: Mapping[str, Any]) -> Iterator[ParserOption]:
    """What one call adds; nothing if it does not show."""
    words = [_text(one, looped) for one in call.args]
    known = [word for word in words if word is not None]
    if len(known) < len(words) or not known or any(one.arg is None for one in call.keywords):
        return
    flags = tuple(word for word in known if word.startswith("-"))
    action, number, converts, choices, dest = (
        keyword(call, one) for one in ("action", "nargs", "type", "choices", "dest")
    )
    does = "store" if action is None else literal(action) or dotted_name(action).rpartition(".")[2]
    long = [flag for flag in flags if flag.startswith("--")]
    name = (
        literal(dest) if isinstance(literal(dest), str) else (long or flags or known)[0].lstrip("-").replace("-", "_")
    )
    if does == "BooleanOptionalAction":
        flags += tuple(f"--no-{flag[2:]}" for flag in long)
    taken = _taken(does, number)
    if taken is None:
        return
    kind: ValueKind = "any"
    if does in _STORING:
        kind = "text" if converts is None else _KINDS.get(dotted_name(converts), "any")
    accepted = _choices(choices) if kind != "any" else None
    is_required = literal(keyword(call, "required")) is True if flags else taken in ("1", "+") or taken.isdigit()
    yield ParserOption(flags, taken, kind, str(name), accepted, is_required)


def _taken(does: object, number: ast.expr | None) -> str | None:
    """How many words an option takes; None if it may take other options, too."""
    if does in _BARE or does == "BooleanOptionalAction":
        return "0"
    if number is None:
        return "1" if does in _STORING else ANY_NUMBER
    value = literal(number)
    if type(value) is int:
        return str(value)
    return value if value in _NUMBERS else None


def _choices(node: ast.expr | None) -> tuple[Any, ...] | None:
    try:
        found = ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None
    return tuple(found) if isinstance(found, (list, tuple, set)) else None


def _united(options: list[ParserOption]) -> tuple[ParserOption, ...]:
    """The options, where those that share a name accept what either of them does."""
    found: list[ParserOption] = []
    for one in options:
        same = next((other for other in found if one.flags and not set(one.flags).isdisjoint(other.flags)), None)
        if same is None:
            found.append(one)
        elif same != one:
            flags = tuple(dict.fromkeys((*same.flags, *one.flags)))
            found[found.index(same)] = ParserOption(flags, ANY_NUMBER, "any", same.name)
    return tuple(found)
