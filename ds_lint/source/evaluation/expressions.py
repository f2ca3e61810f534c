"""Expressions, one function for each kind."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ds_lint.source.evaluation import methods
from ds_lint.source.evaluation.arithmetic import binary_operation, unary_operation
from ds_lint.source.evaluation.assignments import named_expression, slot_of
from ds_lint.source.evaluation.branches import fork, resume
from ds_lint.source.evaluation.calls import call_expression
from ds_lint.source.evaluation.comparisons import comparison
from ds_lint.source.evaluation.comprehensions import (
    dict_comprehension,
    generator_expression,
    list_comprehension,
    set_comprehension,
)
from ds_lint.source.evaluation.escapes import soften
from ds_lint.source.evaluation.frames import NEXT
from ds_lint.source.evaluation.functions import function_of
from ds_lint.source.evaluation.names import mangled, name_of
from ds_lint.source.evaluation.operations import computed, format_value, lifted, lowered
from ds_lint.source.evaluation.state import join_values
from ds_lint.source.evaluation.values import Known, List, ModuleError, NotKnown, Object, Undecided

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Place, Slot, Value

_DEEPEST = 40  # expressions in each other


def evaluate(run: Evaluator, node: ast.expr) -> Value:
    """The value of an expression."""
    run.step()
    run.depth += 1
    if run.depth > _DEEPEST:
        run.depth -= 1
        run.risk()
        return Undecided(node)
    try:
        value = _VALUE.get(type(node), _other)(run, node)
    except NotKnown:
        run.risk()
        return Undecided(node)
    else:
        return value
    finally:
        run.depth -= 1


def _other(run: Evaluator, node: ast.expr) -> Value:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            run.evaluate(child)
    run.risk()
    return Undecided(node)


def _constant(_run: Evaluator, node: ast.Constant) -> Value:
    return Known(node.value, node)


def _dict(run: Evaluator, node: ast.Dict) -> Value:
    made = run.state.new_dict(node)
    run.made.setdefault(node, []).append(made)
    entries: dict[Any, Slot] = {}
    for key, element in zip(node.keys, node.values, strict=True):
        if key is None:
            if entries:
                made.content = made.content._replace(entries={**made.content.entries, **entries})
                entries = {}
            methods.merge(run, made, run.evaluate(element))
            continue
        name = run.evaluate(key)
        slot = slot_of(run, element)
        try:
            known = methods.key_of(name)
        except NotKnown:
            made.content = made.content._replace(entries={**made.content.entries, **entries})
            entries = {}
            methods.set_some_key(run, made, name, slot)
            continue
        entries[known] = slot.with_key(name.place if isinstance(name, Known) else key)
    made.content = made.content._replace(entries={**made.content.entries, **entries})
    return made


def _elements(run: Evaluator, nodes: list[ast.expr]) -> list[Slot] | None:
    slots: list[Slot] | None = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            more = run.items(run.evaluate(node.value))
            slots = None if more is None or slots is None else [*slots, *more]
        else:
            slot = slot_of(run, node)
            if slots is not None:
                slots.append(slot)
    return slots


def _list(run: Evaluator, node: ast.List) -> Value:
    return run.state.new_list(node, _elements(run, node.elts))


def _tuple(run: Evaluator, node: ast.Tuple) -> Value:
    return run.state.new_list(node, _elements(run, node.elts), "tuple")


def _set(run: Evaluator, node: ast.Set) -> Value:
    slots = _elements(run, node.elts)
    if slots is None:
        return run.state.new_list(node, None, "set")
    return lifted({methods.key_of(slot.value) for slot in slots}, node, run.state)


def _attribute(run: Evaluator, node: ast.Attribute) -> Value:
    return run.attribute(run.evaluate(node.value), mangled(run, node.attr), node)


def _subscript(run: Evaluator, node: ast.Subscript) -> Value:
    container = run.evaluate(node.value)
    if isinstance(node.slice, ast.Slice):
        return _sliced(run, container, node.slice, node)
    return run.item(container, run.evaluate(node.slice), node)


def _sliced(run: Evaluator, container: Value, node: ast.Slice, place: Place) -> Value:
    ends = [None if one is None else lowered(run.evaluate(one)) for one in (node.lower, node.upper, node.step)]
    if isinstance(container, List) and container.kind in ("list", "tuple"):
        items = methods.items_of(container)
        return run.state.new_list(place, computed(lambda: items[slice(*ends)]), container.kind)
    value = lowered(container)
    if isinstance(container, Known):
        return lifted(computed(lambda: value[slice(*ends)]), place, run.state)
    raise NotKnown


def _boolean_operation(run: Evaluator, node: ast.BoolOp) -> Value:
    return _chain(run, node.values, isinstance(node.op, ast.Or), node)


def _chain(run: Evaluator, values: list[ast.expr], is_or: bool, place: Place) -> Value:
    first = run.evaluate(values[0])
    if len(values) == 1:
        return first
    truth = run.truth(first)
    if truth is is_or:
        return first
    if truth is not None:
        return _chain(run, values[1:], is_or, place)
    found: list[Value] = []
    run.perhaps(lambda: found.append(_chain(run, values[1:], is_or, place)))
    if not found:
        return first
    joined = join_values(first, found[0], run.state)
    return joined if not isinstance(joined, Undecided) else Undecided(place, joined.candidates)


def _conditional(run: Evaluator, node: ast.IfExp) -> Value:
    test = run.truth(run.evaluate(node.test))
    if test is not None:
        return run.evaluate(node.body if test else node.orelse)
    found: list[Value] = []
    alternatives = []
    for one in (node.body, node.orelse):

        def once(one: ast.expr = one) -> str:
            found.append(run.evaluate(one))
            return NEXT

        alternatives.append(fork(run, once))
    if resume(run, alternatives) != NEXT:
        raise ModuleError(None)
    if len(found) == 1:
        return found[0]
    joined = join_values(found[0], found[1], run.state)
    if isinstance(joined, Undecided):
        joined.place = node
    return joined


def _formatted(run: Evaluator, node: ast.JoinedStr) -> Value:
    parts = [_field_text(run, one) for one in node.values]
    text = "".join(parts)
    if len(text) > 50_000:
        raise NotKnown
    return Known(text, node)


def _field_text(run: Evaluator, node: ast.expr) -> str:
    value = run.evaluate(node.value if isinstance(node, ast.FormattedValue) else node)
    known = lowered(value)
    if isinstance(value, Object) or isinstance(known, (set, frozenset)):
        raise NotKnown
    if not isinstance(node, ast.FormattedValue):
        return str(known)
    specification = "" if node.format_spec is None else str(lowered(run.evaluate(node.format_spec)))
    text: str = computed(lambda: format_value(known, node.conversion, specification))
    return text


def _await(run: Evaluator, node: ast.Await) -> Value:
    run.awaited.add(node.value)
    return run.evaluate(node.value)


def _starred(run: Evaluator, node: ast.Starred) -> Value:
    return run.evaluate(node.value)


def _yield(run: Evaluator, node: ast.Yield) -> Value:
    if node.value is not None:
        soften(run, run.evaluate(node.value))
    return Undecided(node)


def _yield_from(run: Evaluator, node: ast.YieldFrom) -> Value:
    soften(run, run.evaluate(node.value))
    return Undecided(node)


_VALUE: dict[type[ast.expr], Callable[[Evaluator, Any], Value]] = {
    ast.Attribute: _attribute,
    ast.Await: _await,
    ast.BinOp: binary_operation,
    ast.BoolOp: _boolean_operation,
    ast.Call: call_expression,
    ast.Compare: comparison,
    ast.Constant: _constant,
    ast.Dict: _dict,
    ast.DictComp: dict_comprehension,
    ast.GeneratorExp: generator_expression,
    ast.IfExp: _conditional,
    ast.JoinedStr: _formatted,
    ast.Lambda: function_of,
    ast.List: _list,
    ast.ListComp: list_comprehension,
    ast.Name: name_of,
    ast.NamedExpr: named_expression,
    ast.Set: _set,
    ast.SetComp: set_comprehension,
    ast.Starred: _starred,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.UnaryOp: unary_operation,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}
