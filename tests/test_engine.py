"""Which rules run."""

from __future__ import annotations

import pytest

from ds_lint import engine, linting
from ds_lint.checks.problem import ADVICE, Problem
from ds_lint.commands.selection import select
from ds_lint.rule import RULES, rule


@pytest.fixture
def advice():
    """A rule that is off by default, and fires on every config."""

    @rule("DS198", "advice-for-this-test", severity="info", effects=("advice",), default=False)
    def check(config):
        yield Problem(None, config.opening, "one could do better", ADVICE, help="Do better.")

    yield RULES[-1]
    RULES.pop()


CLEAN = b'{"train_micro_batch_size_per_gpu": 1}'


def test_a_rule_that_is_off_by_default_runs_where_it_is_selected(advice):
    found = linting.lint_bytes(CLEAN, "a.json", rules=select(["advice-for-this-test"], None)).findings
    assert [finding.code for finding in found] == ["DS198"]


@pytest.mark.usefixtures("advice")
def test_a_rule_that_is_off_by_default_does_not_run_unasked():
    assert linting.lint_bytes(CLEAN, "a.json").findings == []
    assert linting.lint_bytes(CLEAN, "a.json", rules=select(None, ["DS101"])).findings == []
    assert "DS198" not in {one.code for one in engine.default_rules()}
