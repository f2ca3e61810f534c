"""What the stack rejects in a config that advice leads to: it must not lead from one error to another."""

from __future__ import annotations

from ds_lint import checks
from ds_lint.diagnostics.rule import RULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.problem import Problem
    from ds_lint.semantics.config import Config


def rejections(config: Config) -> set[str]:
    """The codes of the rules by which the stack rejects a config as it is written."""
    keys = {member.key for member in config.root.members}
    for family in checks.needed(config, keys):
        __import__(f"ds_lint.checks.{family}")
    return {
        rule.code
        for rule in RULES
        if rule.is_on and rule.kind == "config" and "rejected" in rule.effects
        if not rule.keys or not rule.keys.isdisjoint(keys)
        if any(_is_rejected(problem, config) for problem in rule.check(config))
    }


def _is_rejected(problem: Problem, config: Config) -> bool:
    found = problem.outcomes
    outcomes = [found.get(stack) for stack in config.stacks] if isinstance(found, dict) else [found]
    return any(outcome is not None and outcome.effect == "rejected" for outcome in outcomes)
