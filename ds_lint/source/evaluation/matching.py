"""``match`` and its patterns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.source.evaluation import methods
from ds_lint.source.evaluation.branches import fork, resume, run_branch
from ds_lint.source.evaluation.frames import NEXT
from ds_lint.source.evaluation.names import bind
from ds_lint.source.evaluation.values import Known, Slot, Undecided

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.state import Branch
    from ds_lint.source.evaluation.values import Value


def run_match(run: Evaluator, node: ast.Match) -> str:
    """Run ``match a: ...``."""
    subject = run.evaluate(node.subject)
    alternatives: list[tuple[str, Branch]] = []
    for case in node.cases:
        answer = _matches(run, case.pattern, subject)
        if answer is False:
            continue
        if case.guard is not None:
            if answer:
                _capture(run, case.pattern, subject)
            guard = run.truth(run.evaluate(case.guard))
            answer = None if guard is None or answer is None else guard
            if answer is False:
                continue
        if answer and not alternatives:
            _capture(run, case.pattern, subject)
            return run.block(case.body)

        def once(case: ast.match_case = case) -> str:
            _capture(run, case.pattern, subject)
            return run_branch(run, case.body)

        alternatives.append(fork(run, once))
        if answer:
            return resume(run, alternatives)
    alternatives.append(fork(run, lambda: NEXT))
    return resume(run, alternatives)


def _matches(run: Evaluator, pattern: ast.pattern, subject: Value) -> bool | None:
    if isinstance(pattern, ast.MatchValue):
        return run.equal(subject, run.evaluate(pattern.value))
    if isinstance(pattern, ast.MatchSingleton):
        return subject.value is pattern.value if isinstance(subject, Known) else None
    if isinstance(pattern, ast.MatchOr):
        answers = [_matches(run, one, subject) for one in pattern.patterns]
        return True if True in answers else None if None in answers else False
    if isinstance(pattern, ast.MatchAs):
        return True if pattern.pattern is None else _matches(run, pattern.pattern, subject)
    return None


def _capture(run: Evaluator, pattern: ast.pattern, subject: Value) -> None:
    if isinstance(pattern, ast.MatchAs):
        if pattern.name is not None:
            bind(run, pattern.name, Slot(subject, pattern))
        if pattern.pattern is not None:
            _capture(run, pattern.pattern, subject)
        return
    for child in ast.walk(pattern):
        name = getattr(child, "name", None) or getattr(child, "rest", None)
        if isinstance(name, str):
            bind(run, name, Slot(Undecided(child, methods.inner_cells(subject)), child))
