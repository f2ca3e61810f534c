"""Which names of a training script mean the model that is trained or its engine, and under which conditions code runs.

A model counts as trained from the call on that gives it to ``deepspeed.initialize``, ``Accelerator.prepare`` or a
Trainer. A name that gets another value afterwards no longer means it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import last_name
from ds_lint.source.python_names import ModuleNames, Scope, dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MADE_READY = ("get_peft_model", "prepare_model_for_int8_training", "prepare_model_for_kbit_training")
_UNWRAPS = ("unwrap_model", "extract_model_from_parallel")
_TRAINERS = re.compile(r"\w*Trainer")
_GATHERING = re.compile(r"gather|unwrap_model_for_generation|summon", re.IGNORECASE)
_IS_ONE_RANK = re.compile(
    r"is_(?:local_)?main_process|is_(?:local_|world_)process_zero|on_(?:local_)?main_process|is_(?:global_|rank_)zero"
    r"|is_rank_?0|is_(?:main|master)_(?:process|rank)"
)
_IS_SEVERAL = ("is_available", "is_initialized")  # of torch.distributed; true on each of several ranks
_RANKS = re.compile(r"(?:(?:cur|current|dist|global|local|my|process|world)_)?rank|(?:local_)?process_index")
_OF_ENVIRONMENT = ("RANK", "LOCAL_RANK")
_DEPTH = 4  # functions that call each other


class Wrap(NamedTuple):
    """A call that takes a model for training."""

    call: ast.Call
    models: list[ast.expr]
    engines: list[ast.expr]


class TrainedNames:
    """The model and the engine of a module, by name."""

    def __init__(self, names: ModuleNames) -> None:
        self.names = names
        self.wraps = list(self._wraps())
        self.stores: dict[str, list[ast.expr]] = {}
        nodes: list[ast.Name | ast.Attribute] = [*names.every(ast.Name), *names.every(ast.Attribute)]
        for node in nodes:
            if isinstance(node.ctx, ast.Store):
                self.stores.setdefault(dotted_name(node), []).append(node)
        self.has_adapters = any(
            dotted_name(call.func).rpartition(".")[2] == "get_peft_model"
            or any(keyword.arg == "peft_config" for keyword in call.keywords)
            for call in names.calls
        )

    def is_trained(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether an expression is the model that is trained, or the engine around it."""
        return self._means(node, depth, is_engine=False)

    def is_engine(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether an expression is what ``deepspeed.initialize`` returned first, or a name that ``prepare`` gave.

        What is in the engine, ``engine.module``, is not the engine.
        """
        return self._means(node, depth, is_engine=True)

    def is_accelerator(self, node: ast.expr) -> bool:
        """Whether an expression is the accelerator of Accelerate: by its name, or what it is assigned."""
        name = dotted_name(node)
        if name.rpartition(".")[2] == "accelerator":
            return True
        found = self.names.assignments(name, node) if name else []
        return len(found) == 1 and isinstance(found[0].value, ast.Call) and last_name(found[0].value) == "Accelerator"

    def is_gathered(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether a node may run where the weights are gathered."""
        if any(_GATHERING.search(ast.unparse(context)) for context in self.contexts(node)):
            return True
        calls = self._calls_of_function_of(node)
        return depth > 0 and any(self.is_gathered(call, depth - 1) for call in calls)

    def contexts(self, node: ast.AST) -> Iterator[ast.expr]:
        """What the ``with`` statements around a node enter, in its function."""
        for around, below in self._around(node):
            if isinstance(around, (ast.With, ast.AsyncWith)) and below in around.body:
                for item in around.items:
                    yield item.context_expr

    def entered(self, node: ast.AST, depth: int = _DEPTH) -> Iterator[ast.expr]:
        """What is certainly entered around a node: in its function, as its decorators, or where it is called."""
        yield from self.contexts(node)
        function = self._function_of(node)
        if function is None or depth == 0:
            return
        yield from function.decorator_list
        calls = self._calls_of_function_of(node)
        if len(calls) == 1:
            yield from self.entered(calls[0], depth - 1)

    def condition_of_one_rank(self, node: ast.AST, depth: int = _DEPTH) -> ast.expr | None:
        """The condition by which one rank alone runs a node; None if all do, or it is not known."""
        method = _last(node.func) or getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
        for around, below in self._around(node):
            if isinstance(around, ast.If) and self._is_for_one_rank(around, below):
                others = around.orelse if below in around.body else around.body
                return None if _has_call(others, method) else around.test
            if (guard := self._guard(around, below)) is not None:
                return None if _has_call(guard.body, method) else guard.test
        function = self._function_of(node)
        if function is None:
            return None
        if (guard := self._guard(function, self._below(function, node))) is not None:
            return None if _has_call(guard.body, method) else guard.test
        for decorator in function.decorator_list:
            if _IS_ONE_RANK.fullmatch(dotted_name(decorator).rpartition(".")[2]):
                return decorator
        calls = self._calls_of_function_of(node)
        found = [self.condition_of_one_rank(call, depth - 1) for call in calls] if depth else []
        return found[0] if found and None not in found else None

    def runs_on_the_others(self, node: ast.AST) -> bool:
        """Whether a node stands under a condition that holds on all ranks but one."""
        for around, below in self._around(node):
            if isinstance(around, ast.If):
                test = around.test
                if below in around.body and self._holds_on_the_others(test):
                    return True
                if below in around.orelse and self._holds_on_one_rank(test):
                    return True
        return False

    def _is_for_one_rank(self, branch: ast.If, below: ast.AST) -> bool:
        """Whether one rank alone runs the part of an ``if`` that a node is in."""
        if below in branch.body:
            return self._holds_on_one_rank(branch.test)
        return below in branch.orelse and self._holds_on_the_others(branch.test)

    def _guard(self, around: ast.AST, below: ast.AST) -> ast.If | None:
        """What sends all ranks but one away before a statement is reached, such as ``if rank != 0: return``."""
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(around, field, None)
            if not isinstance(statements, list) or below not in statements:
                continue
            for statement in statements[: statements.index(below)]:
                if not isinstance(statement, ast.If) or statement.orelse or not _leaves(statement.body[-1]):
                    continue
                if self._holds_on_the_others(statement.test):
                    return statement
        return None

    def _holds_on_one_rank(self, test: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a condition holds on one rank at most."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return any(self._holds_on_one_rank(one, depth) for one in test.values)
        if isinstance(test, ast.BoolOp):  # ``not dist.is_initialized() or dist.get_rank() == 0``
            left = [one for one in test.values if not _is_alone(one)]
            return bool(left) and all(self._holds_on_one_rank(one, depth) for one in left)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return is_rank(test.operand) or self._holds_on_the_others(test.operand, depth)
        if _is_of_one_rank(test):
            return True
        meant = self.meant(test, depth)
        return depth > 0 and meant is not None and meant is not test and self._holds_on_one_rank(meant, depth - 1)

    def _holds_on_the_others(self, test: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a condition holds on all ranks but one at least."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return any(self._holds_on_the_others(one, depth) for one in test.values)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._holds_on_one_rank(test.operand, depth)
        return is_rank(test) or _is_of_the_others(test)

    def precedes(self, one: ast.AST, other: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether one node certainly runs before another, if the other runs."""
        first, second = self.names.places[one], self.names.places[other]
        if first.scope is second.scope:
            line, other_line = self.names.statement(one).lineno, self.names.statement(other).lineno
            blocks = {self.names.places[around].block for around, _ in self._around(other)} | {second.block}
            return line < other_line and first.block in blocks
        if depth == 0:
            return False
        calls = self._calls_of_function_of(other)
        if calls and all(self.precedes(one, call, depth - 1) for call in calls):
            return True
        function = self._function_of(one)
        if function is None or first.block != self.names.places[function.body[0]].block:
            return False
        return any(self.precedes(call, other, depth - 1) for call in self.calls_of(function))

    def reaches_training(self, call: ast.Call, depth: int = _DEPTH) -> bool:
        """Whether a call makes the model that is trained."""
        around = self.names.parents.get(call)
        while isinstance(around, ast.keyword):
            around = self.names.parents.get(around)
        if depth == 0:
            return False
        if isinstance(around, ast.Call):
            return any(around is wrap.call for wrap in self.wraps) or (
                last_name(around) in MADE_READY and self.reaches_training(around, depth - 1)
            )
        if isinstance(around, ast.Return):
            calls = self._calls_of_function_of(call)
            return any(self.reaches_training(one, depth - 1) for one in calls)
        targets = self._targets(call)
        return len(targets) == 1 and self._is_passed_on(targets[0], depth)

    def _is_passed_on(self, target: ast.expr, depth: int) -> bool:
        """Whether what a name gets is trained, returned to where it is, or made ready for it."""
        name = dotted_name(target)
        if any(
            dotted_name(model) == name and self.names.means_the_same(name, model, target)
            for wrap in self.wraps
            for model in wrap.models
        ):
            return bool(name)
        uses = [use for use in self.names.uses.get(name, []) if self.names.means_the_same(name, use, target)]
        following = [call for use in uses for call in self._takers(use)]
        return depth > 0 and any(self.reaches_training(call, depth - 1) for call in following)

    def _takers(self, use: ast.expr) -> list[ast.Call]:
        """The calls whose result is what a name means: of the function that returns it, or of what prepares it."""
        around = self.names.parents.get(use)
        if isinstance(around, ast.Return):
            return self._calls_of_function_of(use)
        return [around] if isinstance(around, ast.Call) and last_name(around) in MADE_READY else []

    def meant(self, node: ast.expr | None, depth: int = _DEPTH) -> ast.expr | None:
        """The value of a name that is assigned once, and what a function of the module returns; None if unknown."""
        if node is None or depth == 0:
            return node
        if name := dotted_name(node):
            found = self.names.assignments(name, node)
            if not found:
                return node
            return self.meant(found[0].value, depth - 1) if len(found) == 1 else None
        functions = self.names.functions.get(dotted_name(node.func), []) if isinstance(node, ast.Call) else []
        if len(functions) == 1:
            returns = [one for one in ast.walk(functions[0]) if isinstance(one, ast.Return)]
            return self.meant(returns[0].value, depth - 1) if len(returns) == 1 else None
        return node

    # ------------------------------------------------------------------------------------------------------- names

    def _wraps(self) -> Iterator[Wrap]:
        for call in self.names.calls:
            name = dotted_name(call.func)
            last = name.rpartition(".")[2]
            given = next((keyword.value for keyword in call.keywords if keyword.arg == "model"), None)
            if name == "deepspeed.initialize":
                model = given or next(iter(call.args[1:2]), None)
                engine = self._targets(call)[:1]
                yield Wrap(call, [*([model] if model is not None else []), *engine], engine)
            elif last == "prepare" and isinstance(call.func, ast.Attribute) and self.is_accelerator(call.func.value):
                prepared = self._targets(call)
                yield Wrap(call, prepared, prepared)  # with DeepSpeed, the model that is returned is the engine
            elif _TRAINERS.fullmatch(last):
                model = given or next(iter(call.args[:1]), None)
                if model is not None:
                    yield Wrap(call, [model], [])

    def _targets(self, call: ast.Call) -> list[ast.expr]:
        """The names that get what a call returns, or ``[0]`` of it."""
        around = self.names.parents.get(call)
        is_first = isinstance(around, ast.Subscript) and getattr(around.slice, "value", None) == 0
        statement = self.names.parents.get(around) if around is not None and is_first else around
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return []
        target = statement.targets[0]
        if is_first:
            return [target] if dotted_name(target) else []
        return list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]

    def _means(self, node: ast.expr, depth: int, *, is_engine: bool) -> bool:
        if depth == 0:
            return False
        node = node if is_engine else _bare(node)
        if isinstance(node, ast.IfExp):
            return all(self._means(one, depth - 1, is_engine=is_engine) for one in (node.body, node.orelse))
        name = dotted_name(node)
        if not name:
            return False
        wraps = [
            wrap
            for wrap in self.wraps
            for one in (wrap.engines if is_engine else wrap.models)
            if dotted_name(one) == name and self.names.means_the_same(name, one, node)
        ]
        if wraps:
            return any(self._still_means(name, wrap, node) for wrap in wraps)
        if name.rpartition(".")[2] == "model" and name.rpartition(".")[0].rpartition(".")[2] == "trainer":
            return not is_engine
        return self._is_parameter(name, node, depth, is_engine) or self._is_alias(name, node, depth, is_engine)

    def _still_means(self, name: str, wrap: Wrap, node: ast.expr) -> bool:
        """Whether a name still has the value that a call took or gave it."""
        end = wrap.call.end_lineno or wrap.call.lineno
        is_same_function = self.names.places[wrap.call].scope is self.names.places[node].scope
        if is_same_function and node.lineno <= end:
            return False
        stores = [one for one in self.stores.get(name, []) if self.names.means_the_same(name, one, node)]
        return not any(
            one.lineno > end and (not is_same_function or one.lineno <= node.lineno)
            for one in stores
            if not self._unwraps(one, wrap)
        )

    def _unwraps(self, store: ast.expr, wrap: Wrap) -> bool:
        """Whether an assignment takes the wrapper off what the name already is, or off the engine around it."""
        statement = self.names.parents.get(store)
        if not isinstance(statement, ast.Assign):
            return False
        bare = _bare(statement.value)
        name = dotted_name(bare)
        return name != "" and (
            name == dotted_name(store)
            or any(
                name == dotted_name(engine) and self.names.means_the_same(name, engine, bare) for engine in wrap.engines
            )
        )

    def _is_alias(self, name: str, node: ast.expr, depth: int, is_engine: bool) -> bool:
        found = self.names.assignments(name, node)
        return bool(found) and all(
            one.value is not None and self._means(one.value, depth - 1, is_engine=is_engine) for one in found
        )

    def _is_parameter(self, name: str, node: ast.expr, depth: int, is_engine: bool) -> bool:
        """Whether a name is a parameter that every call of its function gives the model."""
        scope = self.names.places[node].scope
        if not isinstance(scope, _FUNCTIONS) or name not in (order := [one.arg for one in scope.args.args]):
            return False
        if any(self.names.places[store].scope is scope for store in self.stores.get(name, [])):
            return False
        around = self.names.parents.get(scope)
        if isinstance(around, ast.ClassDef):
            is_callback = any(dotted_name(base).endswith("TrainerCallback") for base in around.bases)
            return is_callback and name == "model" and scope.name.startswith("on_") and not is_engine
        given = [self.argument(call, name, order.index(name)) for call in self.calls_of(scope)]
        return bool(given) and all(
            one is not None and self._means(one, depth - 1, is_engine=is_engine) for one in given
        )

    @staticmethod
    def argument(call: ast.Call, name: str, index: int) -> ast.expr | None:
        """What a call gives a parameter of a function; None if that does not show."""
        if any(isinstance(one, ast.Starred) for one in call.args):
            return None
        if index < len(call.args):
            return call.args[index]
        return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)

    # ------------------------------------------------------------------------------------------------------- places

    def _around(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """What a node stands in, from the inside out up to its function, each with the child that it is in."""
        below = node
        while (around := self.names.parents.get(below)) is not None and not isinstance(
            around, (*_FUNCTIONS, ast.Lambda)
        ):
            yield around, below
            below = around

    def _below(self, function: ast.AST, node: ast.AST) -> ast.AST:
        """The statement of a function that a node is in."""
        while (around := self.names.parents[node]) is not function:
            node = around
        return node

    def _function_of(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        scope: Scope = self.names.places[node].scope
        return scope if isinstance(scope, _FUNCTIONS) else None

    def _calls_of_function_of(self, node: ast.AST) -> list[ast.Call]:
        function = self._function_of(node)
        return self.calls_of(function) if function is not None else []

    def calls_of(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.Call]:
        """The calls of a function or method of the module, if its name means nothing else and is only called."""
        around = self.names.parents.get(function)
        if isinstance(around, ast.ClassDef) and function.name != "__init__":
            return self._calls_of_method(function.name, around.name)
        name = around.name if isinstance(around, ast.ClassDef) else function.name
        is_one = isinstance(around, ast.ClassDef) or len(self.names.functions.get(name, [])) == 1
        calls = self.names.calls_by_name.get(name, [])
        is_called = len(calls) == len(self.names.uses.get(name, []))
        return calls if is_one and is_called and name not in self.stores else []

    def _calls_of_method(self, name: str, owner: str) -> list[ast.Call]:
        """The calls of a method that is defined once, if all are of objects of its class."""
        calls = self.names.calls_by_method.get(name, [])
        for call in calls:
            of = call.func.value if isinstance(call.func, ast.Attribute) else None
            made = self.meant(of)
            is_own = dotted_name(of) == "self" if of is not None else False
            if not is_own and not (isinstance(made, ast.Call) and dotted_name(made.func) == owner):
                return []
        return calls if len(self.names.functions.get(name, [])) == 1 else []


def identifiers(node: ast.AST, names: ModuleNames, depth: int = _DEPTH) -> set[str]:
    """The names and attributes in an expression, and in the functions of the module that it calls."""
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.add(one.id)
            functions = names.functions.get(one.id, []) if depth else []
            for function in functions:
                found |= identifiers(function, names, depth - 1)
        elif isinstance(one, ast.Attribute):
            found.add(one.attr)
    return found


def _bare(node: ast.expr) -> ast.expr:
    """A model without what is around it."""
    while True:
        if isinstance(node, ast.Attribute) and node.attr == "module":
            node = node.value
        elif isinstance(node, ast.Call) and node.args and _last(node.func) in _UNWRAPS:
            node = node.args[0]
        else:
            return node


def _last(node: ast.expr) -> str:
    return dotted_name(node).rpartition(".")[2]


def _has_call(statements: list[ast.stmt], method: str) -> bool:
    return any(
        method in (getattr(one, "attr", ""), _last(one.func) if isinstance(one, ast.Call) else "")
        for statement in statements
        for one in ast.walk(statement)
        if isinstance(one, (ast.Attribute, ast.Call))
    )


def _is_alone(test: ast.expr) -> bool:
    """Whether a condition holds only without other ranks."""
    if not isinstance(test, ast.UnaryOp) or not isinstance(test.op, ast.Not) or not isinstance(test.operand, ast.Call):
        return False
    return _last(test.operand.func) in _IS_SEVERAL


def _leaves(statement: ast.stmt) -> bool:
    """Whether what follows a statement in its block does not run."""
    return isinstance(statement, (ast.Return, ast.Continue, ast.Raise))


def is_rank(node: ast.expr) -> bool:
    """Whether an expression is the number of this rank."""
    while isinstance(node, ast.Call) and dotted_name(node.func) == "int" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Subscript):
        return dotted_name(node.value) == "os.environ" and _text(node.slice) in _OF_ENVIRONMENT
    if isinstance(node, ast.Call) and dotted_name(node.func) in ("os.environ.get", "os.getenv"):
        return bool(node.args) and _text(node.args[0]) in _OF_ENVIRONMENT
    name = _last(node.func if isinstance(node, ast.Call) and not node.keywords else node)
    return _RANKS.fullmatch(name.removeprefix("get_")) is not None


def _text(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _is_of_one_rank(test: ast.expr) -> bool:
    """Whether a condition by itself says that it holds on one rank."""
    called = test.func if isinstance(test, ast.Call) and not test.args else test
    if isinstance(called, (ast.Name, ast.Attribute)):
        return _IS_ONE_RANK.fullmatch(_last(called)) is not None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not is_rank(test.left):
        return False
    other = test.comparators[0]
    if isinstance(test.ops[0], ast.Eq):
        return _text(other) in (0, "0")
    if isinstance(test.ops[0], (ast.Lt, ast.LtE)):
        return _text(other) == (1 if isinstance(test.ops[0], ast.Lt) else 0)
    return isinstance(test.ops[0], ast.In) and _is_first_rank(other)


def _is_of_the_others(test: ast.expr) -> bool:
    """Whether a condition compares the rank with the first one and holds on all others."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not is_rank(test.left):
        return False
    other = test.comparators[0]
    if isinstance(test.ops[0], (ast.NotEq, ast.Gt)):
        return _text(other) in (0, "0")
    return isinstance(test.ops[0], ast.NotIn) and _is_first_rank(other)


def _is_first_rank(node: ast.expr) -> bool:
    return isinstance(node, (ast.Tuple, ast.List)) and {ast.unparse(one) for one in node.elts} <= {"-1", "0"}
