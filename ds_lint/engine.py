"""Run the rules over one config."""

from __future__ import annotations

from ds_lint.checks import batch, keys, optimizer, precision, saving, trainer, values, zero  # noqa: F401 - they register rules
from ds_lint.finding import EFFECTS, Finding
from ds_lint.rule import RULES
from ds_lint.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.checks.problem import Outcome, Problem
    from ds_lint.config import Config
    from ds_lint.rule import Rule


def check(config: Config, rules: Iterable[Rule] = RULES) -> list[Finding]:
    """Everything the rules find, in the order of the text."""
    present = {member.key for member in config.root.members}
    findings = [
        finding
        for rule in rules
        if not rule.keys or not rule.keys.isdisjoint(present)
        for problem in rule.check(config)
        if (finding := _finding(rule, problem, config)) is not None
    ]
    findings.sort(key=lambda finding: (finding.span.start, finding.span.end, finding.code))
    return findings


def _finding(rule: Rule, problem: Problem, config: Config) -> Finding | None:
    """The problem as the stacks that may load this config have it; None if none of them does."""
    outcomes = (
        problem.outcomes if isinstance(problem.outcomes, dict) else dict.fromkeys(config.stacks, problem.outcomes)
    )
    outcomes = {stack: outcome for stack, outcome in outcomes.items() if stack in config.stacks}
    if not outcomes:
        return None
    worst = min(outcomes.values(), key=lambda outcome: EFFECTS.index(outcome.effect))
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=problem.severity or rule.severity,
        effect=worst.effect,
        stage=worst.stage,
        effects=_effects(config, outcomes),
        key=dotted(problem.key) if problem.key else None,
        message=problem.message,
        help=problem.help,
        path=config.document.path,
        span=problem.span,
        label=problem.label,
        related=problem.related,
        fix=problem.fix,
    )


def _effects(config: Config, outcomes: dict[str, Outcome]) -> dict[str, str] | None:
    """Effect by stack where the stack is unknown and the stacks differ; "none" for a stack without a problem."""
    effects = {stack: outcomes[stack].effect if stack in outcomes else "none" for stack in config.stacks}
    return effects if len(set(effects.values())) > 1 else None
