"""A finding keeps its identity while the file around it changes."""

from __future__ import annotations

import os

import pytest

from ds_lint.output.identity import identified
from ds_lint.output.project_root import Root
from ds_lint.source.tree import Span

FIRST, SECOND = Span(1, 2), Span(5, 6)


@pytest.fixture
def identities(report, file, finding):
    """The fingerprints of findings at these spans, with these changes, in one file."""

    def identities(*spans, text=" " * 99, path="config.json", root=None, **changes):
        found = report(file(text, *(finding(span, **changes) for span in spans), path=path))
        return [identity for *_, identity in identified(found, root or Root("/repo", "/repo"))]

    return identities


def test_lines_above_do_not_count(identities):
    assert identities(FIRST) == identities(SECOND, text="\n" * 99)


def test_two_equal_findings_in_a_file_differ(identities):
    first, second = identities(FIRST, SECOND)
    assert first != second
    assert identities(FIRST) == [first]


@pytest.mark.parametrize("changes", [{"key": "other"}, {"key": None}, {"name": "other"}, {"path": "other.json"}])
def test_another_key_rule_or_file_is_another_finding(identities, changes):
    assert identities(FIRST) != identities(FIRST, **changes)


def test_another_text_is_another_finding(identities):
    assert identities(FIRST, text="8" * 9) == identities(SECOND, text="\n   88")
    assert identities(FIRST, text="8" * 9) != identities(FIRST, text="9" * 9)
    assert identities(Span(0, 6), text="{\n 1}") == identities(Span(0, 6), text="{\n 2}")  # what is inside has findings


@pytest.mark.parametrize("changes", [{"message": "said better"}, {"severity": "info"}, {"code": "DS199"}])
def test_what_is_said_of_it_may_change(identities, changes):
    assert identities(FIRST) == identities(FIRST, **changes)


def test_the_working_directory_does_not_count(identities):
    there = os.path.join("..", "config.json")
    assert identities(FIRST) == identities(FIRST, path=there, root=Root("/repo", "/repo/train"))
    assert identities(FIRST) == identities(FIRST, path="/home/me/config.json", root=Root("/home/me", "/"))


def test_two_configs_of_one_file_are_told_apart(report, file, finding):
    found = report(file(" " * 9, finding(FIRST)), file(" " * 9, finding(FIRST)))
    first, second = (identity for *_, identity in identified(found, Root("/repo", "/repo")))
    assert first != second
