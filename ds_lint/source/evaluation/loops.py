"""Loops, with what leaves an iteration."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ds_lint.source.evaluation import methods
from ds_lint.source.evaluation.assignments import assign
from ds_lint.source.evaluation.branches import fork, leave, noted, pass_over
from ds_lint.source.evaluation.frames import BREAK, CONTINUE, MOST_ITERATIONS, NEXT, RETURN, RunningLoop
from ds_lint.source.evaluation.names import owner_of
from ds_lint.source.evaluation.relevance import summary
from ds_lint.source.evaluation.state import Branch, join_values, same
from ds_lint.source.evaluation.values import Dict, Exhausted, Known, List, Slot, Undecided

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.evaluation.evaluator import Evaluator

MOST_PASSES = 3  # of a loop whose iterations do not show, before what changes in it is given up


def run_for(run: Evaluator, node: ast.For | ast.AsyncFor) -> str:
    """Run ``for a in b: ...``."""
    iterated = run.evaluate(node.iter)
    items = run.items(iterated)
    frame = run.frame
    loop = RunningLoop(len(run.state.trail), len(run.forks))
    frame.loops.append(loop)
    try:
        if items is None or len(items) > MOST_ITERATIONS:
            inner = methods.inner_cells(iterated)
            return _perhaps_often(
                run,
                loop,
                lambda: assign(run, node.target, Slot(Undecided(node.iter, inner), node.iter, is_fixed=True), None),
                node,
            )
        ended = NEXT
        run.repeating += 1
        try:
            for slot in items:
                run.step()
                loop.iteration = len(run.state.trail)
                loop.continues = []
                assign(run, node.target, slot, None)
                before = iterated.content if isinstance(iterated, List) else None
                ended = _end_iteration(run, loop, leave(run, run.block(node.body)))
                if ended != NEXT:
                    break
                if isinstance(iterated, List) and iterated.content is not before:
                    raise Exhausted  # it grows or shrinks while it is looped over
        finally:
            run.repeating -= 1
        return _end_loop(run, loop, ended, node)
    finally:
        frame.loops.remove(loop)


def _end_iteration(run: Evaluator, loop: RunningLoop, completion: str) -> str:
    if completion == CONTINUE:
        completion = NEXT
    if loop.continues:
        branches = [*loop.continues]
        if completion == NEXT:
            branches.append(noted(run, loop.iteration))
        elif completion == RETURN:
            run.frame.exits.append((noted(run, run.frame.mark), run.frame.result or Known(None, None)))
        elif completion == BREAK:
            loop.breaks.append(noted(run, loop.mark))
        loop.continues = []
        run.state.undo(loop.iteration)
        run.state.merge(branches)
        return NEXT
    return completion


def _end_loop(run: Evaluator, loop: RunningLoop, ended: str, node: ast.For | ast.AsyncFor | ast.While) -> str:
    completion = NEXT
    if ended == NEXT:
        run.frame.loops.remove(loop)
        try:
            completion = run.block(node.orelse)
        finally:
            run.frame.loops.append(loop)
    elif ended != BREAK:
        completion = ended
    if loop.breaks:
        branches = [*loop.breaks]
        if completion == NEXT:
            branches.append(noted(run, loop.mark))
        elif completion == RETURN:
            run.frame.exits.append((noted(run, run.frame.mark), run.frame.result or Known(None, None)))
        elif completion in (BREAK, CONTINUE):
            raise Exhausted  # out of the loop around, from behind this one
        run.state.undo(loop.mark)
        run.state.merge(branches)
        return NEXT
    return completion


def _perhaps_often(
    run: Evaluator, loop: RunningLoop, begin: Callable[[], object], node: ast.For | ast.AsyncFor | ast.While
) -> str:
    """A loop that runs any number of times."""
    loop.depth = len(run.forks)
    run.risk()
    target = [] if isinstance(node, ast.While) else [node.target]
    if pass_over(run, node, [*target, *node.body]):
        return _end_loop(run, loop, NEXT, node)
    for name in summary(node, [*target, *node.body], "undecided").bound:  # at the head of an iteration
        owner = owner_of(run, name)
        known = owner.variables.content.entries.get(name)
        value = Undecided(node) if known is None else join_values(known.value, Undecided(node), run.state)
        run.state.put(owner.variables, name, Slot(value, node, is_fixed=True, may_be_missing=True))

    def once() -> str:
        loop.iteration = len(run.state.trail)
        loop.continues = []
        begin()
        return _end_iteration(run, loop, leave(run, run.block(node.body)))

    for number in range(MOST_PASSES + 1):
        completion, branch = fork(run, once)
        if completion != NEXT:
            break
        if not run.state.merge([Branch({}, range(0)), branch]):
            break
        if number < MOST_PASSES:
            for cell in branch.contents:
                if isinstance(cell, List):
                    run.state.blur_list(cell)
                elif isinstance(cell, Dict):
                    _give_up(run, cell, branch.contents[cell])
    return _end_loop(run, loop, NEXT, node)


def _give_up(run: Evaluator, cell: Dict, after: Any) -> None:
    """Forget what a loop may set again and again."""
    before = cell.content.entries
    for key, slot in after.entries.items():
        old = before.get(key)
        if old is None or not same(old.value, slot.value):
            run.state.weaken(cell, key, Slot(Undecided(slot.place), slot.place, is_fixed=True))


def run_while(run: Evaluator, node: ast.While) -> str:
    """Run ``while a: ...``."""
    frame = run.frame
    loop = RunningLoop(len(run.state.trail), len(run.forks))
    frame.loops.append(loop)
    try:
        ended = NEXT
        number = 0
        run.repeating += 1
        try:
            while (test := run.truth(run.evaluate(node.test))) is not None and number < MOST_ITERATIONS:
                if not test:
                    return _end_loop(run, loop, NEXT, node)
                number += 1
                loop.iteration = len(run.state.trail)
                loop.continues = []
                ended = _end_iteration(run, loop, leave(run, run.block(node.body)))
                if ended != NEXT:
                    return _end_loop(run, loop, ended, node)
                if loop.breaks or frame.exits:
                    break
        finally:
            run.repeating -= 1
        return _perhaps_often(run, loop, lambda: run.evaluate(node.test), node)
    finally:
        frame.loops.remove(loop)
