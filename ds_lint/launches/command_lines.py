"""How a training script reads its command line, where that is certain and all of its options show."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.launches.added_arguments import added_options
from ds_lint.launches.declared_fields import parsed_class
from ds_lint.launches.parser_options import ANY_NUMBER, CommandLine, ParserOption
from ds_lint.launches.script_code import keyword, last_name, literal, written
from ds_lint.launches.script_parser import ParserReader
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from ds_lint.launches.parser_options import ParsedClass, ValueKind
    from ds_lint.launches.script_modules import ScriptModule
    from ds_lint.launches.trained_names import TrainedNames

    Rest = Literal["error", "unread"]

_OF_CLASSES = ("HfArgumentParser", "TrlParser")
_OF_FLAGS = ("parse_args_into_dataclasses", "parse_args_and_config")
# Keywords of parsers that change nothing of what they accept.
_HARMLESS = frozenset({
    "add_help", "allow_abbrev", "conflict_handler", "dataclass_types", "description", "epilog", "formatter_class",
    "parents", "prog", "usage",
})  # fmt: skip
_OF_METHODS = frozenset({"args", "fail_with_unknown_args", "look_for_args_file", "return_remaining_strings"})
_KINDS: dict[str, ValueKind] = {"int": "int", "float": "float", "str": "text"}
_OF_TYPER = ("--help", "--install-completion", "--show-completion")


def command_line(module: ScriptModule, trained: TrainedNames) -> CommandLine | None:
    """How a script reads its command line; None if that is not certain, or something else may read it too."""
    reader = _CommandLineReader(module, trained)
    found = list(reader.read())
    return found[0] if len(found) == 1 else None


class _CommandLineReader(ParserReader):
    def __init__(self, module: ScriptModule, trained: TrainedNames) -> None:
        super().__init__(trained, module.imported)
        self.module = module

    def read(self) -> Iterator[CommandLine]:  # type: ignore[override]
        if self.changes_words():
            return
        for call in self.names.calls:
            method = getattr(call.func, "attr", "")
            self.followed.clear()
            if method in _OF_FLAGS:
                yield from self._of_classes(call)
            elif method in ("parse_args", "parse_known_args"):
                yield from self._of_added(call)
            elif self.full_name(call) == "fire.Fire":
                yield from self._of_fire(call)
            elif self.full_name(call) == "typer.run":
                yield from self._of_function(call)
            elif isinstance(call.func, ast.Name) and not call.args and not call.keywords:
                yield from self._of_decorated(call)

    # ------------------------------------------------------------------------------------- HfArgumentParser, TrlParser

    def _of_classes(self, call: ast.Call) -> Iterator[CommandLine]:
        made, method = self.made(call), last_name(call)
        if made is None or not self._parses_words(call) or not (self.runs(call) or self._is_beside_files(call)):
            return
        full, kind = self.full_name(made), last_name(made)
        if kind not in _OF_CLASSES or full.partition(".")[0] not in ("transformers", "trl"):
            return
        if method == "parse_args_and_config" and kind != "TrlParser":
            return
        given = made.args[0] if made.args else keyword(made, "dataclass_types")
        names = self._class_names(given)
        classes = [parsed_class(name, self.module) for name in names]
        options = added_options(self.names)
        rest = self._rest(call)
        abbreviates = self._abbreviates(made)
        if not names or None in classes or options is None or rest is None or abbreviates is None:
            return
        if not self.is_followed(made):
            return
        known: tuple[ParsedClass, ...] = tuple(one for one in classes if one is not None)
        yield self._command_line(
            "TrlParser" if kind == "TrlParser" else "HfArgumentParser", call, options, rest,
            classes=known, abbreviates=abbreviates,
        )  # fmt: skip

    def _class_names(self, given: ast.expr | None) -> list[str]:
        """The names of the classes that a parser gets; none if they do not all show."""
        if given is not None and (name := dotted_name(given)) and not self.module.classes.get(name):
            assigned = self.names.assignments(name, given)
            if len(assigned) == 1 and isinstance(assigned[0].value, (ast.List, ast.Tuple)):
                given = assigned[0].value if len(self.names.uses.get(name, ())) == 1 else None
            elif assigned:
                given = None
        elements = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
        found = [dotted_name(one) if one is not None else "" for one in elements]
        return found if all(found) else []

    def _parses_words(self, call: ast.Call) -> bool:
        """Whether a call parses the whole command line."""
        given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "args")]
        if any(one.arg not in _OF_METHODS for one in call.keywords) or len(call.args) > 1:
            return False
        return all(ast.unparse(one) in ("None", "sys.argv[1:]") for one in given)

    def _is_beside_files(self, call: ast.Call) -> bool:
        """Whether a call runs unless the only word is a file of arguments: ``if len(sys.argv) == 2 and ...``."""
        node: ast.AST = call
        around = self.names.parents.get(node)
        while isinstance(around, (ast.Assign, ast.Tuple, ast.Subscript)):
            node, around = around, self.names.parents.get(around)
        while isinstance(around, ast.If) and node in around.orelse:
            test = around.test
            parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else []
            if not any(ast.unparse(one) == "len(sys.argv) == 2" for one in parts):
                return False
            if self.runs(around):
                return True
            node, around = around, self.names.parents.get(around)
        return False

    def _rest(self, call: ast.Call) -> Rest | None:
        """What becomes of words that no option takes; None if something may read them."""
        returned = keyword(call, "return_remaining_strings")
        fails = keyword(call, "fail_with_unknown_args")
        if fails is not None and literal(fails) is not True:
            return "unread" if literal(fails) is False else None
        if returned is not None and literal(returned) not in (True, False):
            return None
        if not literal(returned) and last_name(call) != "parse_known_args":
            return "error"
        around = self.names.parents.get(call)
        if isinstance(around, ast.Subscript):  # parser.parse_known_args()[0]
            return "unread" if type(literal(around.slice)) is int else None
        target = around.targets[0] if isinstance(around, ast.Assign) and len(around.targets) == 1 else None
        last = target.elts[-1] if isinstance(target, ast.Tuple) else None
        if not isinstance(last, ast.Name):
            return None
        return None if self.names.uses.get(last.id) else "unread"

    def _abbreviates(self, made: ast.Call) -> bool | None:
        """Whether a parser takes beginnings of options; None if a keyword changes what it accepts."""
        if any(one.arg not in _HARMLESS for one in made.keywords) or len(made.args) > 1:
            return None
        allowed = keyword(made, "allow_abbrev")
        value = True if allowed is None else literal(allowed)
        return value if isinstance(value, bool) and self._are_parents_known(made) else None

    def _are_parents_known(self, made: ast.Call) -> bool:
        """Whether the parsers whose options a parser takes over are of the same module."""
        given = keyword(made, "parents")
        if given is None:
            return True
        for one in given.elts if isinstance(given, (ast.List, ast.Tuple)) else [None]:
            meant = self.trained.meant(one)
            if not isinstance(meant, ast.Call) or self.full_name(meant) != "argparse.ArgumentParser":
                return False
        return True

    # ------------------------------------------------------------------------------------------------------- argparse

    def _of_added(self, call: ast.Call) -> Iterator[CommandLine]:
        made = self.made(call)
        if made is None or not self._parses_words(call) or not self.runs(call):
            return
        if self.full_name(made) != "argparse.ArgumentParser":
            return
        options, rest, abbreviates = added_options(self.names), self._rest(call), self._abbreviates(made)
        if options is None or rest is None or abbreviates is None or not self.is_followed(made):
            return
        has_commands = any(last_name(one) == "add_subparsers" for one in self.names.calls)
        yield self._command_line(
            "argparse", call, options, rest, abbreviates=abbreviates, has_places=has_commands,
            requires_all=not has_commands and self._is_only_parser(made),
        )  # fmt: skip

    def _is_only_parser(self, made: ast.Call) -> bool:
        parsers = [one for one in self.names.calls if last_name(one) in ("ArgumentParser", *_OF_CLASSES)]
        changes = {"set_defaults", "add_mutually_exclusive_group"}
        return parsers == [made] and not any(last_name(one) in changes for one in self.names.calls)

    def _command_line(
        self,
        kind: Literal["HfArgumentParser", "TrlParser", "argparse", "fire", "click", "typer"],
        call: ast.Call,
        options: tuple[ParserOption, ...],
        rest: Rest,
        *,
        classes: tuple[ParsedClass, ...] = (),
        abbreviates: bool = True,
        has_places: bool = False,
        requires_all: bool = True,
    ) -> CommandLine:
        has_places |= any(not one.flags for one in options)
        function, path, line = written(call.func), self.module.path, call.func.lineno
        return CommandLine(
            kind, classes, options, rest, abbreviates, has_places, requires_all, function, path, line
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------------- functions

    def _of_fire(self, call: ast.Call) -> Iterator[CommandLine]:
        """``fire.Fire``, which takes what the function does not for members of what it returns."""
        function = self._function(call.args[0]) if len(call.args) == 1 and not call.keywords else None
        if function is None or function.decorator_list or not self.runs(call):
            return
        returned = [one.value for one in ast.walk(function) if isinstance(one, ast.Return)]
        if any(one is not None and not (isinstance(one, ast.Constant) and one.value is None) for one in returned):
            return
        names = [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]
        options = tuple(ParserOption((f"--{name}",), ANY_NUMBER, "any", name) for name in names)
        yield self._command_line("fire", call, options, "error", has_places=True, requires_all=False)

    def _function(self, named: ast.expr) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function of the module that a name means, if it takes no others than its parameters."""
        functions = self.names.functions.get(dotted_name(named), [])
        if len(functions) != 1 or functions[0].args.kwarg is not None or functions[0].args.vararg is not None:
            return None
        return functions[0]

    def _of_function(self, call: ast.Call) -> Iterator[CommandLine]:
        """``typer.run``, whose options have dashes."""
        function = self._function(call.args[0]) if len(call.args) == 1 and not call.keywords else None
        if function is None or not self.runs(call):
            return
        positional, defaults = function.args.args, function.args.defaults
        with_default = [*zip(positional[len(positional) - len(defaults) :], defaults, strict=True)]
        with_default += [
            (one, default) for one, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
            if default is not None
        ]  # fmt: skip
        if any(isinstance(default, ast.Call) or "Annotated" in _declared(one) for one, default in with_default):
            return
        options = [ParserOption((flag,), "0", "any", flag[2:]) for flag in _OF_TYPER]
        for one, _ in with_default:
            flag, declared = one.arg.replace("_", "-"), _declared(one)
            if declared == "bool":
                options.append(ParserOption((f"--{flag}", f"--no-{flag}"), "0", "bool", one.arg))
            else:
                kind = _KINDS.get(declared or "str", "any")
                options.append(ParserOption((f"--{flag}",), ANY_NUMBER if kind == "any" else "1", kind, one.arg))
        yield self._command_line("typer", call, tuple(options), "error", abbreviates=False, has_places=True)

    def _of_decorated(self, call: ast.Call) -> Iterator[CommandLine]:
        """A function that ``click.command`` makes a command of."""
        functions = self.names.functions.get(dotted_name(call.func), [])
        decorators = [one for one in functions[0].decorator_list if isinstance(one, ast.Call)] if functions else []
        full = [self.full_name(one) for one in decorators]
        if len(functions) != 1 or "click.command" not in full or not self.runs(call):
            return
        if len(decorators) != len(functions[0].decorator_list):
            return
        if any(name not in ("click.command", "click.option", "click.argument") for name in full):
            return
        if any(one.arg in (None, "cls", "context_settings") for made in decorators for one in made.keywords):
            return
        options = [ParserOption(("--help",), "0", "any", "help")]
        for made, name in zip(decorators, full, strict=True):
            words = [literal(one) for one in made.args]
            if name == "click.command":
                continue
            if not all(isinstance(one, str) for one in words):
                return
            flags = tuple(part for one in words for part in str(one).split("/") if part.strip().startswith("-"))
            if name == "click.option" and flags:
                options.append(ParserOption(tuple(map(str.strip, flags)), ANY_NUMBER, "any", flags[-1].lstrip("-")))
        yield self._command_line("click", call, tuple(options), "error", abbreviates=False, has_places=True)


def _declared(parameter: ast.arg) -> str:
    return ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
