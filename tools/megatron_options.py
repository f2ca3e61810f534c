"""Write schemas/megatron.json: the options of Megatron-DeepSpeed, and what it asserts of them.

    python -m tools.megatron_options FOLDER...

Each folder is a git repository of an edition of Megatron-DeepSpeed, or FOLDER@COMMIT; a commit is read without checking
it out. Only ``ast`` reads the sources: ``megatron/arguments.py``, of which what follows on ``parser.parse_args()`` and
``validate_args`` become steps (a condition, and what is set or asserted then), and ``megatron/microbatches.py``.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STORE = Path(__file__).parent.parent / "schemas" / "megatron.json"
_ARGUMENTS, _BATCHES, _TRAINING = "megatron/arguments.py", "megatron/microbatches.py", "megatron/training.py"
_CONSTANT = "ConstantNumMicroBatches"
_TYPES = {"int": "int", "float": "float", "str": "text", None: "text"}
_FIXED = {"store_true": True, "store_false": False}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the store; 2 if an edition is not laid out as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="a git repository, or FOLDER@COMMIT")
    options = parser.parse_args(arguments)
    try:
        editions = [edition(*one.partition("@")[::2]) for one in options.folders]
    except (LookupError, SyntaxError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    STORE.write_text(_written({"editions": editions}), encoding="utf-8")
    return 0


def edition(folder: str, commit: str) -> dict[str, Any]:
    """What a commit of a repository has."""
    commit, _, date = _git(folder, "log", "-1", "--format=%H %cs", commit or "HEAD").strip().partition(" ")
    module = ast.parse(_git(folder, "show", f"{commit}:{_ARGUMENTS}"))
    batches = ast.parse(_git(folder, "show", f"{commit}:{_BATCHES}"))
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    return {
        "commit": commit,
        "date": date,
        "options": dict(sorted(_options(functions).items())),
        "steps": [*_steps(functions), *_of_batches(batches)],
        "sets_batch_size": "set_train_batch_size" in _git(folder, "show", f"{commit}:{_TRAINING}"),
    }


def _git(folder: str, *words: str) -> str:
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True)
    return done.stdout


# -------------------------------------------------------------------------------------------------------------- options


def _options(functions: dict[str, ast.FunctionDef]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, function in functions.items():
        if not name.startswith("_add_"):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                names = [one.value for one in call.args if isinstance(one, ast.Constant)]
                option = _option(names, {one.arg: one.value for one in call.keywords})
                found.update({str(one): option for one in names})
    if not found:
        raise LookupError("no function of megatron/arguments.py adds an option")
    return found


def _option(names: list[Any], given: dict[str | None, ast.expr]) -> dict[str, Any]:
    """What ``add_argument`` says of an option; a default that is computed is left out."""
    long = next((one for one in names if one.startswith("--")), names[0])
    dest = given.get("dest")
    option: dict[str, Any] = {"dest": ast.literal_eval(dest) if dest else long.lstrip("-").replace("-", "_")}
    of_action = given.get("action", ast.Constant("store"))
    action = of_action.value if isinstance(of_action, ast.Constant) else None
    if action in _FIXED:
        option.update(takes="0", bare=_FIXED[action], default=not _FIXED[action])
    else:
        if action != "store":  # a class, or one that few options have
            option["kind"] = "?"
        nargs = ast.literal_eval(given["nargs"]) if "nargs" in given else "1"
        kind = ast.unparse(given["type"]) if "type" in given else None
        option = {
            "kind": _TYPES.get(kind, "?"),
            **option,
            "takes": nargs if nargs in ("1", "?") else "+",
            "default": None,
        }
    if "default" in given:
        try:
            option["default"] = ast.literal_eval(given["default"])
        except ValueError:
            del option["default"]
            if isinstance(given["default"], ast.Attribute):  # a member of an enumeration, by its name
                option["default"] = ast.unparse(given["default"])
    return option


# ---------------------------------------------------------------------------------------------------------------- steps


def _steps(functions: dict[str, ast.FunctionDef]) -> list[dict[str, Any]]:
    parse = functions["parse_args"].body
    begin = next(place for place, one in enumerate(parse) if "parse_args()" in ast.unparse(one))
    body = [*parse[begin + 1 :], *(functions["validate_args"].body if "validate_args" in functions else [])]
    return [step for statement in body for step in _of_statement(statement, {})]


def _of_statement(statement: ast.stmt, conditions: dict[str, bool]) -> Iterator[dict[str, Any]]:
    """The steps of a statement; loops and calls are not followed."""
    step: dict[str, Any] = {"if": conditions} if conditions else {}
    if isinstance(statement, ast.If):
        test = _expression(statement.test)
        steps = [
            step
            for body, wanted in ((statement.body, True), (statement.orelse, False))
            for one in body
            for step in _of_statement(one, {**conditions, test: wanted})
        ]
        read = {ast.unparse(one) for one in ast.walk(statement.test) if isinstance(one, ast.Attribute)}
        changes = [step for step in steps if step.get("set") in read and step["to"] != "UNKNOWN"]
        if any(not _exclude(one, other) for one in changes for other in steps[steps.index(one) + 1 :]):
            raise LookupError(f"a branch at line {statement.lineno} changes what its condition depends on")
        yield from steps
    elif isinstance(statement, ast.Assert):
        source = {} if statement.msg is not None else {"source": ast.unparse(statement.test)}
        yield {**step, "assert": _expression(statement.test), **_message(statement.msg), **source}
    elif isinstance(statement, ast.Raise) and isinstance(statement.exc, ast.Call):
        message = _message(statement.exc.args[0] if statement.exc.args else None)
        yield {**step, "assert": "False", "raises": ast.unparse(statement.exc.func), **message}
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = ast.unparse(statement.targets[0])
        if target == "required_args":
            for name in ast.literal_eval(statement.value):
                yield {**step, "assert": f"not args.{name} is None", "message": [f"{name} argument is None"]}
        elif target not in ("args", "parser"):
            is_list = isinstance(statement.value, ast.ListComp)
            yield {**step, "set": target, "to": "UNKNOWN" if is_list else _expression(statement.value)}
    elif isinstance(statement, ast.Delete):
        for one in statement.targets:
            yield {**step, "set": ast.unparse(one), "to": "UNKNOWN"}


def _exclude(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two steps are never both taken."""
    return any(other["if"].get(test) is (not wanted) for test, wanted in one["if"].items())


def _expression(node: ast.expr) -> str:
    """An expression in the operators that ``ds_lint/knowledge/expressions.py`` has."""
    return ast.unparse(_Plain().visit(copy.deepcopy(node)))


class _Plain(ast.NodeTransformer):
    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        operator = node.ops[0]
        if len(node.ops) != 1:
            return node
        if isinstance(operator, ast.IsNot):
            return ast.UnaryOp(ast.Not(), ast.Compare(node.left, [ast.Is()], node.comparators))
        if isinstance(operator, ast.LtE):
            return ast.Compare(node.comparators[0], [ast.GtE()], [node.left])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Mod):
            return node
        whole = ast.BinOp(ast.BinOp(node.left, ast.FloorDiv(), node.right), ast.Mult(), node.right)
        return ast.BinOp(node.left, ast.Sub(), whole)


def _message(node: ast.expr | None) -> dict[str, list[str]]:
    """A message as its texts and, in between, the expressions of what it shows: every second one is an expression."""
    if node is None:
        return {}
    if isinstance(node, ast.Constant):
        return {"message": [_text(str(node.value))]}
    parts: list[str] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        texts = str(ast.literal_eval(node.func.value)).split("{}")
        shown = [_expression(one) for one in node.args][: len(texts) - 1]  # which ignores others
        if len(texts) == len(shown) + 1:
            parts = [word for pair in zip(texts, [*shown, ""], strict=True) for word in pair][:-1]
    elif isinstance(node, ast.JoinedStr):
        parts = [""]
        for one in node.values:
            if isinstance(one, ast.Constant):
                parts[-1] += str(one.value)
            elif isinstance(one, ast.FormattedValue):
                parts += [_expression(one.value), ""]
    return {"message": [_text(one) if place % 2 == 0 else one for place, one in enumerate(parts)]} if parts else {}


def _text(text: str) -> str:
    """A text with one blank between words."""
    start, end = " " * text.startswith((" ", "\n")), " " * text.endswith((" ", "\n"))
    return f"{start}{' '.join(text.split())}{end}" if text.strip() else " " * bool(text)


def _of_batches(module: ast.Module) -> list[dict[str, Any]]:
    """What the class of a fixed number of micro-batches sets and asserts as it is made."""
    made = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == _CONSTANT]
    functions = [
        one for node in made for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    ]
    if not functions:
        raise LookupError(f"megatron/microbatches.py has no {_CONSTANT}")
    names = {one.arg for one in functions[0].args.args}
    body = [_Renamed(names).visit(copy.deepcopy(one)) for one in functions[0].body]
    conditions = {"args.rampup_batch_size is None": True}
    return [step for statement in body for step in _of_statement(statement, conditions)]


class _Renamed(ast.NodeTransformer):
    """The parameters of a method as the arguments that they get."""

    def __init__(self, names: set[str]) -> None:
        self._names = names - {"self"}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Attribute(ast.Name("args", ast.Load()), node.id, ast.Load()) if node.id in self._names else node


def _written(store: dict[str, Any]) -> str:
    """The store with a line for each option and each step."""
    lines = ["{", ' "editions": [']
    for place, one in enumerate(store["editions"]):
        lines.append(f'  {{"commit": "{one["commit"]}", "date": "{one["date"]}",')
        lines.append(f'   "sets_batch_size": {json.dumps(one["sets_batch_size"])},')
        options = [f"    {json.dumps(name)}: {json.dumps(option)}" for name, option in one["options"].items()]
        lines += ['   "options": {', ",\n".join(options), "   },"]
        steps = [f"    {json.dumps(step)}" for step in one["steps"]]
        lines += ['   "steps": [', ",\n".join(steps), f"   ]}}{',' if place + 1 < len(store['editions']) else ''}"]
    return "\n".join([*lines, " ]", "}"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
