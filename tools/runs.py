"""The examples of the rule pages that show a training run: trained with, once each."""

from __future__ import annotations

import atexit
import copy
import functools
import importlib.util
import os
from typing import TYPE_CHECKING

from ds_lint.facts.readers import gather
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.choice import choose
from ds_lint.linter.engine import every_rule
from ds_lint.linter.lint import lint, suppress
from ds_lint.semantics.basis import Basis
from ds_lint.session.verdicts import add_findings
from ds_lint.smoke.processes.client import Pool
from ds_lint.smoke.small_run.options import RunOptions
from ds_lint.smoke.small_run.proof import prove
from ds_lint.targets.distributions import installed

if TYPE_CHECKING:
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.knowledge.keys import Target
    from ds_lint.rule_pages.pages import Example
    from ds_lint.source.document import Document

_verdicts: dict[tuple[object, ...], list[Verdict]] = {}


def can_run(example: Example) -> bool:
    """Whether this machine can run what an example shows."""
    return not example.is_run or importlib.util.find_spec("deepspeed") is not None


def lint_run(example: Example, document: Document) -> FileReport:
    """What ``ds-lint check --smoke`` says about an example."""
    facts = gather(example.facts)
    basis = Basis(knowledge(example.target), example.stack, facts)
    rules = [one for one in every_rule() if one.is_on]
    report = lint(document, basis, rules)
    suppress(report, rules, lambda only: lint(document, basis, only))
    key = (example.data, example.stack, example.facts.trainer_args, example.facts.model, example.facts.world_size)
    if key not in _verdicts:
        _verdicts[key] = prove(
            _pool(), document, stack=example.stack, facts=facts, target=_installed(), options=RunOptions()
        )
        for verdict in _verdicts[key]:
            if verdict.log is not None:
                os.remove(verdict.log)
    seen = copy.copy(facts)
    seen.smoke = _verdicts[key]
    add_findings(report, lint(document, basis.but(stack=_verdicts[key][0].stack, facts=seen)).findings)
    return report


@functools.cache
def _installed() -> Target:
    """The releases that run, whatever an example is linted with."""
    return choose("", {}, installed("")).newest


@functools.cache
def _pool() -> Pool:
    pool = Pool()
    atexit.register(pool.close)
    return pool
