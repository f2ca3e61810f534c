"""The proofs of the store of advisories: what a claim gives of a release is what was measured.

A long run asks every claim of a release with the defect and of one without it, which it downloads; ``DS_LINT_RELEASES``
names a folder that has unpacked ones. Every other run asks three claims of the installed release.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from packaging.version import Version

from tools.releases_of.environments import installed_release
from tools.releases_of.outcomes import agree, is_right
from tools.releases_of.question import HANGS, INSTALLED, ask
from tools.releases_of.records import CLAIMS, read
from tools.releases_of.trees import ROOT, Trees

STORE = ROOT / "schemas" / "advisories.json"
ADVISORIES = read(STORE) if STORE.exists() else []
PROVED = [one for one in ADVISORIES if one.proof() is not None]
QUICK = ("applied_gradient", "schedule", "resumed_weights")
TREES = Trees(folders=tuple(map(Path, filter(None, [os.environ.get("DS_LINT_RELEASES")]))))
HANGING = 60  # seconds: what hangs, hangs

pytestmark = pytest.mark.skipif(not STORE.exists(), reason="there is no store")
each_proof = pytest.mark.parametrize("advisory", PROVED or [None], ids=lambda one: one.id if one else "none")


def is_affected(advisory, release):
    """Whether the store has the defect in a release of the library that was asked, beside what it was asked with."""
    question = advisory.proof().question
    given = {**question.beside, question.library: release}
    return advisory.affects({name: given.get(name) or installed_release(name) or "0" for name in advisory.libraries})


def edges(advisory):
    """Of the releases that were measured, the last one with the defect, and the first one after it, or before it."""
    releases = sorted(advisory.proof().measured, key=Version)
    affected = [one for one in releases if is_affected(advisory, one)]
    others = [one for one in releases if one not in affected]
    later = [one for one in others if affected and Version(one) > Version(affected[-1])]
    return [*affected[-1:], *(later[:1] or others[-1:])]


@each_proof
def test_what_was_measured_fits_the_range(advisory):
    proof = advisory.proof()
    assert proof.measured
    for release, outcome in proof.measured.items():
        assert is_right(outcome, proof.right) != is_affected(advisory, release), release


@pytest.mark.fidelity
@pytest.mark.long
@each_proof
def test_a_claim_gives_what_was_measured(advisory):
    """DS847: a release with the defect, and one without it."""
    proof = advisory.proof()
    for release in edges(advisory):
        measured = proof.measured[release]
        hangs = measured.lower().startswith(HANGS)
        question = proof.question._replace(timeout=HANGING) if hangs else proof.question
        outcome = ask(question, release, TREES)
        assert outcome.is_answer, f"{release}: {outcome.text}"
        assert agree(outcome.text, measured, proof.right), f"{release}: {outcome.text}, and {measured} was measured"


@pytest.mark.fidelity
@pytest.mark.parametrize("claim", QUICK)
def test_a_claim_of_the_installed_release(claim):
    advisory = next(one for one in PROVED if one.proof().question.claim.stem == claim)
    question = advisory.proof().question
    outcome = ask(question, INSTALLED, TREES)
    assert outcome.is_answer, outcome.text
    affected = is_affected(advisory, installed_release(question.library))
    assert is_right(outcome.text, advisory.proof().right) != affected, outcome.text


def test_every_claim_is_used():
    used = {one.proof().question.claim.name for one in PROVED}
    assert {path.name for path in CLAIMS.glob("*.py")} == used
