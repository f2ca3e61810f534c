"""Where a training script takes the model from that it trains: which calls load it, by which name, in which branches.

A name may be written out or come from an argument of the script. So names and conditions are expressions, in which an
argument is ``ARGS.name``, and only a launch tells their values.
"""

from __future__ import annotations

import ast
import copy
import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.loaded_files import FILE, is_changed, loaded_path
from ds_lint.launches.script_code import CodePlace, ImportedNames, keyword, last_name, literal, place
from ds_lint.launches.script_options import is_command, parameter_defaults
from ds_lint.launches.script_values import constant
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ds_lint.launches.script_options import ScriptArgument
    from ds_lint.launches.trained_names import TrainedNames
    from ds_lint.source.python_values import Values

ARGS = "ARGS"
_OPEN = "_"  # what only a run of the script shows
_ARE_MAIN = ("__name__ == '__main__'", "'__main__' == __name__")
_OF_ENVIRONMENT = ("os.environ", "os.getenv")
_OBJECTS = re.compile(r"(?:\w*_)?(?:args|arguments|cfg|flags|hparams|opt|options|opts)", re.IGNORECASE)
_PARSES = re.compile(r"parse_(?:args|dict|json_file|known_args|yaml_file)")
_LOADERS = ("from_config", "from_pretrained")
_TRAINERS = re.compile(r"\w*Trainer")
# Names of models that a script loads beside the one that it trains.
_OTHERS = re.compile(r"assistant|critic|draft|embed|ref(?:erence)?(?:_|$)|reward|scor|teacher|value_", re.IGNORECASE)
_OTHER_CLASSES = re.compile(r"Adapter|Config|Extractor|Peft|Processor|Scheduler|Tokenizer")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PARTS = frozenset({"self.layers", "self.model"})  # of a model of transformers, in its causal model
_DEPTH, _NESTING, _MOST = 4, 40, 4


class ModelSource(NamedTuple):
    """A call that loads the model. ``name`` and ``conditions`` are expressions, each with whether it has to hold.

    ``class_name`` is that of a class of transformers, None for any other; ``base_name`` then is the one that a class of
    the module is derived from, None if that is not known, or if the class has another model in it. Of several calls
    with the same ``target`` a later one replaces what an earlier one has loaded. ``has_rivals`` says that the target
    may get a model from elsewhere. ``attention`` is the expression of ``attn_implementation``, None if it is not given.
    """

    name: str
    class_name: str | None
    base_name: str | None
    conditions: tuple[tuple[str, bool], ...]
    target: str
    has_rivals: bool
    place: CodePlace
    attention: str | None


class SourceReader:
    """The models of a module, and its arguments."""

    def __init__(
        self,
        trained: TrainedNames,
        imported: ImportedNames,
        arguments: Mapping[str, ScriptArgument],
        values: Values,
        folder: str | None = None,
    ) -> None:
        self.names = trained.names
        self.trained = trained
        self.arguments = arguments
        self._imported = imported
        self._data = values
        self._folder = folder  # of the script

    def sources(self) -> list[ModelSource]:
        """The loads of the model that is trained; where none is known to be, all that may be."""
        loads = [call for call in self.names.calls if self._may_load(call)]
        certain = [call for call in loads if self.trained.reaches_training(call)]
        calls = certain or [call for call in loads if _is_model(call) and not _OTHERS.search(self._target(call)[0])]
        found = [source for call in calls for source in self._of(call, call.args[0] if call.args else _named(call))]
        for call in self.names.calls if not calls else ():
            given = keyword(call, "model") or next(iter(call.args[:1]), None)
            if _TRAINERS.fullmatch(last_name(call)) and given is not None and self._is_text(given):
                found += self._of(call, given)
        return found

    # -------------------------------------------------------------------------------------------------------- loads

    def _may_load(self, call: ast.Call) -> bool:
        owner, _, method = dotted_name(call.func).rpartition(".")
        return bool(owner) and method in _LOADERS and not _OTHER_CLASSES.search(owner.rpartition(".")[2])

    def _of(self, call: ast.Call, given: ast.expr | None) -> Iterator[ModelSource]:
        """The sources that a call stands for: one for each value that the variable with the name may have."""
        around = self.conditions(call)
        if around is None:
            return
        target, has_rivals = self._target(call)
        is_computed = given is None or dotted_name(call.func).endswith("from_config")
        values = [(given, ())] if is_computed else self._values(given)
        for value, conditions in values:
            known = value is not None and not is_computed
            yield ModelSource(
                self._name(value, given if len(values) == 1 else value) if known and value is not None else _OPEN,
                self._class_of(call),
                self._base_of(dotted_name(call.func).rpartition(".")[0], _DEPTH),
                (*around, *conditions),
                target or f"{call.lineno}:{call.col_offset}",
                has_rivals,
                place(value if known and isinstance(value, ast.Constant) else call.func),
                self._attention(call),
            )

    def _attention(self, call: ast.Call) -> str | None:
        """How a call has attention computed, by the newer argument or the older one; open if a config may say it."""
        given, older = self._given_as(call, "attn_implementation"), self._given_as(call, "use_flash_attention_2")
        if given is None and older is not None:
            return f"'flash_attention_2' if {self.text(older)} else None"
        if given is not None:
            return self.text(given)
        has_config = keyword(call, "config") is not None or dotted_name(call.func).endswith("from_config")
        is_open = any(one.arg is None and not self._shows(one.value) for one in call.keywords)
        return _OPEN if is_open or has_config or _TRAINERS.fullmatch(last_name(call)) else None

    def _shows(self, node: ast.expr) -> bool:
        """Whether all that a dict has is written out."""
        made = self.trained.meant(node) if not self._is_changed(node) else None
        if isinstance(made, ast.Call) and dotted_name(made.func) == "dict":
            return not made.args and all(one.arg is not None for one in made.keywords)
        return isinstance(made, ast.Dict) and all(key is not None for key in made.keys)

    def _given_as(self, call: ast.Call, name: str) -> ast.expr | None:
        """The value of a keyword of a call, which a dict that nothing changes may have."""
        given = keyword(call, name)
        for one in call.keywords:
            made = self.trained.meant(one.value) if one.arg is None and not self._is_changed(one.value) else None
            if isinstance(made, ast.Call) and dotted_name(made.func) == "dict":
                given = given or keyword(made, name)
            if isinstance(made, ast.Dict):
                found = zip(made.keys, made.values, strict=True)
                given = given or next((value for key, value in found if key and literal(key) == name), None)
        return given

    def _is_changed(self, node: ast.expr) -> bool:
        """Whether something is written into the dict of a variable."""
        for use in self.names.uses.get(dotted_name(node), []):
            around = self.names.parents.get(use)
            if isinstance(around, ast.Attribute) or (
                isinstance(around, ast.Subscript) and isinstance(around.ctx, ast.Store)
            ):
                return True
        return False

    def _values(self, node: ast.expr | None) -> list[tuple[ast.expr | None, tuple[tuple[str, bool], ...]]]:
        """An expression, or what a variable gets in several places, each with the conditions there."""
        node = self._given(node)
        found = self.names.assignments(node.id, node) if isinstance(node, ast.Name) else []
        if not 1 <= len(found) <= _MOST or any(one.value is None for one in found):
            return [(node, ())]
        values = []
        for one in found:
            conditions = self.conditions(one.value) if one.value is not None else None
            if conditions is not None:
                values.append((one.value, conditions))
        return values or [(node, ())]

    def _given(self, node: ast.expr | None) -> ast.expr | None:
        """The variable that another one is assigned, or that the only call of a function gives it."""
        for _ in range(_DEPTH):
            found = self.names.assignments(node.id, node) if isinstance(node, ast.Name) else []
            if len(found) == 1 and isinstance(found[0].value, ast.Name):
                node = found[0].value
                continue
            scope = found[0].place.scope if len(found) == 1 and found[0].value is None else None
            order = [one.arg for one in scope.args.args] if isinstance(scope, _FUNCTIONS) else []
            calls = self.trained.calls_of(scope) if isinstance(scope, _FUNCTIONS) else []
            if not isinstance(node, ast.Name) or node.id not in order or len(calls) != 1:
                return node
            given = self.trained.argument(calls[0], node.id, order.index(node.id))
            if given is None or not isinstance(given, ast.Name):
                return node
            node = given
        return node

    def _name(self, value: ast.expr, given: ast.expr | None) -> str:
        """A name of a model as an expression; what no argument decides is worked out with all that happens before."""
        text = self.text(value)
        found = {one.id for one in ast.walk(ast.parse(text, mode="eval")) if isinstance(one, ast.Name)}
        if isinstance(value, ast.Constant) or not found <= {_OPEN}:
            return text
        known = constant(given if given is not None else value, self._data)
        return repr(known) if isinstance(known, str) else text

    def _class_of(self, call: ast.Call) -> str | None:
        if _TRAINERS.fullmatch(last_name(call)):
            return "AutoModelForCausalLM"  # which trl loads a name with
        return self._imported.in_transformers(dotted_name(call.func).rpartition(".")[0])

    def _base_of(self, name: str, depth: int) -> str | None:
        """The only class of transformers that a class of the module is derived from."""
        node = next((one for one in self.names.every(ast.ClassDef) if one.name == name), None)
        if node is None or depth == 0:
            return None
        bases = [dotted_name(one) for one in node.bases]
        found = {self._imported.in_transformers(one) or self._base_of(one, depth - 1) for one in bases} - {None}
        return found.pop() if len(found) == 1 and not self._replaces_model(node, depth) else None

    def _replaces_model(self, node: ast.ClassDef, depth: int) -> bool:
        """Whether a class gives itself another model, or other layers, than the class that it is derived from."""
        for statement in ast.walk(node):
            targets = [dotted_name(one) for one in statement.targets] if isinstance(statement, ast.Assign) else []
            if isinstance(statement, ast.Assign) and not _PARTS.isdisjoint(targets):
                made = dotted_name(statement.value.func) if isinstance(statement.value, ast.Call) else ""
                if not made or (self._imported.in_transformers(made) or self._base_of(made, depth - 1)) is None:
                    return True
        return False

    def _target(self, call: ast.Call) -> tuple[str, bool]:
        """The variable that gets the model, and whether it may get another one; "" if there is none."""
        statement = self.names.parents.get(call)
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            return "", False
        name = dotted_name(statement.targets[0] if isinstance(statement, ast.Assign) else statement.target)
        others = [one.value for one in self.names.assignments(name, call) if one.value is not call] if name else []
        return name, any(value is None or not self._continues(value, name) for value in others)

    def _continues(self, value: ast.expr, name: str) -> bool:
        """Whether a value is made of what the variable has, or is another load."""
        if isinstance(value, ast.Constant) or (isinstance(value, ast.Call) and self._may_load(value)):
            return True
        return any(dotted_name(node) == name for node in ast.walk(value))

    def _is_text(self, node: ast.expr) -> bool:
        """Whether what a trainer gets for a model is its name."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str)
        text = self.text(node)
        name = text.removeprefix(f"{ARGS}.")
        return (name != text and name in self.arguments) or text[:1] in ("'", '"')

    # --------------------------------------------------------------------------------------------------- conditions

    def conditions(self, node: ast.AST, depth: int = _DEPTH) -> tuple[tuple[str, bool], ...] | None:
        """What has to hold for a node to run; None if nothing calls its function."""
        found: list[tuple[str, bool]] = []
        below, around = node, self.names.parents.get(node)
        while around is not None and not isinstance(around, (*_FUNCTIONS, ast.Lambda)):
            if isinstance(around, ast.If) and ast.unparse(around.test) in _ARE_MAIN and below in around.body:
                pass  # as the script is started
            elif isinstance(around, (ast.If, ast.IfExp)) and below is not around.test:
                body = around.body if isinstance(around.body, list) else [around.body]
                found.append((self.text(around.test), below in body))
            elif isinstance(around, ast.match_case) and below in around.body:
                found.append((self._case(around), True))
            elif isinstance(around, ast.ExceptHandler):
                found.append((_OPEN, True))
            below, around = around, self.names.parents.get(around)
        if not isinstance(around, _FUNCTIONS) or depth == 0:
            return tuple(found)
        if isinstance(self.names.parents.get(around), ast.ClassDef) or around.decorator_list:
            return tuple(found)
        if not self.names.uses.get(around.name):
            return None
        calls = self.trained.calls_of(around)
        if len(calls) != 1:
            return tuple(found)
        outer = self.conditions(calls[0], depth - 1)
        return None if outer is None else (*found, *outer)

    def _case(self, case: ast.match_case) -> str:
        around = self.names.parents[case]
        if case.guard is None and isinstance(around, ast.Match) and isinstance(case.pattern, ast.MatchValue):
            return f"({self.text(around.subject)}) == ({self.text(case.pattern.value)})"
        return _OPEN

    # -------------------------------------------------------------------------------------------------- expressions

    def expression(self, node: ast.expr) -> str | None:
        """An expression of the command line's arguments, with ARGS for what has them; None for any other."""
        text = self.text(node)
        found = {one.id for one in ast.walk(ast.parse(text, mode="eval")) if isinstance(one, ast.Name)}
        return text if ARGS in found and _OPEN not in found else None

    def reads_arguments(self, node: ast.expr) -> bool:
        """Whether an expression has arguments of the command line in it, under their own names."""
        return any(
            isinstance(one, ast.Attribute) and one.attr in self.arguments and self._are_arguments(one.value)
            for one in ast.walk(node)
        )

    def text(self, node: ast.expr) -> str:
        """An expression as a launch can work it out, with ``ARGS`` for the command line."""
        return ast.unparse(self._meant(node, _DEPTH, _NESTING))

    def _meant(self, node: ast.expr, depth: int, nesting: int) -> ast.expr:
        """An expression in which variables stand for their values, as far as they have one alone."""
        if nesting == 0:
            return ast.Name(_OPEN, ast.Load())
        if isinstance(node, (ast.Name, ast.Attribute)) and dotted_name(node):
            return self._name_meant(node, depth, nesting)
        if isinstance(node, ast.Call) and (path := loaded_path(node, self.names)) is not None:
            where = [self._meant(path, depth, nesting - 1), ast.Constant(self._folder)]
            return ast.Call(ast.Name(FILE, ast.Load()), where, []) if self._folder else ast.Name(_OPEN, ast.Load())
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            of = self._meant(node.func.value, depth, nesting - 1)
            given = [self._meant(one, depth, nesting - 1) for one in node.args]
            return ast.Call(ast.Attribute(of, "get", ast.Load()), given, node.keywords)
        if isinstance(node, ast.JoinedStr):
            return self._formatted(node, depth, nesting)
        found = copy.copy(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(found, field, self._meant(value, depth, nesting - 1))
            elif isinstance(value, list) and all(isinstance(one, ast.expr) for one in value):
                setattr(found, field, [self._meant(one, depth, nesting - 1) for one in value])
        return found

    def _formatted(self, node: ast.JoinedStr, depth: int, nesting: int) -> ast.expr:
        """An f-string as a sum of texts."""
        found: ast.expr = ast.Constant("")
        for part in node.values:
            value: ast.expr = part
            if isinstance(part, ast.FormattedValue):
                if part.conversion != -1 or part.format_spec is not None:
                    return ast.Name(_OPEN, ast.Load())
                value = ast.Call(ast.Name("str", ast.Load()), [self._meant(part.value, depth, nesting - 1)], [])
            found = ast.BinOp(found, ast.Add(), value)
        return found

    def _name_meant(self, node: ast.Name | ast.Attribute, depth: int, nesting: int) -> ast.expr:
        unknown = ast.Name(_OPEN, ast.Load())
        name = dotted_name(node)
        if name in _OF_ENVIRONMENT:
            return unknown if is_changed("os.environ", self.names) else node
        assigned = self.names.assignments(name, node)
        if isinstance(node, ast.Attribute) and self._has_data(node.value):
            of_file = self._meant(node.value, depth - 1, nesting - 1)
            return ast.Subscript(of_file, ast.Constant(node.attr), ast.Load()) if depth else unknown
        if isinstance(node, ast.Attribute) and self._are_arguments(node.value):
            return unknown if assigned else ast.Attribute(ast.Name(ARGS, ast.Load()), node.attr, ast.Load())
        if len(assigned) != 1 or depth == 0:
            return unknown
        value = assigned[0].value
        if isinstance(value, (ast.Call, ast.Dict)) and is_changed(name, self.names):
            return unknown
        if value is None and isinstance(node, ast.Name):
            return self._parameter(node, assigned[0].place.scope, depth, nesting)
        return unknown if value is None else self._meant(value, depth - 1, nesting - 1)

    def _has_data(self, node: ast.expr) -> bool:
        """Whether an object has what a file has, whose keys are attributes with OmegaConf."""
        made = self.trained.meant(node)
        return isinstance(made, ast.Call) and loaded_path(made, self.names) is not None

    def _are_arguments(self, node: ast.expr) -> bool:
        """Whether an object has the arguments of the command line."""
        if self._is_own(node):
            return False
        if _OBJECTS.fullmatch(dotted_name(node).rpartition(".")[2]):
            return True
        made = self.trained.meant(node)
        return (isinstance(made, ast.Call) and "parse_arg" in last_name(made)) or dotted_name(node) in self._parsed

    def _is_own(self, node: ast.expr) -> bool:
        """Whether an object is a class of the module, or what the module makes of one with arguments of its own."""
        made = self.trained.meant(node)
        name = dotted_name(made.func if isinstance(made, ast.Call) else node)
        return any(one.name == name for one in self.names.every(ast.ClassDef))

    @cached_property
    def _parsed(self) -> set[str]:
        """The variables that share what a parser returns, and get nothing else."""
        found = {
            dotted_name(target): target
            for statement in self.names.every(ast.Assign)
            if isinstance(statement.value, ast.Call) and _PARSES.match(last_name(statement.value))
            for targets in statement.targets
            for target in (targets.elts if isinstance(targets, (ast.Tuple, ast.List)) else [])
        }
        return {name for name, target in found.items() if name and len(self.names.assignments(name, target)) == 1}

    def _parameter(self, node: ast.Name, scope: ast.AST, depth: int, nesting: int) -> ast.expr:
        """What the only call of a function gives it, or the command line if Fire makes one of its parameters."""
        unknown = ast.Name(_OPEN, ast.Load())
        order = [one.arg for one in scope.args.args] if isinstance(scope, _FUNCTIONS) else []
        if not isinstance(scope, _FUNCTIONS) or node.id not in order:
            return unknown
        calls = self.trained.calls_of(scope)
        if len(calls) == 1 and not is_command(scope, self.names):
            given = self.trained.argument(calls[0], node.id, order.index(node.id))
            given = given if given is not None else parameter_defaults(scope).get(node.id)
            return unknown if given is None else self._meant(given, depth - 1, nesting - 1)
        is_of_line = is_command(scope, self.names)
        return ast.Attribute(ast.Name(ARGS, ast.Load()), node.id, ast.Load()) if is_of_line else unknown


def _is_model(call: ast.Call) -> bool:
    """Whether a class that is loaded is called like one of a model."""
    owner, _, method = dotted_name(call.func).rpartition(".")
    return "Model" in owner or (method == "from_pretrained" and "For" in owner)


def _named(call: ast.Call) -> ast.expr | None:
    return next(
        (found for name in ("pretrained_model_name_or_path", "model_name") if (found := keyword(call, name))), None
    )
