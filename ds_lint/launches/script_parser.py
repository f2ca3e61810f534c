"""How a training script reads its command line: a parser that stops at an option which it does not know.

Launchers put ``--local_rank=N`` before the words of the script: ``deepspeed`` (deepspeed/launcher/launch.py), and
``torch.distributed.launch``, as ``--local-rank=N`` since PyTorch 2.0 (torch/distributed/run.py).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal, NamedTuple

from ds_lint.launches.certain import certainly_runs
from ds_lint.launches.script_code import ARGUMENTS, CodePlace, keyword, literal, place, written
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.script_code import ImportedNames
    from ds_lint.launches.trained_names import TrainedNames

LOCAL_RANK = ("--local_rank", "--local-rank")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group")
# Methods of a parser by which it gets no option, or one that ``add_argument`` shows.
_KNOWN = frozenset({
    "add_argument", "add_subparsers", "description", "epilog", "error", "exit", "format_help", "format_usage",
    "get_default", "parse_args", "parse_args_and_config", "parse_args_into_dataclasses", "parse_json_file",
    "parse_known_args", "parse_yaml_file", "print_help", "print_usage", "prog", "set_defaults", *_GROUPS,
})  # fmt: skip
_ANYTHING = ("...", "A...")  # ``nargs`` that may take options for values
_FILES = ("parse_json_file", "parse_yaml_file")
_DEPTH = 6  # functions that pass a parser on


class ScriptParser(NamedTuple):
    """A parser that certainly reads the words of the script: ``takes`` are those of LOCAL_RANK that it knows.

    ``kind`` is "parser", "file" for a script that reads its arguments from a file if that is its only word, or "word"
    for one that takes a word by its place.
    """

    kind: Literal["parser", "file", "word"]
    function: str
    place: CodePlace
    takes: tuple[str, ...]


def script_parsers(trained: TrainedNames, imported: ImportedNames) -> Iterator[ScriptParser]:
    """The parsers of a script of which all options are known."""
    yield from ParserReader(trained, imported).read()


class ParserReader:
    """Follows the parsers of a module to all that is done with them."""

    def __init__(self, trained: TrainedNames, imported: ImportedNames) -> None:
        self.names = trained.names
        self.trained = trained
        self.imported = imported
        self.followed: set[tuple[str, ast.AST | None]] = set()  # names of a parser, and whose they are

    def read(self) -> Iterator[ScriptParser]:
        """The parsers that certainly read the words of the script."""
        if self.changes_words():
            return
        yield from self._by_place()
        for call in self.names.calls:
            method = getattr(call.func, "attr", "")
            if method == "parse_args" and self.reads_words(call):
                yield from self._of_argparse(call)
            elif method == "parse_args_into_dataclasses" and self.reads_words(call):
                yield from self._of_dataclasses(call)
            elif self.full_name(call) == "typer.run" and self.runs(call):
                yield from self._of_typer(call)
            elif isinstance(call.func, ast.Name) and not call.args and not call.keywords and self.runs(call):
                yield from self._of_click(call)

    def full_name(self, call: ast.Call) -> str:
        """What is called, with the module that it is imported from."""
        return self.imported.full_name(dotted_name(call.func))

    # ------------------------------------------------------------------------------------------------ the words of it

    def changes_words(self) -> bool:
        """Whether the script may change ``sys.argv``, or hand it to what does."""
        if "argv" in self.imported.names or "sys.argv" in self.trained.stores:
            return True
        return not all(self._only_reads(use) for use in self.names.uses.get("sys.argv", []))

    def _only_reads(self, use: ast.expr) -> bool:
        around = self.names.parents.get(use)
        if isinstance(around, ast.Subscript):
            return isinstance(around.ctx, ast.Load)
        return isinstance(around, ast.FormattedValue) or (
            isinstance(around, ast.Call) and dotted_name(around.func) in ("len", "print", "str")
        )

    def _by_place(self) -> Iterator[ScriptParser]:
        """``sys.argv[1]``, if nothing tells that the script knows options before it."""
        if any("local" in text or text.startswith("-") for text in self._texts()):
            return
        for use in self.names.uses.get("sys.argv", []):
            around = self.names.parents.get(use)
            index = literal(around.slice) if isinstance(around, ast.Subscript) else None
            if type(index) is int and index > 0 and isinstance(around, ast.Subscript) and self.runs(around):
                yield ScriptParser("word", ast.unparse(around), place(around), ())
                return

    def _texts(self) -> Iterator[str]:
        return (one.value for one in self.names.every(ast.Constant) if isinstance(one.value, str))

    def reads_words(self, call: ast.Call) -> bool:
        """Whether a call gets the whole command line, and refuses what is left."""
        given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "args")]
        if any(one.arg not in ("args", "look_for_args_file") for one in call.keywords) or len(call.args) > 1:
            return False
        return all(ast.unparse(one) in ("None", "sys.argv[1:]") for one in given)

    def runs(self, node: ast.AST) -> bool:
        """Whether a call certainly runs, and nothing catches that it ends the script."""
        below = node
        while (around := self.names.parents.get(below)) is not None:
            if isinstance(around, ast.Try):
                return False
            below = around
        return certainly_runs(self.names, node)

    # ------------------------------------------------------------------------------------------------------- argparse

    def _of_argparse(self, call: ast.Call) -> Iterator[ScriptParser]:
        made = self.made(call)
        if made is None or self.full_name(made) != "argparse.ArgumentParser" or not self.runs(call):
            return
        given = {one.arg for one in made.keywords}
        if given & {None, "parents", "prefix_chars"} or made.args[1:]:
            return
        options = self._options()
        self.followed.clear()
        if options is None or not self.is_followed(made):
            return
        abbreviates = keyword(made, "allow_abbrev") is None
        yield ScriptParser("parser", written(call.func), place(call.func), _taken(options, abbreviates=abbreviates))

    def made(self, call: ast.Call) -> ast.Call | None:
        """What makes the parser whose method is called."""
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        for _ in range(_DEPTH):
            name = dotted_name(owner) if owner is not None else ""
            if isinstance(owner, ast.Call) and self._adds_config(owner):
                owner = next(iter(owner.args), None)
            elif isinstance(owner, ast.Call):
                functions = self.names.functions.get(dotted_name(owner.func), [])
                if len(functions) != 1:
                    return owner
                returns = [one.value for one in ast.walk(functions[0]) if isinstance(one, ast.Return)]
                owner = returns[0] if len(returns) == 1 else None
            elif name and owner is not None:
                values = [one.value for one in self.names.assignments(name, owner)]
                made = [one for one in values if one is not None and not self._passes_on(name, one)]
                if len(made) != 1 or None in values:
                    return None
                owner = made[0]
            else:
                return None
        return None

    def _adds_config(self, call: ast.Call) -> bool:
        """Whether a call adds the options of DeepSpeed, and returns the parser."""
        return self.full_name(call) == "deepspeed.add_config_arguments"

    def _passes_on(self, name: str, value: ast.expr) -> bool:
        """Whether a call returns the parser that it is given: ``parser = add_options(parser)``."""
        return isinstance(value, ast.Call) and any(dotted_name(one) == name for one in value.args)

    def _options(self) -> list[str] | None:
        """The options that the module adds to any parser; None if one of them does not show."""
        found: list[str] = []
        for call in self.names.calls:
            if getattr(call.func, "attr", "") != "add_argument":
                continue
            values = [literal(one) for one in call.args]
            nargs = keyword(call, "nargs")
            is_open = nargs is not None and (literal(nargs) in _ANYTHING or not isinstance(nargs, ast.Constant))
            if not all(isinstance(one, str) for one in values) or is_open:
                return None
            if any(one.arg is None for one in call.keywords) or not values:
                return None
            found += [str(one) for one in values]
        # What a loop adds, or a table of options holds.
        found += [str(one.value) for one in self.names.every(ast.Constant) if one.value in LOCAL_RANK]
        return found

    def is_followed(self, made: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether all that is done with a parser shows: its methods, and own functions that it is given to."""
        around = self.names.parents.get(made)
        if depth == 0:
            return False
        if isinstance(around, ast.Attribute):
            return self._is_known_method(around, depth)
        if isinstance(around, ast.Call) and self._adds_config(around):
            return self.is_followed(around, depth - 1)
        if isinstance(around, ast.Return):
            scope = self.names.places[made].scope
            calls = self.trained.calls_of(scope) if isinstance(scope, _FUNCTIONS) else []
            return bool(calls) and all(self.is_followed(call, depth - 1) for call in calls)
        if (
            not isinstance(around, ast.Assign)
            or len(around.targets) != 1
            or not isinstance(around.targets[0], ast.Name)
        ):
            return False
        return self._are_known(around.targets[0].id, around.targets[0], depth)

    def _are_known(self, name: str, at: ast.AST, depth: int) -> bool:
        """Whether every use of a name shows what it does with the parser."""
        if (variable := (name, self.names.origin(name, at))) in self.followed:
            return True
        self.followed.add(variable)
        uses = [use for use in self.names.uses.get(name, []) if self.names.means_the_same(name, use, at)]
        return all(self._is_known_use(use, depth) for use in uses)

    def _is_known_use(self, use: ast.expr, depth: int) -> bool:
        around = self.names.parents.get(use)
        if isinstance(around, ast.Attribute):
            return self._is_known_method(around, depth)
        if isinstance(around, ast.Return):
            return self.is_followed(use, depth - 1)
        given_by = around.arg if isinstance(around, ast.keyword) else None
        call = self.names.parents.get(around) if isinstance(around, ast.keyword) else around
        if not isinstance(call, ast.Call) or depth == 0:
            return False
        if self._adds_config(call):
            return True
        functions = self.names.functions.get(dotted_name(call.func), [])
        if len(functions) != 1:
            return False
        order = [one.arg for one in functions[0].args.args]
        taken = given_by or (order[call.args.index(use)] if use in call.args[: len(order)] else None)
        if taken is None or taken not in order:
            return False
        first = functions[0].body[0]
        return self._are_known(taken, first, depth - 1)

    def _is_known_method(self, method: ast.Attribute, depth: int) -> bool:
        if method.attr not in _KNOWN:
            return False
        call = self.names.parents.get(method)
        if method.attr in _GROUPS and isinstance(call, ast.Call):
            return isinstance(self.names.parents.get(call), ast.Expr) or self.is_followed(call, depth - 1)
        return True

    # ------------------------------------------------------------------------------------------------ other parsers

    def _of_dataclasses(self, call: ast.Call) -> Iterator[ScriptParser]:
        """``HfArgumentParser`` of classes that the module writes out, or of transformers' own."""
        made = self.made(call)
        full = self.full_name(made) if made is not None else ""
        if made is None or not full.startswith("transformers.") or not full.endswith(".HfArgumentParser"):
            return
        given = made.args[0] if made.args else keyword(made, "dataclass_types")
        classes = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given] if given is not None else []
        fields = [self._fields(dotted_name(one)) for one in classes]
        known = [name for one in fields if one is not None for name in one]
        options = self._options()
        self.followed.clear()
        if not fields or None in fields or options is None or not self.is_followed(made):
            return
        options += [f"--{name}" for name in known] + [f"--{name.replace('_', '-')}" for name in known]
        function, where = written(call.func), place(call.func)
        if self.runs(call):
            yield ScriptParser("parser", function, where, _taken(options, abbreviates=True))
        elif (test := self._reads_file_instead(call)) is not None:
            yield ScriptParser("file", function, place(test), ())
            yield ScriptParser("parser", function, where, _taken(options, abbreviates=True))

    def _fields(self, name: str, depth: int = _DEPTH) -> list[str] | None:
        """The fields of a class of arguments, as far as they may be the local rank; None if they do not show."""
        full = self.imported.full_name(name)
        if full.startswith("transformers.") and ARGUMENTS.fullmatch(name.rpartition(".")[2]):
            return ["local_rank"]
        found = [one for one in self.names.every(ast.ClassDef) if one.name == name]
        if len(found) != 1 or depth == 0:
            return None
        fields: list[str] = []
        for base in found[0].bases:
            inherited = self._fields(dotted_name(base), depth - 1)
            if inherited is None:
                return None
            fields += inherited
        for one in found[0].body:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                fields.append(one.target.id)
        return fields

    def _reads_file_instead(self, call: ast.Call) -> ast.expr | None:
        """The condition ``len(sys.argv) == 2 and sys.argv[1].endswith(".json")``, without which a call runs."""
        node: ast.AST = call
        around = self.names.parents.get(node)
        while isinstance(around, (ast.Assign, ast.Tuple)):
            node, around = around, self.names.parents.get(around)
        if not isinstance(around, ast.If) or node not in around.orelse or not self.runs(around):
            return None
        test, reads = around.test, [getattr(one, "attr", "") for one in ast.walk(ast.Module(around.body, []))]
        is_idiom = (
            isinstance(test, ast.BoolOp)
            and isinstance(test.op, ast.And)
            and any(ast.unparse(one) == "len(sys.argv) == 2" for one in test.values)
        )
        return test if is_idiom and any(one in _FILES for one in reads) else None

    def _of_click(self, call: ast.Call) -> Iterator[ScriptParser]:
        """A function that ``click.command`` makes a command of."""
        functions = self.names.functions.get(dotted_name(call.func), [])
        if len(functions) != 1:
            return
        decorators = [one for one in functions[0].decorator_list if isinstance(one, ast.Call)]
        full = [self.full_name(one) for one in decorators]
        if len(decorators) != len(functions[0].decorator_list) or "click.command" not in full:
            return
        if any(name not in ("click.command", "click.option", "click.argument") for name in full):
            return
        if any(one.arg in (None, "cls", "context_settings") for made in decorators for one in made.keywords):
            return
        options = [literal(one) for made in decorators for one in made.args]
        if all(isinstance(one, str) for one in options):
            taken = _taken([str(one) for one in options], abbreviates=False)
            yield ScriptParser("parser", written(call.func), place(call.func), taken)

    def _of_typer(self, call: ast.Call) -> Iterator[ScriptParser]:
        """``typer.run``, whose options have dashes."""
        functions = self.names.functions.get(dotted_name(call.args[0]), []) if len(call.args) == 1 else []
        if len(functions) != 1 or functions[0].args.kwarg is not None or functions[0].args.vararg is not None:
            return
        options = [f"--{one.arg.replace('_', '-')}" for one in (*functions[0].args.args, *functions[0].args.kwonlyargs)]
        options += [str(one.value) for one in self.names.every(ast.Constant) if one.value in LOCAL_RANK]
        yield ScriptParser("parser", written(call.func), place(call.func), _taken(options, abbreviates=False))


def _taken(options: list[str], *, abbreviates: bool) -> tuple[str, ...]:
    """Which spellings a parser takes; argparse takes what begins a longer option for that."""
    return tuple(
        one
        for one in LOCAL_RANK
        if any(option == one or (abbreviates and option.startswith(one)) for option in options)
    )
