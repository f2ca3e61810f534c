"""What the Trainer and Accelerate do, derived for releases of both."""

from __future__ import annotations

import json

import pytest
from newest import NEWEST

from ds_lint.knowledge import resources
from ds_lint.knowledge.stacks import records, trainer_facts

TRANSFORMERS, ACCELERATE = NEWEST["transformers"], NEWEST["accelerate"]


def load(name):
    with open(resources.path("schemas", name), encoding="utf-8") as file:
        return json.load(file)


def test_both_fill_and_the_trainer_compares():
    fills = trainer_facts(TRANSFORMERS, ACCELERATE)["fills"]
    assert fills["optimizer.params.lr"] == {
        "with": "learning_rate",
        "by": ["trainer", "accelerate"],
        "matched": True,
        "number": {"trainer": None, "accelerate": None},
        "floored": {"trainer": False, "accelerate": False},
    }
    assert fills["optimizer.params.betas"]["by"] == ["trainer"]


@pytest.mark.parametrize(
    ("transformers", "filled"),
    [("4.44.2", "0.9 * hidden_size ** 2, a float"), ("4.45.0", "int(0.9 * hidden_size ** 2)")],
)
def test_a_float_became_an_integer(transformers, filled):
    fills = trainer_facts(transformers, ACCELERATE)["fills"]
    assert fills["zero_optimization.stage3_prefetch_bucket_size"]["with"] == filled


@pytest.mark.parametrize(("transformers", "filled"), [("5.17.0", "warmup_steps"), ("5.18.0", "max(1, warmup_steps)")])
def test_no_warm_up_became_one_step(transformers, filled):
    assert trainer_facts(transformers, ACCELERATE)["fills"]["scheduler.params.warmup_num_steps"]["with"] == filled


def test_a_trainer_that_prepares_without_accelerate():
    facts = trainer_facts("4.29.2", "0.20.3")
    assert facts["overwrites"]["steps_per_print"] == {"with": "inf", "by": ["accelerate"]}
    assert facts["fills"]["zero_optimization.stage"]["by"] == ["accelerate"]
    assert trainer_facts("4.30.0", "0.20.3")["overwrites"]["steps_per_print"]["by"] == ["trainer", "accelerate"]


def test_accelerate_before_it_filled_the_stage():
    assert "zero_optimization.stage" not in trainer_facts("4.30.0", "0.15.0")["fills"]
    assert "zero_optimization.stage" in trainer_facts("4.30.0", "0.16.0")["fills"]


def test_a_write_whose_condition_has_no_words_is_not_claimed():
    stored = records(load("transformers.json"), "overwrites", TRANSFORMERS)
    assert "checkpoint.use_node_local_storage" in stored
    assert "checkpoint.use_node_local_storage" not in trainer_facts(TRANSFORMERS, ACCELERATE)["overwrites"]


@pytest.mark.parametrize("library", ["transformers", "accelerate"])
def test_every_release_can_be_asked_for(library):
    newest = {"transformers": TRANSFORMERS, "accelerate": ACCELERATE}
    for release in load(f"{library}.json")["releases"]:
        facts = trainer_facts(**{**newest, library: release})
        assert facts[library] == release
        assert facts["fills"]["train_batch_size"]["matched"] is True


def test_every_wording_is_for_something_that_is_extracted():
    """A wording that no release needs any more is left over."""
    words = load("trainer_overlay.json")
    expressions = {}
    for library in ("transformers", "accelerate"):
        store = load(f"{library}.json")
        for table, name in (("fills", "from"), ("overwrites", "with")):
            for path, record in store[table].items():
                for run in record.get("runs", [record]):
                    expressions.setdefault((table, path), set()).update(source[name] for source in run["sources"])
    for table in ("fills", "overwrites"):
        for path, wordings in words[table].items():
            assert set(wordings) <= expressions[table, path], path
