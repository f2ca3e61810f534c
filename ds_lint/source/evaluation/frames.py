"""What the evaluator is in: calls, loops and ``try``, and what becomes of a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ds_lint.source.evaluation.state import Branch
    from ds_lint.source.evaluation.values import Environment, Value

MOST_ITERATIONS = 2_000

# What becomes of a statement: the next one follows, or not.
NEXT, RETURN, BREAK, CONTINUE, ENDED = "next", "return", "break", "continue", "ended"


class RunningLoop:
    """A loop that is run."""

    def __init__(self, mark: int, depth: int) -> None:
        self.mark = mark
        self.iteration = mark
        self.depth = depth  # how many undecided branches are around it
        self.breaks: list[Branch] = []
        self.continues: list[Branch] = []


class CallFrame:
    """A call that is run; also the module, a class and a comprehension."""

    def __init__(self, environment: Environment, mark: int, depth: int) -> None:
        self.environment = environment
        self.mark = mark
        self.depth = depth
        self.loops: list[RunningLoop] = []
        self.exits: list[tuple[Branch, Value]] = []
        self.result: Value | None = None


class RunningTry:
    """A ``try`` that is run."""

    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.risks = 0
        self.exits: list[Branch] = []
