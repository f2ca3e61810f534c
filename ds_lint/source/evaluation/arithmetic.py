"""What operators make of values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.source.evaluation import classes, methods
from ds_lint.source.evaluation.comparisons import is_member
from ds_lint.source.evaluation.frames import MOST_ITERATIONS
from ds_lint.source.evaluation.operations import UNARY, binary, computed, lifted, lowered
from ds_lint.source.evaluation.values import Arguments, Dict, Known, List, NotKnown, Object, Slot, Undecided

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Place, Value


def binary_operation(run: Evaluator, node: ast.BinOp) -> Value:
    """The value of ``a + b``."""
    chain = [node]  # a sum of hundreds of texts is as deep
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    value = run.evaluate(chain[-1].left)
    for one in reversed(chain):
        right = run.evaluate(one.right)
        try:
            value = combined(run, type(one.op), value, right, one)
        except NotKnown:
            run.risk()
            value = Undecided(one)
    return value


def combined(run: Evaluator, kind: type[ast.operator], one: Value, other: Value, place: Place) -> Value:
    """What an operator makes of two values; raises NotKnown if that does not show."""
    if kind is ast.BitOr and isinstance(one, Dict) and isinstance(other, Dict):
        return methods.unite(run, one, other, place)
    if kind is ast.BitOr and (isinstance(one, Dict) or isinstance(other, Dict)):
        run.risk()
        return Undecided(place)
    if kind is ast.Add and isinstance(one, List) and isinstance(other, List) and one.kind == other.kind != "set":
        if one.content is None or other.content is None or one.is_lost or other.is_lost:
            return run.state.new_list(place, None, one.kind)
        if len(one.content) + len(other.content) > MOST_ITERATIONS:
            raise NotKnown
        return run.state.new_list(place, (*one.content, *other.content), one.kind)
    if kind is ast.Mult and isinstance(one, List) and one.kind in ("list", "tuple"):
        times = lowered(other)
        items = methods.items_of(one)
        if not isinstance(times, int) or len(items) * times > MOST_ITERATIONS:
            raise NotKnown
        return run.state.new_list(place, [Slot(s.value, s.place, is_fixed=True) for s in items * times], one.kind)
    if isinstance(one, Object) or isinstance(other, Object):
        number = is_member(one) or is_member(other)
        if not number:
            return _by_method(run, kind, one, other, place)
        if kind is ast.Mod:
            raise NotKnown
    if isinstance(one, Undecided) or isinstance(other, Undecided):
        run.risk()
        return Undecided(place, is_fraction=_is_fraction(kind, one, other))
    return lifted(binary(kind, lowered(one), lowered(other)), place, run.state)


def _by_method(run: Evaluator, kind: type[ast.operator], one: Value, other: Value, place: Place) -> Value:
    name = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitOr: "or", ast.Div: "truediv"}.get(kind)
    if name is None or not isinstance(one, Object) or classes.find(one.cls, f"__{name}__") is None:
        raise NotKnown
    return run.call(run.attribute(one, f"__{name}__", place), Arguments([Slot(other, place)], {}), place)


def unary_operation(run: Evaluator, node: ast.UnaryOp) -> Value:
    """The value of ``-a`` and of ``not a``."""
    value = run.evaluate(node.operand)
    if isinstance(node.op, ast.Not):
        truth = run.truth(value)
        return Undecided(node) if truth is None else Known(not truth, node)
    if isinstance(value, Undecided):
        return Undecided(node, is_fraction=value.is_fraction)
    known = lowered(value)
    return lifted(computed(lambda: UNARY[type(node.op)](known)), node, run.state)


def _is_fraction(kind: type[ast.operator], one: Value, other: Value) -> bool:
    """Whether what is computed is the product of a fraction and of something that does not show."""
    left, right = (isinstance(value, Undecided) and value.is_fraction for value in (one, other))
    if kind is ast.Mult:
        return (
            left
            or right
            or any(
                isinstance(value, Known) and isinstance(value.value, float) and value.value % 1 != 0
                for value in (one, other)
            )
        )
    if kind in (ast.Add, ast.Sub):
        return left or right
    return False
