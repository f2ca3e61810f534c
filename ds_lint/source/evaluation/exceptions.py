"""What raises, what catches, and the contexts of ``with``."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any

from ds_lint.source.evaluation.assignments import assign
from ds_lint.source.evaluation.branches import fork, leave, run_branch
from ds_lint.source.evaluation.calls import quietly
from ds_lint.source.evaluation.frames import BREAK, CONTINUE, ENDED, NEXT, RETURN, RunningTry
from ds_lint.source.evaluation.names import bind, last_name
from ds_lint.source.evaluation.state import Branch
from ds_lint.source.evaluation.values import Arguments, Exhausted, Known, ModuleError, NotKnown, Object, Slot, Undecided

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Value

_EXCEPTIONS = {
    name: one for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)
}


def run_raise(run: Evaluator, node: ast.Raise) -> str:
    """Run ``raise a``."""
    kind: type[BaseException] | None = None
    if node.exc is not None:
        value = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        run.evaluate(node.exc)
        if isinstance(value, ast.Name):
            kind = _EXCEPTIONS.get(value.id)
    raise ModuleError(kind)


def run_try(run: Evaluator, node: ast.Try) -> str:
    """Run ``try: ...``."""
    current = RunningTry(len(run.state.trail))
    frame, loops, depth, repeating = run.frame, len(run.frame.loops), run.depth, run.repeating
    before = len(frame.exits)
    run.tries.append(current)
    raised: ModuleError | None = None
    completion = NEXT
    try:
        completion = run.block(node.body)
    except ModuleError as error:
        raised = error
        run.frame, run.depth, run.repeating = frame, depth, repeating
        del frame.loops[loops:]
    finally:
        run.tries.pop()
    leaves = len(frame.exits) > before or completion not in (NEXT, ENDED)
    if leaves and any(not isinstance(one, (ast.Expr, ast.Pass)) for one in node.finalbody):
        raise Exhausted
    try:
        if raised is not None:
            completion = _caught(run, node, raised, current)
        elif current.risks and node.handlers:
            _leave_for_good(run, completion)
            completion = _perhaps_caught(run, node, completion, current)
        elif completion == NEXT:
            completion = run.block(node.orelse)
    except ModuleError:
        run.block(node.finalbody)
        raise
    if node.finalbody:
        last = run.block(node.finalbody)
        return completion if last == NEXT else last
    return completion


def _leave_for_good(run: Evaluator, completion: str) -> None:
    """Note a return out of a block that may also end another way."""
    if completion == RETURN:
        run.frame.exits.append(
            (run.state.noted(run.frame.mark, run.state.serial), run.frame.result or Known(None, None))
        )
    elif completion in (BREAK, CONTINUE):
        raise Exhausted


def _caught(run: Evaluator, node: ast.Try, raised: ModuleError, current: RunningTry) -> str:
    """The handler of an exception that is raised for certain."""
    if raised.kind is None or current.exits or current.risks:
        return _perhaps_caught(run, node, ENDED, current)
    for handler in node.handlers:
        is_caught = _catches(handler, raised.kind)
        if is_caught is None:
            return _perhaps_caught(run, node, ENDED, current)
        if is_caught:
            return _handler(run, handler)
    raise raised


def _catches(handler: ast.ExceptHandler, kind: type[BaseException]) -> bool | None:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    answers: list[bool | None] = []
    for one in kinds:
        if isinstance(one, ast.Name) and one.id in _EXCEPTIONS:
            answers.append(issubclass(kind, _EXCEPTIONS[one.id]))
        elif isinstance(one, ast.Attribute) and one.attr == "JSONDecodeError":
            answers.append(None if issubclass(kind, ValueError) else False)
        else:
            answers.append(None)
    return True if True in answers else None if None in answers else False


def _handler(run: Evaluator, handler: ast.ExceptHandler) -> str:
    if handler.name:
        bind(run, handler.name, Slot(Undecided(handler), handler))
    return run.block(handler.body)


def _perhaps_caught(run: Evaluator, node: ast.Try, completion: str, current: RunningTry) -> str:
    """Behind a block that may or may not have raised."""
    before = run.state.changed_since(current.mark)
    between: dict[Any, list[Any]] = {}
    for cell, content in run.state.trail[current.mark :]:
        between.setdefault(cell, []).append(content)
    ends: list[Branch] = []
    if completion == NEXT:
        end, branch = fork(run, lambda: run_branch(run, node.orelse))
        if end == NEXT:
            mark = len(run.state.trail)
            run.state.merge([branch])
            ends.append(run.state.noted(current.mark, run.state.serial))
            run.state.undo(mark)
    partial = [Branch({cell: content}, range(0)) for cell, contents in between.items() for content in contents]
    final = Branch({cell: cell.content for cell in before}, range(0))
    run.state.undo(current.mark)
    mark = len(run.state.trail)
    if partial or current.exits:
        run.state.merge([*partial, final, *current.exits])
    for handler in node.handlers:
        end, branch = fork(run, lambda: leave(run, _handler(run, handler)))  # noqa: B023 - called at once
        if end == NEXT:
            inner = len(run.state.trail)
            run.state.merge([branch])
            ends.append(run.state.noted(current.mark, run.state.serial))
            run.state.undo(inner)
    run.state.undo(mark)
    if not ends:
        return ENDED
    run.state.merge(ends)
    return NEXT


def run_with(run: Evaluator, node: ast.With | ast.AsyncWith) -> str:
    """Run ``with a as b: ...``."""
    suppresses = False
    entered_objects: list[Object] = []
    for item in node.items:
        value = run.evaluate(item.context_expr)
        if isinstance(value, Object):
            entered_objects.append(value)
        entered: Value = Undecided(item.context_expr)
        if isinstance(value, Object):
            try:
                method = run.attribute(value, "__enter__", item.context_expr)
                entered = run.call(method, Arguments([], {}), item.context_expr)
            except NotKnown:
                pass
        if isinstance(item.context_expr, ast.Call) and last_name(item.context_expr.func) == "suppress":
            suppresses = True
        if item.optional_vars is not None:
            assign(run, item.optional_vars, Slot(entered, item.context_expr), None)
    if not suppresses:
        completion = run.block(node.body)
        for value in entered_objects:
            _leave_object(run, value, node)
        return completion
    handler = ast.ExceptHandler(type=None, name=None, body=[ast.Pass()])
    return run_try(run, ast.Try(body=node.body, handlers=[handler], orelse=[], finalbody=[]))


def _leave_object(run: Evaluator, value: Object, node: ast.With | ast.AsyncWith) -> None:
    """What an object does when its ``with`` ends, which may depend on an exception."""
    nothing = [Slot(Undecided(node), node) for _ in range(3)]
    try:
        method = run.attribute(value, "__exit__", node)
    except NotKnown:
        return
    run.perhaps(lambda: quietly(run, method, Arguments(nothing, {}), node))
