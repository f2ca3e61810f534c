"""Branches that may be taken or not: each is run and undone, and then they are joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.source.evaluation.frames import BREAK, CONTINUE, ENDED, NEXT, RETURN
from ds_lint.source.evaluation.names import bind, lookup
from ds_lint.source.evaluation.relevance import summary
from ds_lint.source.evaluation.state import Branch
from ds_lint.source.evaluation.values import Known, LibraryName, ModuleError, ModuleFunction, Slot, Undecided

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from ds_lint.source.evaluation.evaluator import Evaluator

_LARGE = 50  # nodes


def fork(run: Evaluator, action: Callable[[], str]) -> tuple[str, Branch]:
    """Run a branch, and undo it; what became of it, and what it has done."""
    mark, serial = len(run.state.trail), run.state.serial
    run.forks.append(serial)
    frame, loops, depth = run.frame, len(run.frame.loops), run.depth
    try:
        completion = action()
    except ModuleError:
        note_raise(run)
        completion = ENDED
        run.frame, run.depth = frame, depth
        del run.frame.loops[loops:]
    finally:
        run.forks.pop()
    branch = run.state.noted(mark, serial)
    run.state.undo(mark)
    return completion, branch


def note_raise(run: Evaluator) -> None:
    """Note that the module raises here, for the ``try`` around."""
    if run.tries:
        current = run.tries[-1]
        current.risks += 1
        current.exits.append(noted(run, current.mark))


def noted(run: Evaluator, mark: int) -> Branch:
    """What has been done since a place of the trail, in the innermost branch."""
    return run.state.noted(mark, run.forks[-1] if run.forks else run.state.serial)


def resume(run: Evaluator, alternatives: list[tuple[str, Branch]]) -> str:
    """Go on behind branches."""
    live = [branch for completion, branch in alternatives if completion == NEXT]
    if not live:
        return ENDED
    run.state.merge(live)
    return NEXT


def perhaps(run: Evaluator, action: Callable[[], object]) -> None:
    """Run what may be run or not."""

    def once() -> str:
        action()
        return NEXT

    completion, branch = fork(run, once)
    if completion == NEXT:
        run.state.merge([Branch({}, range(0)), branch])


def perhaps_partly(run: Evaluator, action: Callable[[], object]) -> None:
    """Run what may be run, or stay in the middle, as a generator does."""
    partly: list[Branch] = []

    def once() -> str:
        mark = len(run.state.trail)
        action()
        partly.extend(Branch({cell: content}, range(0)) for cell, content in run.state.trail[mark:])
        return NEXT

    completion, branch = fork(run, once)
    if completion == NEXT:
        run.state.merge([Branch({}, range(0)), *partly, branch])


def pass_over(run: Evaluator, node: ast.AST, parts: list[ast.AST]) -> bool:
    """Leave out what may run or not, if it says nothing of a config; what it binds is unknown then."""
    found = summary(node, parts, "undecided")
    if found.size < _LARGE:
        return False
    if found.is_relevant or found.has_return or found.written & run.relevance.interesting:
        return False
    for name in found.read:
        slot, _ = lookup(run, name)
        value = slot.value if slot is not None else None
        if isinstance(value, Undecided) and not value.candidates and value.attributes is None:
            continue
        if isinstance(value, ModuleFunction) and not run.relevance.writes(value.node):
            continue
        if value is not None and not isinstance(value, (Known, LibraryName)):
            return False
    for name in found.bound:
        bind(run, name, Slot(Undecided(node), node, is_fixed=True))
    run.risk()
    return True


def run_branch(run: Evaluator, statements: list[ast.stmt]) -> str:
    """A branch that may be taken or not; what leaves it is noted."""
    return leave(run, run.block(statements))


def leave(run: Evaluator, completion: str) -> str:
    """Note the way out of an undecided branch, if it takes one."""
    frame = run.frame
    if completion == RETURN and len(run.forks) > frame.depth:
        assert frame.result is not None  # noqa: S101
        frame.exits.append((noted(run, frame.mark), frame.result))
        return ENDED
    if completion in (BREAK, CONTINUE) and frame.loops and len(run.forks) > frame.loops[-1].depth:
        loop = frame.loops[-1]
        if completion == BREAK:
            loop.breaks.append(noted(run, loop.mark))
        else:
            loop.continues.append(noted(run, loop.iteration))
        return ENDED
    return completion
