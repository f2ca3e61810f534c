"""The optimizers that DeepSpeed builds, by the names that people write."""

from __future__ import annotations

import json

import pytest
from linted import lint_bytes, lint_dict

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


@pytest.mark.parametrize("section", ["optimizer", "scheduler"])
def test_the_mark_of_the_store_for_types_of_torch_is_no_type(section):
    config = {"train_micro_batch_size_per_gpu": 1, section: {"type": "*", "params": {"lr": 1e-4}}}
    found = lint_bytes(json.dumps(config).encode(), "d.json", stack="deepspeed").findings
    assert {"optimizer": "DS501", "scheduler": "DS502"}[section] in {one.code for one in found}


def test_a_quoted_number_is_not_taken_for_an_array_of_numbers():
    params = {"lr": 1e-3, "betas": "0.9"}
    report = lint_dict({"train_batch_size": 1, "optimizer": {"type": "Adam", "params": params}}, stack="deepspeed")
    (finding,) = [one for one in report.findings if one.code == "DS504"]
    assert finding.help == "Set it to an array of two numbers."
    assert finding.fix is None
