"""What a config asks for and a run does not verify is listed, whatever the key."""

from __future__ import annotations

import json

import pytest
from installed import INSTALLED, measured_with_the_newest

from ds_lint.diagnostics.verdict import COVERAGE, CPU, Check
from ds_lint.knowledge.keys import knowledge
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.smoke.expected.expectation import Expectation
from ds_lint.smoke.verify import coverage
from ds_lint.source import documents

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

BASE = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "bf16": {"enabled": True},
}
NOTHING_MADE: list[Check] = []


def listed(config, made=NOTHING_MADE):
    """The keys of a config that are not verified if these checks were made, with the reason."""
    document = documents.from_bytes(json.dumps(config).encode(), "config.json")
    seen = configs.from_document(document, Basis(knowledge(INSTALLED), "deepspeed"))
    return {check.key: check.message for check in coverage.unverified(Expectation(seen, config, {}), CPU, list(made))}


def nested(path, value):
    for name in reversed(path):
        value = {name: value}
    return value


def check(id):
    return Check(id, "pass", None, None, None, None, "")


EVERY_KEY = [
    key
    for key in knowledge(INSTALLED).everywhere()
    if not key.is_section
    and key.path[1:2] != ("params",)  # which depend on the type of the optimizer or scheduler
    and "removed" not in key.facts
    and not any(name.isdigit() for name in key.path)
]


@pytest.mark.parametrize("key", EVERY_KEY, ids=lambda key: ".".join(key.path))
def test_every_key_that_deepspeed_knows_is_listed_unless_its_check_is_made(key):
    """A key of a new release too: it needs no entry in a table to be listed."""
    value = 3 if key.facts.get("default") != 3 else 4
    config = nested(key.path, value)
    assert ".".join(key.path) in listed(config)
    ids = next(
        (coverage.COVERED_BY[key.path[:n]] for n in range(len(key.path), 0, -1) if key.path[:n] in coverage.COVERED_BY),
        (),
    )
    if ids and key.path not in coverage.NOT_VERIFIED:
        assert ".".join(key.path) not in listed(config, [check(ids[0])])


def test_the_parameters_of_an_optimizer_and_a_schedule_are_listed():
    params = {"lr": 1e-3, "betas": [0.8, 0.9], "weight_decay": 0.1}
    scheduler = {"type": "WarmupLR", "params": {"warmup_num_steps": 7}}
    config = {"optimizer": {"type": "AdamW", "params": params}, "scheduler": scheduler}
    asked = {f"optimizer.params.{name}" for name in params} | {"scheduler.params.warmup_num_steps"}
    assert set(listed(config)) == asked | {"optimizer.type", "scheduler.type"}
    assert listed(config, [check("update"), check("learning-rate")]) == {}


def test_a_key_in_no_table_is_listed(monkeypatch):
    for table in (coverage.COVERED_BY, coverage.NOT_VERIFIED):
        monkeypatch.delitem(table, ("gradient_clipping",), raising=False)
    assert listed({"gradient_clipping": 0.5}, [check("clipping")]) == {"gradient_clipping": coverage.UNCOVERED}


@pytest.mark.parametrize("table", [coverage.COVERED_BY, coverage.COVERED_ON_GPUS, coverage.NOT_VERIFIED])
def test_the_tables_name_keys_that_some_release_knows(table):
    root = {key.path[0] for key in knowledge(INSTALLED).everywhere()} | {"elasticity", "optimizer", "scheduler"}
    assert {path[0] for path in table} <= root


@pytest.mark.parametrize(
    "config",
    [
        {"wall_clock_breakdown": False},
        {"flops_profiler": {"enabled": False, "profile_step": 7}},
        {"gradient_predivide_factor": 1.0},
        {"steps_per_print": None},
        {"gradient_cliping": 1.0},
    ],
)
def test_what_asks_for_nothing_is_not_listed(config):
    assert listed(config) == {}


def test_a_run_lists_what_it_does_not_verify(prove):
    config = {
        **BASE,
        "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 1000},
        "wall_clock_breakdown": True,
        "activation_checkpointing": {"partition_activations": True},
    }
    found = {one.key: one for one in prove(config).checks if one.id == COVERAGE}
    assert {key for key, one in found.items() if one.status == "skip"} == set(found)
    assert set(found) >= {
        "zero_optimization.overlap_comm",
        "wall_clock_breakdown",
        "activation_checkpointing.partition_activations",
    }
    assert "zero_optimization.reduce_bucket_size" not in found
    assert "zero_optimization.stage" not in found
