"""Functions of the module: their definitions, what their parameters are bound to, and their bodies."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ds_lint.source.evaluation import methods
from ds_lint.source.evaluation.assignments import slot_of
from ds_lint.source.evaluation.branches import note_raise, noted, perhaps_partly
from ds_lint.source.evaluation.frames import ENDED, RETURN, CallFrame
from ds_lint.source.evaluation.names import bind, last_name, reference_name
from ds_lint.source.evaluation.scopes import generates, names_of
from ds_lint.source.evaluation.state import join_values
from ds_lint.source.evaluation.values import (
    Arguments,
    Bound,
    Class,
    Dict,
    Environment,
    Known,
    List,
    ModuleError,
    ModuleFunction,
    NotKnown,
    Slot,
    Undecided,
    Wrapped,
)

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Place, Value

_TRANSPARENT = frozenset({  # decorators that leave what a function returns
    "functools.wraps", "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "typing.no_type_check",
    "abc.abstractmethod", "typing.overload", "typing.final", "typing.override",
    "torch.distributed.elastic.multiprocessing.errors.record",
})  # fmt: skip
_CACHES = frozenset({"functools.lru_cache", "functools.cache"})
_DEEPEST_CALLS = 18
_MOST_OF_ITSELF = 14  # calls of a function in itself


def run_definition(run: Evaluator, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Run ``def f(): ...``."""
    function = function_of(run, node)
    value: Value = function
    for decorator in reversed(node.decorator_list):
        value = _decorated(run, value, decorator, function)
    bind(run, node.name, Slot(value, node))


def function_of(run: Evaluator, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> ModuleFunction:
    """A function, with the values of its defaults."""
    defaults = [slot_of(run, one) for one in node.args.defaults]
    named = {
        argument.arg: slot_of(run, default)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    }
    environment = run.frame.environment
    function = ModuleFunction(node, environment, defaults, named)
    run.functions[node] = function
    return function


def _decorated(run: Evaluator, value: Value, decorator: ast.expr, function: ModuleFunction) -> Value:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = reference_name(run, called)
    if name in _CACHES:
        function.memory = {}
        return value
    if name in _TRANSPARENT or last_name(called) == "record":
        return value
    if name in ("builtins.property", "functools.cached_property"):
        return Wrapped("property", value)
    if name in ("builtins.staticmethod", "builtins.classmethod"):
        return Wrapped(name.partition(".")[2], value)
    if isinstance(called, ast.Attribute) and called.attr in ("setter", "getter", "deleter"):
        return Wrapped("descriptor", value)
    try:
        with_decorator = run.evaluate(decorator)
    except NotKnown:
        return Undecided(decorator, (function,))
    if isinstance(with_decorator, (ModuleFunction, Bound, Class)):
        return run.call(with_decorator, Arguments([Slot(value, decorator)], {}), decorator)
    return Undecided(decorator, (function,))


def run_function(
    run: Evaluator, function: ModuleFunction, arguments: Arguments, place: Place, *, is_entry: bool = False
) -> Value:
    """What a call of a function of the module returns; of one with ``is_entry`` the callers do not show."""
    node = function.node
    if not is_entry:
        run.entered.add(node)
    if len(run.stack) >= _DEEPEST_CALLS or run.stack.count(node) >= _MOST_OF_ITSELF:
        for slot in (*arguments.positional, *arguments.keywords.values()):
            run.state.weaken_all(slot.value)
        run.risk()
        return Undecided(place)
    memory_key = _memory_key(run, function, arguments)
    if memory_key is not None and function.memory is not None and memory_key in function.memory:
        return function.memory[memory_key]
    environment = _bound_environment(run, function, arguments, place)
    if not is_entry and _runs_later(run, node, place):
        found: list[Value] = []
        perhaps_partly(run, lambda: found.append(run_function(run, function, arguments, place, is_entry=True)))
        return Undecided(place, tuple(methods.cells_of(found)))
    frame = CallFrame(environment, len(run.state.trail), len(run.forks))
    outer, run.frame = run.frame, frame
    repeating, run.repeating = run.repeating, 0
    depth, run.depth = run.depth, 0
    tries = len(run.tries)
    run.stack.append(node)
    try:
        result = _run_body(run, node, frame, place)
    finally:
        run.stack.pop()
        run.frame, run.repeating, run.depth = outer, repeating, depth
        del run.tries[tries:]
    if memory_key is not None and function.memory is not None:
        function.memory[memory_key] = result
    elif function.memory is not None:
        return Undecided(place, (result,) if isinstance(result, (Dict, List)) else ())
    return result


def _runs_later(run: Evaluator, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, place: Place) -> bool:
    """Whether a call of a function makes a generator, or a coroutine that nothing waits for at once."""
    if isinstance(node, ast.Lambda):
        return False
    return _is_generator(node) or (isinstance(node, ast.AsyncFunctionDef) and place not in run.awaited)


def _memory_key(run: Evaluator, function: ModuleFunction, arguments: Arguments) -> Any:
    if function.memory is None or arguments.is_open or run.forks:
        return None
    try:
        positional = tuple(methods.key_of(slot.value) for slot in arguments.positional)
        return positional, tuple((name, methods.key_of(slot.value)) for name, slot in arguments.keywords.items())
    except NotKnown:
        return None


def _run_body(
    run: Evaluator, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, frame: CallFrame, place: Place
) -> Value:
    if isinstance(node, ast.Lambda):
        return run.evaluate(node.body)
    failed: ModuleError | None = None
    try:
        completion = run.block(node.body)
    except ModuleError as raised:
        if not frame.exits:
            raise
        failed = raised
        note_raise(run)
        completion = ENDED
    nothing: Value = Known(None, place)
    result = frame.result if completion == RETURN and frame.result is not None else nothing
    if frame.exits:
        values = [value for _, value in frame.exits]
        branches = [branch for branch, _ in frame.exits]
        if completion != ENDED:
            values.append(result)
            branches.append(noted(run, frame.mark) if run.forks else run.state.noted(frame.mark, run.state.serial))
        run.state.undo(frame.mark)
        run.state.merge(branches)
        result = values[0]
        for value in values[1:]:
            result = join_values(result, value, run.state)
        if isinstance(result, Undecided):
            result = Undecided(place, result.candidates, is_fraction=result.is_fraction)
    elif completion == ENDED:
        raise failed or ModuleError(None)
    return result


def _bound_environment(run: Evaluator, function: ModuleFunction, arguments: Arguments, place: Place) -> Environment:  # noqa: PLR0912 - one for each kind
    """The variables of a function when it is called."""
    node = function.node
    parameters = node.args
    local, global_names, nonlocal_names = _bound_names_of(node)
    environment = Environment(run.state.new_dict(node), function.environment, local)
    environment.globals, environment.nonlocals, environment.kept = global_names, nonlocal_names, function.owner
    entries: dict[Any, Slot] = {}
    names = [*parameters.posonlyargs, *parameters.args]
    defaults: list[Slot | None] = [*([None] * (len(names) - len(function.defaults))), *function.defaults]
    keywords = dict(arguments.keywords)
    positional_only = {one.arg for one in parameters.posonlyargs}
    unknown = Slot(Undecided(place), place, is_fixed=True)
    for index, (parameter, default) in enumerate(zip(names, defaults, strict=True)):
        name = parameter.arg
        if index < len(arguments.positional):
            if name in keywords and name not in positional_only:
                raise ModuleError(TypeError)
            slot: Slot | None = arguments.positional[index]
        elif name in keywords and name not in positional_only:
            slot = keywords.pop(name)
        else:
            slot = unknown if arguments.is_open else default
        if slot is None:
            raise ModuleError(TypeError)
        entries[name] = slot
    rest = arguments.positional[len(names) :]
    if parameters.vararg is not None:
        items = None if arguments.is_open else rest
        entries[parameters.vararg.arg] = Slot(
            run.state.new_list(parameters.vararg, items, "tuple"), place, is_fixed=True
        )
    elif rest:
        raise ModuleError(TypeError)
    for parameter in parameters.kwonlyargs:
        name = parameter.arg
        slot = keywords.pop(name, None) or (unknown if arguments.is_open else function.named.get(name))
        if slot is None:
            raise ModuleError(TypeError)
        entries[name] = slot
    if parameters.kwarg is not None:
        made = run.state.new_dict(parameters.kwarg, keywords, is_open=arguments.is_open)
        entries[parameters.kwarg.arg] = Slot(made, place, is_fixed=True)
    elif keywords:
        raise ModuleError(TypeError)
    environment.passed = set(entries)
    for name, slot in entries.items():
        if slot.may_be_missing:
            entries[name] = Slot(Undecided(slot.place), slot.place, is_fixed=True)
    environment.variables.content = environment.variables.content._replace(entries=entries)
    return environment


def _bound_names_of(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The names that a function binds, and those that it declares global and nonlocal; looked up once."""
    kept: dict[str, Any] = node.__dict__
    if "_bound" not in kept:
        kept["_bound"] = names_of(node)
    found: tuple[frozenset[str], frozenset[str], frozenset[str]] = kept["_bound"]
    return found


def _is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    kept: dict[str, Any] = node.__dict__
    if "_generates" not in kept:
        kept["_generates"] = generates(node)
    return bool(kept["_generates"])
