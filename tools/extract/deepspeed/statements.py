"""Run statements on symbolic values.

Both sides of every ``if`` are run and their bindings united, loops run once over everything that is known of what they
loop over. So every place that a ``UserValue`` can reach is reached.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tools.extract.deepspeed import sections
from tools.extract.deepspeed.expressions import bind, evaluate, meaning, note_membership
from tools.extract.deepspeed.records import Guard
from tools.extract.deepspeed.values import (
    UNKNOWN,
    Class,
    Constant,
    Entries,
    Function,
    Instance,
    Table,
    constant,
    either,
    from_python,
    user_values,
)
from tools.extract.source import brief

if TYPE_CHECKING:
    from tools.extract.deepspeed.analysis import Frame
    from tools.extract.deepspeed.values import Names

_TryStar = getattr(ast, "TryStar", ast.Try)  # Python 3.10 has no except*


def run(frame: Frame, body: list[ast.stmt]) -> bool:
    """Run a block; true if nothing after it in the same block is reached."""
    return any(_leaves(frame, node) for node in body)


def _leaves(frame: Frame, node: ast.stmt) -> bool:
    match node:
        case ast.Return(value=value):
            frame.returned.append(evaluate(frame, value) if value else Constant(None))
            return True
        case ast.Raise(exc=exception):
            if exception:
                evaluate(frame, exception)
            return True
        case ast.Continue() | ast.Break():
            return True
        case ast.If():
            return _condition(frame, node)
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            for item in items:
                entered = evaluate(frame, item.context_expr)
                if item.optional_vars:
                    bind(frame, item.optional_vars, entered)
            return run(frame, body)
        case _:
            _passes(frame, node)
            return False


def _passes(frame: Frame, node: ast.stmt) -> None:  # noqa: PLR0912 - one branch for each kind of statement
    match node:
        case ast.Expr(value=value):
            evaluate(frame, value)
        case ast.Assign(targets=targets, value=value):
            assigned = evaluate(frame, value)
            for target in targets:
                bind(frame, target, assigned)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            bind(frame, target, evaluate(frame, value))
        case ast.AugAssign(target=target, value=value):
            evaluate(frame, value)
            evaluate(frame, target)
        case ast.Assert(test=test):
            evaluate(frame, test)
            _note_choices(frame, test, holds=True)
        case ast.For() | ast.AsyncFor():
            _loop(frame, node)
        case ast.While(test=test, body=body, orelse=orelse):
            evaluate(frame, test)
            run(frame, body)
            run(frame, orelse)
        case ast.Try() | _TryStar():
            _try(frame, node)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            frame.names[name] = Function(frame.module, node, closure=frame.names)
        case ast.ClassDef(name=name):
            frame.names[name] = Class(frame.module, node, closure=frame.names)
        case ast.Import() | ast.ImportFrom():
            _import(frame, node)
        case ast.AnnAssign() | ast.Delete() | ast.Global() | ast.Nonlocal() | ast.Pass():
            pass
        case _:
            raise LookupError(f"a statement is not followed: {brief(node)}")


def _import(frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    binds = frame.module.imported(node)
    for name, definition in binds.names.items():
        frame.names[name] = frame.analysis.resolve(frame.module, definition)
    starred = frame.analysis.sources.module(binds.starred) if binds.starred else None
    for name in starred.names if starred else ():
        frame.names.setdefault(name, frame.analysis.value_of(starred, name) or UNKNOWN)  # type: ignore[arg-type]


def _loop(frame: Frame, node: ast.For | ast.AsyncFor) -> None:
    for item in sections.iterate(frame.analysis, evaluate(frame, node.iter)):
        bind(frame, node.target, item)
        for part in ast.walk(node.target):
            if isinstance(part, ast.Name):
                is_constant = isinstance(frame.names.get(part.id), Constant)
                (frame.unrolled.add if is_constant else frame.unrolled.discard)(part.id)
        run(frame, node.body)
    run(frame, node.orelse)


def _try(frame: Frame, node: ast.Try) -> None:
    run(frame, node.body)
    for handler in node.handlers:
        before = dict(frame.names)
        run(frame, handler.body)
        frame.names = _united(before, frame.names)
    run(frame, node.orelse)
    run(frame, node.finalbody)


def _condition(frame: Frame, node: ast.If) -> bool:
    _verify_pattern(frame, node.test)
    test = evaluate(frame, node.test)
    if isinstance(node.body[-1], ast.Raise):
        if isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.In):
            note_membership(frame, node.test, "refused")
        _note_choices(frame, node.test, holds=False)
    if isinstance(test, Constant) and isinstance(test.value, bool) and _is_unrolled(frame, node.test):
        return run(frame, node.body if test.value else node.orelse)
    guard = _guard(frame, node.test)
    before = dict(frame.names)
    _narrow(frame, node.test)
    leaves_if = _run_guarded(frame, node.body, guard)
    after_if, frame.names = frame.names, before
    leaves_else = _run_guarded(frame, node.orelse, guard._replace(holds=False) if guard else None)
    if leaves_if and leaves_else:
        return True
    if leaves_else:
        frame.names = after_if
    elif not leaves_if:
        frame.names = _united(after_if, frame.names)
    return False


def _verify_pattern(frame: Frame, test: ast.expr) -> None:
    """A pattern of ``match`` other than an expression takes apart nothing that the user gives."""
    for part in ast.walk(test):
        match part:
            case ast.Compare(left=left, comparators=[ast.Name(id=pattern)]) if not pattern.isidentifier():
                if any(user_values(evaluate(frame, left))):
                    raise LookupError(f"a value of the config is matched with {pattern}, which is not followed")


def _run_guarded(frame: Frame, body: list[ast.stmt], guard: Guard | None) -> bool:
    if guard is None:
        return run(frame, body)
    frame.analysis.records.guards.append(guard)
    try:
        return run(frame, body)
    finally:
        frame.analysis.records.guards.pop()


def _narrow(frame: Frame, test: ast.expr) -> None:
    """Where ``isinstance(name, cls)`` holds, an unknown value is an object of that class of the package."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]):
            cls = evaluate(frame, kind)
            if isinstance(cls, Class) and meaning(frame, name) == UNKNOWN:
                frame.names[name] = Instance(cls)


def _is_unrolled(frame: Frame, test: ast.expr) -> bool:
    """Whether a loop variable and constants decide a test: ``if method == LAYER_REDUCTION: continue``."""
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    has_call = any(isinstance(node, ast.Call) for node in ast.walk(test))
    return (
        not has_call
        and not names.isdisjoint(frame.unrolled)
        and all(name in frame.unrolled or name.isupper() for name in names)
    )


def _guard(frame: Frame, test: ast.expr) -> Guard | None:
    """The value of the user that must be one of some constants for a test to hold."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return next((guard for value in values if (guard := _guard(frame, value))), None)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.In()], comparators=[right]):
            sides = (evaluate(frame, left), evaluate(frame, right))
            for one, other in (sides, sides[::-1]):
                fixed = constant(other)
                for value in user_values(one):
                    if value.path and fixed:
                        choices = fixed.value if isinstance(fixed.value, list) else [fixed.value]
                        return Guard(value.path, choices, holds=True)
    return None


def _note_choices(frame: Frame, test: ast.expr, *, holds: bool) -> None:
    """Record the values that an assertion, or a test that raises, leaves to the user."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            _note_choices(frame, operand, holds=not holds)
        case ast.BoolOp(op=connective, values=values) if isinstance(connective, ast.And) == holds:
            for value in values:
                _note_choices(frame, value, holds=holds)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as relation], comparators=[right]):
            choices = evaluate(frame, right)
            if isinstance(choices, Entries) and choices.part == "keys" and isinstance(choices.of, Table):
                choices = from_python(list(choices.of.entries))
            fixed = constant(choices)
            is_choice = isinstance(relation, ast.In) == holds and not frame.analysis.records.guards
            if fixed and isinstance(fixed.value, (list, dict)) and is_choice:
                for chosen in user_values(evaluate(frame, left)):
                    frame.analysis.records.key(chosen.path).one_of.append(list(fixed.value))


def _united(one: Names, other: Names) -> Names:
    """The names after either of two branches."""
    both = {name: either(one[name], other[name]) for name in one if name in other}
    return {**one, **other, **both}
