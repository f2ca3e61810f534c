"""How much of the arithmetic a run has compared: in its verdict, in its headline, and beside what has failed."""

from __future__ import annotations

import pytest
import smoke_runs as runs

from ds_lint.diagnostics.verdict import worst
from ds_lint.output import smoke

WHY = "Muon changes the gradients, and the reference run has no arithmetic for it"


def of(**statuses):
    checks = [runs.check("stage"), *(runs.check(name, status, message=WHY) for name, status in statuses.items())]
    return runs.verdict(checks=checks)


@pytest.mark.parametrize(
    ("statuses", "arithmetic"),
    [
        ({"samples": "pass", "averaging": "pass", "update": "fail", "weights": "pass"}, "compared"),
        ({"samples": "skip", "averaging": "skip", "update": "skip", "weights": "skip"}, "not compared"),
        ({"samples": "pass", "averaging": "pass", "update": "skip", "weights": "pass"}, "partly"),
        ({"averaging": "skip", "update": "skip", "weights": "pass"}, "not compared"),
        ({"averaging": "error"}, "not compared"),
        ({}, None),
    ],
)
def test_a_verdict_says_how_much_was_compared(statuses, arithmetic):
    verdict = of(**statuses)
    assert verdict.arithmetic == arithmetic
    assert smoke.as_object(verdict)["arithmetic"] == arithmetic
    assert smoke.verdict_of(smoke.as_object(verdict)).arithmetic == arithmetic


def test_a_run_without_a_comparison_names_the_reason_in_its_headline():
    verdict = of(samples="skip", averaging="skip", update="skip", weights="skip")
    assert smoke.headline(verdict).startswith(f"passed, arithmetic not compared: {WHY}; on 2 CPU ranks")
    assert "arithmetic" not in smoke.headline(of(averaging="pass", update="skip", weights="pass"))


def test_an_error_does_not_outrank_what_failed():
    assert worst(["pass", "error", "fail", "skip"]) == "fail"
    assert worst(["pass", "error", "warn"]) == "error"
    assert worst(["skip"]) == "pass"
