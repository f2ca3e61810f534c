"""Logs whose causes are known: how many are named, with the rank that failed first, and silence where nothing is wrong.

They are data beside the project: DS_LINT_LOGS, or ``../shared/logs`` beside the checkout. Each folder has what a user
has, and ``expect.json`` with words that name the cause, of which one group must be there, or a rule instead of words.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ds_lint import cli

GIVEN = Path(os.environ.get("DS_LINT_LOGS", Path(__file__).parents[3] / "shared" / "logs"))
FOLDERS = sorted(path.parent for path in GIVEN.glob("*/expect.json"))
LEAST_NAMED, LEAST_RANKS = 0.95, 0.95

pytestmark = pytest.mark.skipif(not FOLDERS, reason=f"no logs in {GIVEN}; DS_LINT_LOGS names another folder")


@pytest.fixture(scope="module")
def diagnoses():
    """What ``doctor`` prints of each folder, by its name."""
    found = {}
    before = os.getcwd()
    for folder in FOLDERS:
        words = json.loads((folder / "expect.json").read_text())["command"].split()
        os.chdir(folder)
        try:
            found[folder.name] = diagnosis(words[1:])
        finally:
            os.chdir(before)
    return found


def diagnosis(words):
    out = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stdout.write", out.append)
        status = cli.run([*words, "--output-format", "json"])
    report = json.loads("".join(out))
    assert status == (1 if report["causes"] else 0)
    return report


def expected(name):
    return json.loads((GIVEN / name / "expect.json").read_text())["expect"]


def is_named(cause, expect):
    text = " ".join(cause[key] or "" for key in ("message", "help", "exception")).lower()
    named = any(all(word.lower() in text for word in words) for words in expect["cause_any"])
    return named or cause["code"] in expect["codes"]


def test_causes_are_named(diagnoses):
    failed = [name for name in diagnoses if not expected(name).get("silent")]
    missed = [
        name
        for name in failed
        if not diagnoses[name]["causes"] or not is_named(diagnoses[name]["causes"][0], expected(name))
    ]
    assert len(missed) <= (1 - LEAST_NAMED) * len(failed), missed


def test_the_library_is_named(diagnoses):
    wrong = {}
    for name, report in diagnoses.items():
        owners = expected(name)["library"]
        if owners and report["causes"] and report["causes"][0]["library"] not in owners:
            wrong[name] = report["causes"][0]["library"]
    assert len(wrong) <= (1 - LEAST_NAMED) * len(diagnoses), wrong


def test_the_rank_that_failed_first_is_named(diagnoses):
    ranks = {name: expected(name)["rank"] for name in diagnoses if expected(name).get("rank") is not None}
    found = {name: next((one["rank"] for one in diagnoses[name]["causes"]), None) for name in ranks}
    wrong = {name: found[name] for name in ranks if found[name] != ranks[name]}
    assert len(wrong) <= (1 - LEAST_RANKS) * len(ranks), wrong


def test_a_healthy_log_has_no_cause(diagnoses):
    healthy = {name: report["causes"] for name, report in diagnoses.items() if expected(name).get("silent")}
    assert [name for name, causes in healthy.items() if causes] == []
