"""The optimizers that DeepSpeed builds, by the names that people write."""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.knowledge.keys import Knowledge, Target
from ds_lint.semantics.constructors import SPELLED, optimizer_types


def test_every_type_of_every_release_is_spelled_and_no_other():
    releases = tables.load("deepspeed")["releases"]
    built = {name for release in releases for name in optimizer_types(Knowledge(Target(release)))}
    assert built == set(SPELLED.values())
    assert [name.lower() for name in SPELLED.values()] == list(SPELLED)


def test_a_release_has_the_types_that_it_builds():
    assert "Muon" in optimizer_types(Knowledge(Target("0.18.9")))
    assert "Muon" not in optimizer_types(Knowledge(Target("0.14.4")))
