"""A range of releases is linted as if each were linted alone, and a finding says for which of them it holds."""

from __future__ import annotations

import json

import pytest
from generate import configs
from linted import lint_document, lint_with
from newest import NEWEST

from ds_lint.facts import Facts
from ds_lint.knowledge import keys
from ds_lint.knowledge.keys import Target
from ds_lint.linter import release_ranges
from ds_lint.linter.choice import choose
from ds_lint.source import documents


def report(config, *, stack="deepspeed", directory=".", **versions):
    document = documents.from_bytes(json.dumps(config, indent=1).encode(), "ds_config.json")
    flags = NEWEST | versions

    return lint_with(choose(directory, flags), document, stack=stack, facts=Facts(world_size=1))


def held(findings):
    return {(finding.code, finding.key): finding.affected_releases for finding in findings}


ZENFLOW = {
    "train_batch_size": 1,
    "zero_optimization": {
        "stage": 2,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "zenflow": {"topk_ratio": 0.1},
    },
    "zero_allow_untested_optimizer": True,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "gradient_clipping": 1.0,
}


def test_a_finding_says_up_to_which_release_it_holds():
    (finding,) = report(ZENFLOW, deepspeed=">=0.16.0,<0.18").findings
    assert (finding.code, finding.affected_releases) == ("DS109", "deepspeed 0.16.0 to 0.17.4")


def test_what_the_newest_release_does_not_do_is_information():
    (finding,) = report(ZENFLOW, deepspeed=">=0.16.0").findings
    assert (finding.severity, finding.effect) == ("info", "rejected")


def test_a_finding_says_from_which_release_it_holds():
    (finding,) = report({**ZENFLOW, "amp": {"enabled": False}}, deepspeed=">=0.19.0,<=0.19.8").findings
    assert (finding.code, finding.severity, finding.affected_releases) == ("DS103", "error", "deepspeed 0.19.8")


def test_what_holds_for_all_says_nothing_of_releases():
    (finding,) = report({**ZENFLOW, "gradient_cliping": 1.0}, deepspeed=">=0.19.0").findings
    assert (finding.code, finding.releases) == ("DS101", None)


def test_a_key_that_came_twice_is_missing_in_between():
    """``compile`` was about torch.compile for a few releases; since 0.16.6 another section has the name."""
    found = held(report({**ZENFLOW, "compile": {"backend": "inductor"}}, deepspeed=">=0.13.0").findings)
    assert found[("DS101", "compile")] == "deepspeed 0.14.4 to 0.16.5"
    assert found[("DS109", "compile")] == "deepspeed 0.13.0 to 0.13.1"


def test_releases_that_take_different_values_are_told_apart():
    scheduler = {"type": "WarmupLR", "params": {"warmup_max_lr": "abc"}}
    config = {"train_batch_size": 1, "gradient_clipping": 1.0, "scheduler": scheduler,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}  # fmt: skip
    newest, older = (one for one in report(config, deepspeed=">=0.16.0").findings if one.code == "DS504")
    assert (newest.severity, newest.affected_releases) == ("error", f"deepspeed 0.17.2 to {NEWEST['deepspeed']}")
    assert (older.severity, older.affected_releases) == ("info", "deepspeed 0.16.0 to 0.17.1")
    assert "must be null, " in newest.message
    assert "null" not in older.message


def test_a_default_that_changed_within_the_range_is_told_once():
    config = {key: value for key, value in ZENFLOW.items() if key != "gradient_clipping"}
    (finding,) = report(config, deepspeed=">=0.19.0").findings
    assert (finding.code, finding.severity, finding.releases) == ("DS121", "info", None)
    assert "from 0.0 to 1.0 in DeepSpeed 0.19.3" in finding.message


AUTO = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_clipping": "auto",
    "zero_optimization": {
        "stage": 3,
        "stage3_prefetch_bucket_size": "auto",
        "stage3_gather_16bit_weights_on_model_save": True,
    },
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
}


def test_other_libraries_have_ranges_too():
    found = held(report(AUTO, stack="trainer", transformers=">=4.40.0").findings)
    assert found == {
        ("DS604", "zero_optimization.stage3_prefetch_bucket_size"): "transformers 4.40.0 to 4.44.2",
        ("DS603", "scheduler.params.warmup_num_steps"): "transformers 4.40.0 to 5.17.0",
        ("DS803", "zero_optimization"): "",
    }


@pytest.mark.parametrize("seed", range(40))
def test_every_release_would_have_said_the_same_alone(seed):
    """The stretches that are linted at once are exact: nothing that a config asks changes within them.

    Defects of releases aside: a range is not one of its releases, so of a range only what all of it has is reported.
    """
    (config,) = configs(seed, 1, keys.knowledge())
    known = keys.knowledge().releases
    known = known[known.index("0.9.0") :]
    together = report(config, deepspeed=">=0.9.0").findings
    for release in known:
        alone = lint_document(
            documents.from_bytes(json.dumps(config, indent=1).encode(), "ds_config.json"),
            target=Target(release),
            stack="deepspeed",
            facts=Facts(world_size=1),
        ).findings
        here = {
            identity(finding)
            for finding in together
            if not release_ranges.compares(finding) and not finding.advisory and holds(finding, release, known)
        }
        assert here == {identity(finding) for finding in alone if not finding.advisory}, release


def identity(finding):
    return finding.code, finding.key, finding.span.start, finding.effect


def holds(finding, release, known):
    stretches = (finding.releases or {}).get("deepspeed")
    place = known.index
    return stretches is None or any(place(first) <= place(release) <= place(last) for first, last in stretches)
