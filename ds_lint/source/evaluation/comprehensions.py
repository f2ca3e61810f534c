"""Comprehensions and generator expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.source.evaluation import methods
from ds_lint.source.evaluation.assignments import assign, slot_of
from ds_lint.source.evaluation.frames import MOST_ITERATIONS, CallFrame
from ds_lint.source.evaluation.operations import lifted
from ds_lint.source.evaluation.scopes import bound_names
from ds_lint.source.evaluation.values import Environment, Slot, Undecided

if TYPE_CHECKING:
    import ast

    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Value


def list_comprehension(run: Evaluator, node: ast.ListComp) -> Value:
    """The value of ``[a for a in b]``."""
    return run.state.new_list(node, _comprehended(run, node.generators, [node.elt]))


def generator_expression(run: Evaluator, node: ast.GeneratorExp) -> Value:
    """The value of ``(a for a in b)``."""
    return run.state.new_list(node, _comprehended(run, node.generators, [node.elt]), "iterator")


def set_comprehension(run: Evaluator, node: ast.SetComp) -> Value:
    """The value of ``{a for a in b}``."""
    slots = _comprehended(run, node.generators, [node.elt])
    if slots is None:
        return run.state.new_list(node, None, "set")
    return lifted({methods.key_of(slot.value) for slot in slots}, node, run.state)


def dict_comprehension(run: Evaluator, node: ast.DictComp) -> Value:
    """The value of ``{a: b for a, b in c}``."""
    made = run.state.new_dict(node)
    run.made.setdefault(node, []).append(made)
    pairs = _comprehended(run, node.generators, [node.key, node.value])
    if pairs is None:
        run.state.blur(made)
        return made
    for index in range(0, len(pairs), 2):
        methods.set_key(run, made, pairs[index].value, pairs[index + 1])
    return made


def _comprehended(run: Evaluator, generators: list[ast.comprehension], wanted: list[ast.expr]) -> list[Slot] | None:
    """What a comprehension makes, one after the other; None if that does not show."""
    outer = run.frame
    first = run.evaluate(generators[0].iter)
    environment = Environment(run.state.new_dict(wanted[0]), outer.environment, bound_names(generators))
    environment.globals = outer.environment.globals
    environment.is_comprehension = True
    frame = CallFrame(environment, outer.mark, outer.depth)
    frame.loops, frame.exits = outer.loops, outer.exits
    found: list[Slot] = []
    run.frame = frame
    run.repeating += 1
    try:
        is_known = _generate(run, generators, wanted, found, first)
    finally:
        run.repeating -= 1
        run.frame = outer
    return found if is_known else None


def _generate(
    run: Evaluator, generators: list[ast.comprehension], wanted: list[ast.expr], found: list[Slot], first: Value | None
) -> bool:
    if not generators:
        for one in wanted:
            slot = slot_of(run, one)
            found.append(slot)
        return True
    generator, *rest = generators
    iterated = run.evaluate(generator.iter) if first is None else first
    items = run.items(iterated)
    if items is None or len(items) > MOST_ITERATIONS:
        unknown = Slot(Undecided(generator.iter, methods.inner_cells(iterated)), generator.iter, is_fixed=True)

        def once() -> None:
            assign(run, generator.target, unknown, None)
            for test in generator.ifs:
                run.evaluate(test)
            _generate(run, rest, wanted, [], None)

        run.perhaps(once)
        return False
    is_known = True
    for slot in items:
        run.step()
        assign(run, generator.target, slot, None)
        tests = [run.truth(run.evaluate(test)) for test in generator.ifs]
        if False in tests:
            continue
        if None in tests:
            run.perhaps(lambda: _generate(run, rest, wanted, [], None))
            is_known = False
        else:
            is_known &= _generate(run, rest, wanted, found, None)
    return is_known
