"""How a training script makes its training arguments: it calls the class, or parses flags, a file or a dict."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.argument_classes import ArgumentsClass, arguments_class
from ds_lint.launches.script_code import CodePlace, keyword, last_name, place
from ds_lint.launches.script_options import changes_command_line
from ds_lint.launches.script_paths import path_of
from ds_lint.launches.script_values import constant, of_node
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.model_sources import SourceReader
    from ds_lint.launches.script_modules import ScriptModule
    from ds_lint.source.tree import Node

PARSERS = ("HfArgumentParser", "TrlParser", "H4ArgumentParser")
_OF_FILES = {"parse_json_file": "json_file", "parse_yaml_file": "yaml_file"}
_OF_FLAGS = ("parse", "parse_args", "parse_args_and_config", "parse_args_into_dataclasses", "parse_known_args")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Expression(NamedTuple):
    """A value that only a launch tells: an expression of the arguments of its command line."""

    text: str


class KeywordArgument(NamedTuple):
    """A keyword of a call: its value, UNKNOWN if it is computed, or an Expression; and where it stands."""

    value: Any
    place: CodePlace


class ArgumentsWay(NamedTuple):
    """One way to make training arguments.

    ``given`` are fields that the script gives, and ``is_open`` says that it may give others. ``takes_flags`` says that
    a parser takes the command line, or the ``words`` that the script has instead. ``file`` has fields, "" for one that
    the command line names.
    """

    of: ArgumentsClass
    given: dict[str, KeywordArgument]
    is_open: bool = False
    takes_flags: bool = False
    words: tuple[str, ...] | None = None
    file: str | None = None


def argument_ways(module: ScriptModule, sources: SourceReader) -> list[ArgumentsWay]:
    """The ways, in the order of the text."""
    return list(WayReader(module, sources).ways())


def parsed_names(module: ScriptModule) -> Iterator[str]:
    """The names of the dataclasses that parsers get."""
    for call in module.names.calls:
        if last_name(call) in PARSERS:
            yield from _class_names(call, module)


def _class_names(call: ast.Call, module: ScriptModule) -> Iterator[str]:
    given = call.args[0] if call.args else keyword(call, "dataclass_types")
    if given is not None and (name := dotted_name(given)) and not module.classes.get(name):
        found = module.names.assignments(name, given)
        given = found[0].value or given if len(found) == 1 else given
    for one in given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]:
        if one is not None and dotted_name(one):
            yield dotted_name(one)


class WayReader:
    """Reads the ways of a module, and the expressions that give values to fields."""

    def __init__(self, module: ScriptModule, sources: SourceReader) -> None:
        self.module = module
        self.names = module.names
        self.sources = sources

    def ways(self) -> Iterator[ArgumentsWay]:
        """The ways, parsers first."""
        parsed = [
            (call, of)
            for call in self.names.calls
            if last_name(call) in PARSERS
            for name in _class_names(call, self.module)
            if (of := arguments_class(name, self.module)) is not None
        ]
        is_classmethod = {id(call) for call, _ in parsed}
        for call, of in parsed:
            yield from self._parsed(call, of)
        overwritten = {id(call) for call in self._overwritten()}
        for call in self.names.calls:
            if id(call) in is_classmethod or id(call) in overwritten or not self._may_be_class(dotted_name(call.func)):
                continue
            of_call = arguments_class(dotted_name(call.func), self.module)
            if of_call is not None and not self._is_in_class(call):
                yield self._called(call, of_call)

    def _overwritten(self) -> Iterator[ast.expr]:
        """What the variable had before that the only Trainer gets, as a cell of a notebook above leaves it."""
        trainers = [call for call in self.names.calls if last_name(call).endswith("Trainer")]
        given = keyword(trainers[0], "args") or next(iter(trainers[0].args[1:2]), None) if len(trainers) == 1 else None
        if not isinstance(given, ast.Name) or (reaching := self.names.reaching(given.id, given)) is None:
            return
        for one in self.names.assignments(given.id, given):
            if one is not reaching and one.value is not None:
                yield one.value

    def _may_be_class(self, name: str) -> bool:
        """Whether what is called may be a class, by its capital letter: to look into every import takes long."""
        last = (self.module.imported.full_name(name) or name).rpartition(".")[2]
        return last in self.module.classes or last.lstrip("_")[:1].isupper()

    def _is_in_class(self, call: ast.Call) -> bool:
        """Whether a call is a default of a field, or a base."""
        around: ast.AST | None = call
        while around is not None and not isinstance(around, (*_FUNCTIONS, ast.Module)):
            if isinstance(around, ast.ClassDef):
                return True
            around = self.names.parents.get(around)
        return False

    def _called(self, call: ast.Call, of: ArgumentsClass) -> ArgumentsWay:
        given, is_open = self.keywords(call)
        for name, one in zip(("output_dir",), call.args, strict=False):
            is_open |= isinstance(one, ast.Starred)
            given[name] = KeywordArgument(self.value(one), place(one))
        return ArgumentsWay(of, given, is_open or len(call.args) > 1)

    def keywords(self, call: ast.Call) -> tuple[dict[str, KeywordArgument], bool]:
        """The keywords of a call, those that it unpacks too, and whether there may be others."""
        found = {
            one.arg: KeywordArgument(self.value(one.value), place(one)) for one in call.keywords if one.arg is not None
        }
        unpacked = [one.value for one in call.keywords if one.arg is None]
        if not unpacked:
            return found, False
        value = self.module.values.keywords(call)  # as the call gets them: a variable may be another dict elsewhere
        made = [pair for one in unpacked for pair in self._dict_of(one) or ()]
        return self._members(value.node, made, unpacked[0]) | found, value.is_open

    def _unpacked(self, node: ast.expr) -> tuple[dict[str, KeywordArgument], bool]:
        """The keys of a dict, and whether these are all."""
        value = self.module.values.value(node)
        if value.node.kind != "object":
            return {}, False
        return self._members(value.node, self._dict_of(node) or [], node), not value.is_open

    def _members(self, value: Node, made: list[tuple[str, ast.expr]], written: ast.expr) -> dict[str, KeywordArgument]:
        """The members of an object that ``written`` is; ``made`` are elements of which the expression shows."""
        found: dict[str, KeywordArgument] = {}
        for member in value.members:
            known = of_node(member.value)
            if known is UNKNOWN:
                known = next((self.value(each) for key, each in made if key == member.key), UNKNOWN)
            found[member.key] = KeywordArgument(known, place(written))
        return found

    def _dict_of(self, node: ast.expr) -> list[tuple[str, ast.expr]] | None:
        """The elements of a dict that is written out, and only read, as expressions."""
        if name := dotted_name(node):
            found = self.names.assignments(name, node)
            meant = found[0].value if len(found) == 1 and len(self.names.uses.get(name, ())) == 1 else None
            node = meant if meant is not None else node
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            return [(str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant)]
        if isinstance(node, ast.Call) and dotted_name(node.func) == "dict" and not node.args:
            return [(one.arg, one.value) for one in node.keywords if one.arg is not None]
        return None

    def value(self, node: ast.expr) -> Any:
        """What an expression is: a constant, an Expression, or UNKNOWN."""
        value = UNKNOWN if self.sources.reads_arguments(node) else constant(node, self.module.values)
        if value is UNKNOWN and (text := self.sources.expression(node)) is not None:
            return Expression(text)
        return value

    def _parsed(self, call: ast.Call, of: ArgumentsClass) -> Iterator[ArgumentsWay]:
        """The ways of a parser, by what is called on it."""
        flags = ArgumentsWay(of, {}, is_open=changes_command_line(self.names), takes_flags=True)
        ways = [way for use in self._methods(call) if (way := self._method(use, of)) is not None]
        if len(ways) > 1:  # such as: if sys.argv[1].endswith(".json"), which a launch tells
            ways = [way for way in ways if way.file != ""] or ways
        yield from ways or [flags]

    def _methods(self, call: ast.Call) -> list[ast.Call]:
        """The calls of methods of a parser."""
        around = self.names.parents.get(call)
        if isinstance(around, ast.Attribute):
            used = self.names.parents.get(around)
            return [used] if isinstance(used, ast.Call) else []
        target = around.targets[0] if isinstance(around, ast.Assign) else getattr(around, "target", None)
        name = dotted_name(target) if isinstance(target, ast.expr) else ""
        found = self.names.assignments(name, call) if name else []
        if len(found) != 1:
            return []
        return [
            one
            for one in self.names.calls
            if isinstance(one.func, ast.Attribute)
            and dotted_name(one.func.value) == name
            and self.names.means_the_same(name, one, call)
        ]

    def _method(self, call: ast.Call, of: ArgumentsClass) -> ArgumentsWay | None:
        """What a method of a parser takes; None if it makes nothing."""
        method = last_name(call)
        if method in _OF_FILES:
            given = call.args[0] if call.args else keyword(call, _OF_FILES[method])
            return ArgumentsWay(of, {}, file=path_of(given, self.module) or "")
        if method == "parse_dict":
            node = call.args[0] if call.args else keyword(call, "args")
            fields, is_whole = self._unpacked(node) if node is not None else ({}, False)
            return ArgumentsWay(of, fields, is_open=not is_whole)
        if method not in _OF_FLAGS:
            return None
        words = call.args[0] if call.args else keyword(call, "args")
        is_open = changes_command_line(self.names)
        if words is None or (isinstance(words, ast.Constant) and words.value is None):
            return ArgumentsWay(of, {}, is_open=is_open, takes_flags=True)
        listed = constant(words, self.module.values)
        if isinstance(listed, list) and all(isinstance(one, str) for one in listed):
            return ArgumentsWay(of, {}, takes_flags=True, words=tuple(listed))
        is_rest = ast.unparse(words) == "sys.argv[1:]"
        return ArgumentsWay(of, {}, takes_flags=is_rest, is_open=not is_rest or is_open)
