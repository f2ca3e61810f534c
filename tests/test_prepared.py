"""What the stack makes of a config, as far as it is known; the real code is asked in tests/fidelity."""

from __future__ import annotations

import pytest
from linted import config_of_dict, lint_dict, lint_document

from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.knowledge.keys import Target
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.preparation import prepare
from ds_lint.semantics.preparation.words import source_of
from ds_lint.source import documents

AUTOS = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 2},
}


def prepared(config, arguments="--bf16", *, stack=None, target=None, **sources):
    facts = gather(Sources(trainer_args=arguments, **sources))
    return prepare(config_of_dict(config, target=target, facts=facts, stack=stack))


def codes(config, arguments, **sources):
    facts = gather(Sources(trainer_args=arguments, **sources))
    return [finding.code for finding in lint_dict(config, facts=facts).findings]


def test_autos_are_filled_from_the_arguments():
    found = prepared(AUTOS, "--per_device_train_batch_size 4 --gradient_accumulation_steps 2", world_size=8)
    assert [found.config[name] for name in list(AUTOS)[:3]] == [64, 4, 2]


def test_what_follows_from_the_world_size_is_unknown_without_it():
    found = prepared(AUTOS, "--per_device_train_batch_size 4")
    assert found.config["train_batch_size"] is UNKNOWN
    assert found.config["train_micro_batch_size_per_gpu"] == 4
    assert not found.is_refused


def test_accelerate_adds_sections_and_sets_what_it_wants():
    found = prepared({"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": "auto"}}, "--bf16")
    assert found.config["bf16"] == {"enabled": True}
    assert found.config["fp16"] == {"enabled": False}
    assert found.config["gradient_accumulation_steps"] == 1
    assert found.config["steps_per_print"] == float("inf")
    assert found.value("zero_optimization", "stage") == 2
    stage = ("zero_optimization", "stage")
    assert source_of(stage, found.settings[stage]).startswith("filled by Accelerate with DeepSpeedPlugin.zero_stage")


def test_transformers_that_prepares_alone_adds_nothing():
    found = prepared(
        {"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": "auto"}},
        target=Target(transformers="4.28.1", accelerate="0.18.0"),
    )
    assert list(found.config) == [
        "train_micro_batch_size_per_gpu",
        "zero_optimization",
        "zero_allow_untested_optimizer",
    ]


def test_a_mismatch_names_its_arguments():
    config = {**AUTOS, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}}}
    (mismatch,) = prepared(config, "--adam_beta2 0.98").mismatches
    assert (mismatch.path, mismatch.written, mismatch.wanted) == (
        ("optimizer", "params", "betas"),
        [0.9, 0.95],
        [0.9, 0.98],
    )
    assert mismatch.names == ["adam_beta1", "adam_beta2"]


@pytest.mark.parametrize(
    ("arguments", "release", "steps"),
    [
        ("--warmup_steps 10", None, 10),
        ("--warmup_steps 0.1 --max_steps 100", None, 10),
        ("--warmup_steps 0.1", None, UNKNOWN),
        ("--bf16", None, 1),
        ("--bf16", "4.57.6", 0),
        ("--warmup_ratio 0.1 --max_steps 50", "4.57.6", 5),
        ("--warmup_ratio 0.1 --warmup_steps 3", "4.57.6", 3),
        ("--warmup_ratio 0.1 --max_steps 50", "5.14.1", 5),
        ({"warmup_steps": 0.5}, "4.41.2", 0.5),  # a field that is never checked
    ],
)
def test_warm_up_steps_of_every_release(arguments, release, steps):
    config = {**AUTOS, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}}
    found = prepared(config, arguments, target=Target(transformers=release))
    assert found.value("scheduler", "params", "warmup_num_steps") == steps


def test_a_config_without_arguments_is_prepared_as_far_as_it_goes():
    found = prepare(config_of_dict({**AUTOS, "zero_optimization": {"stage": "auto"}}, stack="trainer"))
    assert found.config["train_micro_batch_size_per_gpu"] is UNKNOWN
    assert found.value("zero_optimization", "stage") == 2
    assert not found.is_refused


def test_deepspeed_gets_what_is_written():
    assert prepared(AUTOS, stack="deepspeed").config == AUTOS


def test_rules_check_the_filled_value_and_say_who_filled_it(tmp_path):
    path = tmp_path / "args.yaml"
    path.write_text("learning_rate: 5e-5\n", encoding="utf-8")
    config = {
        **AUTOS,
        "gradient_clipping": "auto",
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
    }
    (finding,) = lint_dict(config, facts=gather(Sources(trainer_args=str(path)))).findings
    assert finding.message == (
        '`lr` of FusedAdam must be a number, got "5e-5": deepspeed.initialize raises (from "auto")'
    )
    assert finding.help.endswith('"auto" is filled by the Trainer with learning_rate.')
    assert finding.fix is None


def test_batch_sizes_are_multiplied_with_what_fills_them():
    config = {**AUTOS, "gradient_clipping": "auto", "gradient_accumulation_steps": 1}
    assert codes(config, "--gradient_accumulation_steps 1", world_size=2) == []
    assert "DS512" in codes(config, "--gradient_accumulation_steps 2", world_size=2)


def test_a_warm_up_that_is_asked_for_is_no_risk():
    config = {
        **AUTOS,
        "gradient_clipping": "auto",
        "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
    }
    target = Target(transformers="4.57.6")

    def found(arguments):
        facts = gather(Sources(trainer_args=f"{arguments} --lr_scheduler_type constant_with_warmup"))
        return [finding.code for finding in lint_dict(config, target=target, facts=facts).findings]

    assert found("--warmup_ratio 0.1") == []
    assert found("--learning_rate 1e-4") == ["DS504"]  # filled with 0, which DeepSpeed refuses


def test_a_value_that_is_none_of_a_config_is_unknown(tmp_path):
    path = tmp_path / "args.yaml"
    path.write_text("learning_rate: 2026-11-21\n", encoding="utf-8")
    config = {**AUTOS, "gradient_clipping": "auto", "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
    assert codes(config, str(path)) == []


def test_a_config_may_nest_as_deep_as_it_likes():
    deep = documents.from_bytes(b'{"zero_optimization": {}, "x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "deep.json")
    report = lint_document(deep, facts=gather(Sources(trainer_args="--bf16")))
    assert "DS617" in {finding.code for finding in report.findings}


@pytest.mark.parametrize(
    ("stage", "precision", "severities"),
    [(2, "bf16", ["info"]), (2, "fp16", []), (3, "bf16", ["warning"]), (3, "fp16", ["warning"])],
)
def test_stage_3_partitions_in_float32_what_has_no_section_yet(stage, precision, severities):
    report = lint_dict({"zero_optimization": {"stage": stage}}, facts=gather(Sources(trainer_args=f"--{precision}")))
    assert [finding.severity for finding in report.findings if finding.code == "DS617"] == severities


def test_what_is_no_config_agrees_with_everything():
    report = lint_document(documents.from_bytes(b"", "empty.json"), facts=gather(Sources(trainer_args="--bf16")))
    assert {finding.code for finding in report.findings} & {"DS610", "DS613", "DS615", "DS617", "DS620"} == set()


def test_a_mismatch_points_into_the_file_of_the_arguments(tmp_path):
    path = tmp_path / "args.json"
    path.write_text('{\n  "max_grad_norm": 0.5\n}\n', encoding="utf-8")
    report = lint_dict({**AUTOS, "gradient_clipping": 1.0}, facts=gather(Sources(trainer_args=str(path))))
    (finding,) = report.findings
    (related,) = finding.related
    assert (finding.code, related.path, related.label) == ("DS610", str(path), "max_grad_norm is 0.5")
    (document,) = report.material
    assert document.position(related.span.start) == (2, 3)
