"""Which advisories a config reaches: certainly, possibly, or not at all."""

from __future__ import annotations

import pytest
from linted import config_of_dict, lint_dict, lint_with

from ds_lint.facts import Facts
from ds_lint.knowledge import advisories
from ds_lint.knowledge.keys import Target
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.linter.choice import choose
from ds_lint.semantics.advisory_conditions import holds, unknown_names
from ds_lint.semantics.reached_advisories import certain, possible
from ds_lint.source import documents
from ds_lint.targets.pin import Pin

LOST_GRADIENTS = "DSA-2026-0001"  # DeepSpeed 0.17.6 to before 0.18.3, stage 2 with accumulation
ACCUMULATING = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 8,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2},
}


def pinned(**specifiers):
    return {library: Pin(library, specifier, "requirements.txt") for library, specifier in specifiers.items()}


def found(config, *, stack="deepspeed", **specifiers):
    newest = specifiers.get("deepspeed", "").removeprefix("==")
    target = Target(newest if newest in advisories.known_releases("deepspeed") else None)
    report = lint_dict(config, target=target, stack=stack, pins=pinned(**specifiers))
    return {finding.advisory for finding in report.findings if finding.advisory}


def test_a_pinned_release_with_the_defect_is_reported():
    assert LOST_GRADIENTS in found(ACCUMULATING, deepspeed="==0.18.2")


@pytest.mark.parametrize("release", ["0.17.5", "0.18.3"])
def test_a_release_without_the_defect_is_not(release):
    assert LOST_GRADIENTS not in found(ACCUMULATING, deepspeed=f"=={release}")


def test_a_config_that_does_not_reach_it_is_not_reported():
    assert LOST_GRADIENTS not in found({**ACCUMULATING, "gradient_accumulation_steps": 1}, deepspeed="==0.18.2")
    assert LOST_GRADIENTS not in found({**ACCUMULATING, "zero_optimization": {"stage": 1}}, deepspeed="==0.18.2")


def test_without_a_release_nothing_is_said():
    assert not found(ACCUMULATING)
    config = config_of_dict(ACCUMULATING, stack="deepspeed")
    assert not certain(config)
    assert not possible(config)


def test_a_range_counts_if_all_of_it_has_the_defect():
    assert LOST_GRADIENTS in found(ACCUMULATING, deepspeed=">=0.17.6,<0.18.3")
    assert LOST_GRADIENTS not in found(ACCUMULATING, deepspeed=">=0.17.5,<0.18.3")


def test_a_floor_means_the_newest_release():
    assert not found(ACCUMULATING, deepspeed=">=0.17.6") & {LOST_GRADIENTS}
    config = config_of_dict(ACCUMULATING, stack="deepspeed", pins=pinned(deepspeed=">=0.17.6"))
    assert LOST_GRADIENTS not in possible(config)


def test_a_range_with_some_of_it_is_possible():
    config = config_of_dict(ACCUMULATING, stack="deepspeed", pins=pinned(deepspeed=">=0.17.5,<0.18.3"))
    assert possible(config)[LOST_GRADIENTS] == ["the release of deepspeed"]


def test_an_auto_that_nothing_fills_leaves_it_possible():
    config = {**ACCUMULATING, "gradient_accumulation_steps": "auto"}
    filled = config_of_dict(config, target=Target("0.18.2"), stack="trainer", pins=pinned(deepspeed="==0.18.2"))
    assert possible(filled)[LOST_GRADIENTS] == ["gradient_accumulation_steps"]


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("zero_optimization.stage == 2", True),
        ("zero_optimization.overlap_comm", False),  # the default below stage 3
        ("optimizer_device == 'none' and dtype == 'bf16'", True),
        ("gradient_accumulation_steps > 1 and world_size > 1", UNKNOWN),
        ("gradient_accumulation_steps > 8 and world_size > 1", False),  # one that decides outweighs an unknown one
        ("is_set('bf16.enabled') and not is_set('fp16')", True),
        ("calls('save_checkpoint')", UNKNOWN),  # without a script
        ("optimizer.params.weight_decay > 1", False),  # its default
        ("scheduler.type is None", True),
        ("wandb.enabled > 'a' or dtype == 'bf16'", True),  # a comparison that Python refuses decides nothing
    ],
)
def test_conditions_have_three_values(condition, value):
    config = config_of_dict(ACCUMULATING, target=Target("0.18.2"), stack="deepspeed")
    assert holds(config, condition) is value


def test_what_is_not_known_is_named():
    config = config_of_dict(ACCUMULATING, stack="deepspeed")
    assert unknown_names(config, "world_size > 1 and calls('generate') and dtype == 'bf16'") == [
        "the number of ranks",
        "whether the script calls generate",
    ]


def test_the_number_of_micro_steps_follows_from_the_batch_sizes():
    config = {**ACCUMULATING, "train_batch_size": 64}
    del config["gradient_accumulation_steps"]
    on_eight = config_of_dict(config, stack="deepspeed", facts=Facts(world_size=8))
    assert holds(on_eight, "gradient_accumulation_steps == 8") is True
    assert holds(config_of_dict(config, stack="deepspeed"), "gradient_accumulation_steps == 8") is UNKNOWN


def test_what_is_installed_is_not_combined_with_what_a_file_pins():
    """Torch of the environment that ds-lint runs in says nothing about the DeepSpeed that a project pins."""
    resuming = {**ACCUMULATING, "zero_optimization": {"stage": 3}}
    pair = "DSA-2026-0052"  # DeepSpeed before 0.16.0 with torch 2.6.0 and newer
    torch = Pin("torch", "==2.6.0", "installed", is_installed=True)
    apart = {**pinned(deepspeed="==0.15.4"), "torch": torch}
    together = {one.record["id"] for one in advisories.exposures(pinned(deepspeed="==0.15.4", torch="==2.6.0"))}
    assert pair in together
    config = config_of_dict(resuming, target=Target("0.15.4"), stack="deepspeed", pins=apart)
    assert "the release of torch" in possible(config)[pair]


def test_of_a_range_a_defect_that_some_releases_do_not_reach_is_not_reported():
    """`bf16.check_grad_overflow` is off by default since 0.17.1, and a key of later releases before."""
    choice = choose("", {"deepspeed": ">=0.16.9,<0.19"})
    report = lint_with(choice, documents.from_dict(ACCUMULATING), stack="deepspeed")
    assert "DSA-2026-0031" not in {finding.advisory for finding in report.findings}
    report = lint_with(
        choose("", {"deepspeed": ">=0.17.1,<0.19"}), documents.from_dict(ACCUMULATING), stack="deepspeed"
    )
    assert "DSA-2026-0031" in {finding.advisory for finding in report.findings}
