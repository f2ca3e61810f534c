"""What is assigned to names, attributes and items, and what is deleted."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.source.evaluation import methods
from ds_lint.source.evaluation.arithmetic import combined
from ds_lint.source.evaluation.containers import delete_item, weaken_key
from ds_lint.source.evaluation.names import bind, lookup, mangled, name_of, owner_of
from ds_lint.source.evaluation.values import (
    Arguments,
    Class,
    Dict,
    Known,
    List,
    ModuleError,
    NotKnown,
    Object,
    Slot,
    Undecided,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Place, Value


def run_assignment(run: Evaluator, node: ast.Assign) -> None:
    """Run ``a = b``."""
    slot = slot_of(run, node.value)
    for target in node.targets:
        assign(run, target, slot, node.value)


def run_annotated(run: Evaluator, node: ast.AnnAssign) -> None:
    """Run ``a: t = b``."""
    if node.value is not None:
        assign(run, node.target, slot_of(run, node.value), node.value)


def run_augmented(run: Evaluator, node: ast.AugAssign) -> None:
    """Run ``a += b``."""
    target = node.target
    if isinstance(target, ast.Name):
        old = name_of(run, target)
        container = key = None
    elif isinstance(target, ast.Subscript):
        container, key = run.evaluate(target.value), run.evaluate(target.slice)
        old = _or_unknown(run, lambda: run.item(container, key, target), target)  # type: ignore[arg-type]
    else:
        container, key = run.evaluate(target.value), None
        old = _or_unknown(run, lambda: run.attribute(container, mangled(run, target.attr), target), target)
    other = run.evaluate(node.value)
    if isinstance(node.op, ast.BitOr) and isinstance(old, Dict):
        methods.merge(run, old, other)
        if not isinstance(other, (Dict, Undecided, List)):
            run.risk()
        new: Value = old
    elif isinstance(node.op, ast.Add) and isinstance(old, List) and old.kind == "list":
        methods.extend(run, old, other)
        new = old
    else:
        if isinstance(old, Undecided):
            _weaken(run, old)
        elif isinstance(old, List) and old.kind in ("list", "set"):
            run.state.blur_list(old)
        new = _or_unknown(run, lambda: combined(run, type(node.op), old, other, node.value), target)
    slot = Slot(new, target, is_fixed=True)
    if isinstance(target, ast.Name):
        bind(run, target.id, slot)
    elif isinstance(target, ast.Subscript):
        assert container is not None  # noqa: S101
        assert key is not None  # noqa: S101
        run.set_item(container, key, slot)
    else:
        assert container is not None  # noqa: S101
        run.set_attribute(container, mangled(run, target.attr), slot)


def _or_unknown(run: Evaluator, evaluate: Callable[[], Value], place: Place) -> Value:
    try:
        return evaluate()
    except NotKnown:
        run.risk()
        return Undecided(place)


def _weaken(run: Evaluator, value: Undecided) -> None:
    for one in value.candidates:
        if isinstance(one, (Dict, List)):
            run.state.weaken_all(one)


def run_deletion(run: Evaluator, node: ast.Delete) -> None:
    """Run ``del a``."""
    for target in node.targets:
        if isinstance(target, ast.Name):
            environment = owner_of(run, target.id)
            run.state.remove(environment.variables, target.id)
        elif isinstance(target, ast.Subscript):
            container, key = run.evaluate(target.value), run.evaluate(target.slice)
            if isinstance(container, Dict):
                methods.delete_key(run, container, key)
            elif isinstance(container, List):
                delete_item(run, container, key)
            elif isinstance(container, Undecided):
                weaken_key(run, container, key, None)
            elif isinstance(container, Object):
                run.call(run.attribute(container, "__delitem__", target), Arguments([Slot(key, target)], {}), target)
        elif isinstance(target, ast.Attribute):
            value = run.evaluate(target.value)
            if isinstance(value, (Object, Class)):
                run.state.remove(value.attributes, mangled(run, target.attr))
        elif isinstance(target, (ast.Tuple, ast.List)):
            run_deletion(run, ast.Delete(targets=target.elts))


def slot_of(run: Evaluator, node: ast.expr) -> Slot:
    """The value of an expression that is put somewhere, and the text that wrote it."""
    value = run.evaluate(node)
    if isinstance(node, ast.Name):
        slot, environment = lookup(run, node.id)
        if slot is not None and environment is not None and node.id in environment.passed:
            return Slot(slot.value, slot.place, is_fixed=slot.is_fixed)
    if isinstance(node, ast.NamedExpr):
        return Slot(value, node.value, is_fixed=run.repeating > 0)
    return Slot(value, node, is_fixed=run.repeating > 0)


def assign(run: Evaluator, target: ast.expr, slot: Slot, source: ast.expr | None) -> None:
    """Give a target a value; without a source it is passed on from somewhere else."""
    if isinstance(target, ast.Name):
        owner = owner_of(run, target.id)
        if source is None:
            owner.passed.add(target.id)
        else:
            owner.passed.discard(target.id)
        run.state.put(owner.variables, target.id, slot.with_key(target))
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(run, target, slot, source)
    elif isinstance(target, ast.Starred):
        assign(run, target.value, slot, source)
    elif isinstance(target, ast.Subscript):
        container, key = run.evaluate(target.value), run.evaluate(target.slice)
        key_place = key.place if isinstance(key, Known) else target.slice
        run.set_item(container, key, slot.with_key(key_place))
    elif isinstance(target, ast.Attribute):
        run.set_attribute(run.evaluate(target.value), mangled(run, target.attr), slot.with_key(target))


def _unpack(run: Evaluator, target: ast.Tuple | ast.List, slot: Slot, source: ast.expr | None) -> None:
    targets = target.elts
    items = None if slot.may_be_missing else run.items(slot.value)
    starred = next((index for index, one in enumerate(targets) if isinstance(one, ast.Starred)), None)
    if items is None:
        inner = methods.inner_cells(slot.value)
        for one in targets:
            assign(run, one, Slot(Undecided(slot.place, inner), slot.place, is_fixed=True), source)
        return
    if (starred is None and len(items) != len(targets)) or len(items) < len(targets) - (starred is not None):
        raise ModuleError(ValueError)
    if starred is not None:
        behind = len(targets) - starred - 1
        rest = items[starred : len(items) - behind]
        line = run.state.new_list(slot.place, rest)
        items = [*items[:starred], Slot(line, slot.place, is_fixed=True), *items[len(items) - behind :]]
    for one, item in zip(targets, items, strict=True):
        assign(run, one, item, None if isinstance(slot.value, List) else source)


def named_expression(run: Evaluator, node: ast.NamedExpr) -> Value:
    """The value of ``(a := b)``."""
    slot = slot_of(run, node.value)
    environment = run.frame.environment
    while environment.is_comprehension and environment.outer is not None:
        environment = environment.outer
    inner, run.frame.environment = run.frame.environment, environment
    assign(run, node.target, slot, node.value)
    run.frame.environment = inner
    return slot.value
