"""Which rules run."""

from __future__ import annotations

from itertools import product

import pytest
from linted import lint_bytes

from ds_lint.diagnostics.problem import ADVICE, Problem
from ds_lint.diagnostics.rule import RULES, rule
from ds_lint.linter import engine
from ds_lint.linter.selection import IGNORED, NOT_SELECTED, OFF_BY_DEFAULT, Selection, left_in_preview, select, why_off


@pytest.fixture
def advice():
    """A rule that is off by default, and fires on every config."""

    @rule("DS198", "advice-for-this-test", severity="info", effects=("advice",), default=False)
    def check(config):
        yield Problem(None, config.opening, "one could do better", ADVICE, help="Do better.")

    yield (registered := RULES[-1])
    RULES.remove(registered)


CLEAN = b'{"train_micro_batch_size_per_gpu": 1}'


def test_a_rule_that_is_off_by_default_runs_where_it_is_selected(advice):
    found = lint_bytes(CLEAN, "a.json", rules=select(Selection(["advice-for-this-test"]))).findings
    assert [finding.code for finding in found] == ["DS198"]


@pytest.mark.usefixtures("advice")
def test_a_rule_that_is_off_by_default_does_not_run_unasked():
    assert lint_bytes(CLEAN, "a.json").findings == []
    assert lint_bytes(CLEAN, "a.json", rules=select(Selection(ignored=["DS101"]))).findings == []
    assert "DS198" not in {one.code for one in engine.default_rules()}


@pytest.fixture
def preview():
    """A rule of a later release, in preview."""

    @rule("DS197", "preview-for-this-test", severity="info", effects=("advice",), preview="0.2.0")
    def check(config):
        yield Problem(None, config.opening, "one might do better", ADVICE, help="Do better.")

    yield (registered := RULES[-1])
    RULES.remove(registered)


@pytest.mark.parametrize(
    "selection",
    [Selection(), Selection(["DS1"]), Selection(["preview-for-this-test"]), Selection(extended=["DS197"])],
)
def test_a_rule_in_preview_is_off_even_if_it_is_named(preview, selection):
    assert preview not in select(selection)


@pytest.mark.parametrize("selection", [Selection(preview=True), Selection(["DS1"], preview=True)])
def test_a_rule_in_preview_is_on_for_those_who_want_previews(preview, selection):
    assert preview in select(selection)


def test_a_preview_does_not_switch_on_what_is_off_by_default(advice):
    assert advice not in select(Selection(preview=True))


def test_to_name_a_rule_in_preview_is_worth_a_note_and_a_prefix_is_not(preview):
    assert left_in_preview(Selection(["DS197"])) == [preview]
    assert left_in_preview(Selection(["DS1"], extended=["DS19"])) == []
    assert left_in_preview(Selection(["DS197"], preview=True)) == []


SAID = list(product([None, [], ["DS1", "DS842"]], [[], ["DS19"]], [[], ["DS101", "DS197"]], [False, True]))


@pytest.mark.usefixtures("advice", "preview")
@pytest.mark.parametrize(("selected", "extended", "ignored", "wants_preview"), SAID)
def test_a_rule_that_is_off_would_be_on_but_for_its_reason(selected, extended, ignored, wants_preview):
    selection = Selection(selected, extended, ignored, preview=wants_preview)
    off = why_off(selection)
    assert select(selection) == [rule for rule in engine.every_rule() if rule not in off]
    otherwise = {
        IGNORED: Selection(selected, [*extended, "DS"], preview=True),
        "in preview since 0.2.0": Selection(selected, [*extended, "DS"], ignored, preview=True),
        NOT_SELECTED: Selection(selected, [*extended, "DS"], ignored, preview=wants_preview),
        OFF_BY_DEFAULT: Selection(selected, [*extended, "DS"], ignored, preview=wants_preview),
    }
    unlike = NOT_SELECTED if selected is None else OFF_BY_DEFAULT
    assert unlike not in off.values()
    for why in set(off.values()):
        on = select(otherwise[why])
        assert all(rule in on for rule, reason in off.items() if reason == why)


def test_extending_and_ignoring(advice):
    assert select(Selection(["DS101"], ["DS102"], ["DS101"])) == select(Selection(["DS102"]))
    assert advice in select(Selection(extended=["DS198"]))
    assert select(Selection([])) == []


def test_what_is_selected_last_replaces_the_rest_and_what_is_always_on_can_only_be_ignored():
    run, key = "DS901", "DS101"

    def are_on(selection):
        on = {rule.code for rule in select(selection)}
        return (run in on, key in on)

    ignoring = Selection(ignored=[run, key])
    assert are_on(Selection(["DS2"], over=ignoring, always=[run])) == (True, False)
    assert are_on(Selection(over=ignoring, always=[run])) == (False, False)
    assert are_on(Selection(extended=[key], over=ignoring, always=[run])) == (False, True)
    assert are_on(Selection(["DS1"], over=ignoring)) == (False, True)
    assert not Selection(over=ignoring).says_nothing
