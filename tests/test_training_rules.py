"""What the rules about training arguments take for a wish of the user, where they point, and since which release."""

from __future__ import annotations

import json

import pytest
from linted import lint_dict

from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.knowledge.keys import Target

AUTOS = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "zero_optimization": {"stage": 2},
}
WARMUP = {
    **AUTOS,
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
}
OFFLOADED = {**AUTOS, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}


def findings(config, arguments, nodes=None, **releases):
    facts = gather(Sources(trainer_args=arguments, nodes=nodes))
    return lint_dict(config, target=Target(**releases), facts=facts).findings


def severities(config, arguments):
    return [(finding.code, finding.severity) for finding in findings(config, arguments)]


@pytest.mark.parametrize(
    ("on", "arguments", "codes"),
    [
        (["bf16"], "--fp16", ["DS612"]),
        (["bf16"], "--bf16 --fp16", ["DS611"]),
        (["fp16", "bf16"], "--bf16", ["DS401"]),
    ],
)
def test_two_16_bit_modes_are_one_finding(on, arguments, codes):
    config = {**AUTOS, **{mode: {"enabled": True} for mode in on}}
    assert [finding.code for finding in findings(config, arguments)] == codes


def test_a_schedule_that_was_written_is_asked_for():
    assert severities(WARMUP, "--lr_scheduler_type linear") == [("DS517", "error")]


def test_the_default_schedule_is_not_a_wish():
    assert severities(WARMUP, "--learning_rate 1e-4") == []


def test_what_an_object_holds_may_be_a_default():
    assert severities(WARMUP, {"lr_scheduler_type": "linear"}) == []
    assert severities(WARMUP, {"lr_scheduler_type": "cosine"}) == [("DS517", "error")]


def test_the_default_optimizer_is_not_a_wish():
    lion = {**AUTOS, "optimizer": {"type": "Lion", "params": {"lr": "auto", "weight_decay": "auto"}}}
    assert findings(lion, {"optim": "adamw_torch_fused"}) == []
    assert severities(lion, "--optim adamw_torch_fused") == [("DS522", "error")]
    assert findings(lion, "--optim lion_32bit") == []


def test_an_override_points_into_the_file_of_the_arguments(tmp_path):
    path = tmp_path / "args.json"
    path.write_text('{"learning_rate": 1e-4,\n "optim": "sgd"}', encoding="utf-8")
    (finding,) = findings(OFFLOADED, str(path))
    (related,) = finding.related
    assert (finding.code, related.path, related.label) == ("DS524", str(path), "optim is sgd")


@pytest.mark.parametrize(
    ("optim", "accelerate", "effects"),
    [
        ("lion_32bit", "1.2.0", ["rejected"]),
        ("lion_32bit", "1.1.1", ["overridden"]),
        ("adamw_bnb_8bit", "1.2.0", ["overridden"]),
        ("adamw_bnb_8bit", "1.1.1", []),  # in 32 bit, and AdamW
        ("paged_adamw_32bit", "1.2.0", []),
    ],
)
def test_accelerate_tells_optimizers_apart_since_1_2(optim, accelerate, effects):
    found = findings(OFFLOADED, f"--optim {optim}", transformers="4.57.6", accelerate=accelerate)
    assert [finding.effect for finding in found] == effects


def test_adafactor_beside_an_optimizer_is_told_once():
    config = {**AUTOS, "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}}}

    def codes(arguments, transformers):
        return [finding.code for finding in findings(config, arguments, transformers=transformers)]

    assert codes("--optim adafactor", "5.0.0") == ["DS522"]
    assert codes("--optim adafactor", "4.57.6") == ["DS620"]
    assert codes("--optim adafactor", "4.56.2") == ["DS522"]
    assert codes("--adafactor", "4.56.2") == ["DS620"]


def test_what_is_refused_depends_on_the_release():
    stage_3 = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
    config = {**AUTOS, "zero_optimization": stage_3}
    for release in ("4.38.0", "4.44.2", "4.45.0"):
        assert [one.code for one in findings(config, "--auto_find_batch_size", transformers=release)] == ["DS640"]
    assert [one.code for one in findings(AUTOS, "--auto_find_batch_size", transformers="4.44.2")] == ["DS640"]
    assert findings(AUTOS, "--auto_find_batch_size", transformers="4.45.0") == []
    assert findings(config, "--auto_find_batch_size", transformers="4.37.2") == []
    both = "--save_only_model --load_best_model_at_end --evaluation_strategy steps"
    assert [one.code for one in findings(AUTOS, both, transformers="4.38.0")] == ["DS704"]
    assert findings(AUTOS, both, transformers="4.37.2") == []


@pytest.mark.parametrize(
    ("arguments", "transformers", "is_refused"),
    [
        ({"warmup_steps": -1}, "4.41.2", False),
        ({"warmup_steps": -1}, "4.42.0", True),
        ({"warmup_steps": -1}, "5.0.0", True),
        ({"warmup_steps": 0.1}, "4.41.2", False),
        ({"warmup_steps": 0.1}, "4.57.6", True),
        ({"warmup_steps": 0.1}, "5.0.0", False),
        ({"warmup_steps": 1}, "4.43.4", True),
        ({"warmup_steps": 1}, "4.44.0", False),
        ({"warmup_ratio": 1.5}, "4.57.6", True),
        ({"warmup_ratio": 1.5}, "5.0.0", False),
    ],
)
def test_which_warm_up_is_refused_depends_on_the_release(arguments, transformers, is_refused):
    codes = [finding.code for finding in findings(AUTOS, arguments, transformers=transformers)]
    assert codes == (["DS611"] if is_refused else [])


def test_a_missing_micro_batch_size_trips_accelerate_below_1():
    config = {**AUTOS, "train_batch_size": 8}
    del config["train_micro_batch_size_per_gpu"]
    releases = {"transformers": "4.44.2"}
    assert [one.code for one in findings(config, "--max_steps 5", accelerate="0.34.2", **releases)] == ["DS511"]
    assert findings(config, "--max_steps 5", accelerate="1.0.0", **releases) == []


def test_an_evaluation_strategy_belongs_to_training():
    assert [one.code for one in findings(AUTOS, "--do_eval")] == ["DS641"]
    assert findings(AUTOS, "--do_eval --eval_strategy steps") == []


def test_node_local_storage_matters_on_several_nodes():
    config = {**AUTOS, "checkpoint": {"use_node_local_storage": True}}
    assert [one.code for one in findings(config, "--seed 1", nodes=2)] == ["DS706"]
    assert findings(config, "--seed 1", nodes=1) == []


def test_checkpointing_kwargs_come_as_json_too():
    stage_3 = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
    config = {**AUTOS, "zero_optimization": stage_3}

    def found(kwargs):
        words = f"--gradient_checkpointing True --gradient_checkpointing_kwargs '{json.dumps(kwargs)}' --lora_r 8"
        return [one.code for one in findings(config, words, deepspeed="0.19.2")]

    assert found({"use_reentrant": False}) == ["DS643"]
    assert found({"use_reentrant": True}) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--activation_checkpointing True", ["DS643"]),
        ("--activation_checkpointing False --gradient_checkpointing True", []),
        ("--activation_checkpointing True --gradient_checkpointing False", ["DS643"]),
        ("""--activation_checkpointing True --activation_checkpointing_kwargs '{"use_reentrant": true}'""", []),
        ("""--activation_checkpointing True --gradient_checkpointing_kwargs '{"use_reentrant": true}'""", []),
    ],
)
def test_the_newer_name_of_gradient_checkpointing_counts(words, expected):
    stage_3 = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
    given = findings({**AUTOS, "zero_optimization": stage_3}, f"{words} --lora_r 8", deepspeed="0.19.2")
    assert [one.code for one in given] == expected


def test_an_adapter_is_gathered_by_transformers_5():
    config = {**AUTOS, "zero_optimization": {"stage": 3}}
    assert [one.code for one in findings(config, "--seed 1 --lora_r 8", transformers="4.57.6")] == ["DS707"]
    assert findings(config, "--seed 1 --lora_r 8", transformers="5.0.0") == []


def test_gathering_under_each_of_its_names():
    for name in ("stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save"):
        config = {**AUTOS, "zero_optimization": {"stage": 3, name: True}}
        assert "DS703" not in [one.code for one in findings(config, "--seed 1")]
    assert "DS703" in [one.code for one in findings({**AUTOS, "zero_optimization": {"stage": 3}}, "--seed 1")]


def test_a_deprecated_switch_that_is_refused_is_told_once():
    config = {**AUTOS, "zero_optimization": {"stage": 2, "cpu_offload": True}}
    about_it = [one.code for one in findings(config, "--seed 1") if one.key == "zero_optimization.cpu_offload"]
    assert about_it == ["DS327"]
    with_optimizer = {**config, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
    about_it = [one.code for one in findings(with_optimizer, "--seed 1") if one.key == "zero_optimization.cpu_offload"]
    assert about_it == ["DS104"]
