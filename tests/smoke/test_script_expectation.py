"""What a config asks for in a script: each "auto" is what the framework filled in."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import SimpleNamespace

from shown_engines import CONFIG, expected, shown

from ds_lint.smoke.probe.frameworks import given_arguments

AUTO = CONFIG | {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_clipping": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}},
}
FILLED = CONFIG | {"train_micro_batch_size_per_gpu": 3, "optimizer": {"type": "AdamW", "params": {"lr": 0.5}}}


def test_values_are_those_of_the_text_and_not_those_that_the_engine_got():
    one = shown(config=CONFIG | {"zero_optimization": {"stage": 1}, "gradient_clipping": 7.0})
    expectation = expected(one)
    assert (expectation.stage.value, expectation.clipping) == (2, None)


def test_auto_is_what_the_framework_filled_in():
    expectation = expected(shown(config=FILLED), AUTO)
    assert expectation.batch(2) == (12, 3, 2)
    assert expectation.rate.value == 0.5


def test_auto_that_nothing_fills_in_is_not_there():
    expectation = expected(shown(config=FILLED), AUTO)
    assert expectation.clipping is None
    assert expectation.final.value("optimizer", "params", "betas") is None


def test_a_threshold_that_nothing_fills_in_is_the_default():
    config = CONFIG | {"zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": "auto"}}
    assert expected(shown(config=config), config).threshold.value == 100_000
    assert expected(shown(config=config, stack="accelerate"), config, stack="accelerate").threshold.value is None


def test_a_section_that_the_framework_removed_has_no_auto_left():
    expectation = expected(shown(config={"train_micro_batch_size_per_gpu": 1}), AUTO)
    assert expectation.rate is None


def test_the_precision_that_a_script_asks_accelerate_for_counts_without_a_section():
    without = {name: value for name, value in CONFIG.items() if name not in ("bf16", "fp16")}
    asked = shown(stack="accelerate", config={**without, "bf16": {"enabled": True}, "fp16": {"enabled": False}})
    assert expected(asked, without, stack="accelerate").dtype.value == "bfloat16"
    assert expected(asked, {**without, "fp16": {"enabled": True}}, stack="accelerate").dtype.value == "float16"
    assert expected(shown(stack="accelerate", config=without), without, stack="accelerate").dtype.value == "float32"


def test_the_arguments_of_the_trainer_count_only_with_the_trainer():
    arguments = {"learning_rate": 0.25, "max_grad_norm": 0.5}
    assert expected(shown(stack="trainer", arguments=arguments)).argument("max_grad_norm") == 0.5
    assert expected(shown(stack="deepspeed", arguments=arguments)).argument("max_grad_norm") is None


@dataclass
class Arguments:
    """Stands for ``TrainingArguments``."""

    learning_rate: float = 5e-5
    weight_decay: float = 0.0
    bf16: bool = False


@dataclass
class OwnArguments(Arguments):
    """Has defaults of its own, as ``SFTConfig`` of trl."""

    learning_rate: float = 2e-5
    max_length: int = 1024
    packing: bool = False


def test_the_defaults_of_a_framework_are_given_arguments(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers.training_args", SimpleNamespace(TrainingArguments=Arguments))
    own = SimpleNamespace(args=OwnArguments(bf16=True, packing=True), state=SimpleNamespace(max_steps=30))
    assert given_arguments(own) == {"learning_rate": 2e-5, "bf16": True, "packing": True, "max_steps": 30}
