"""Flags become what the real HfArgumentParser makes of them for the installed TrainingArguments."""

from __future__ import annotations

import contextlib
import io
import random
import shlex

import pytest
from linted import config_of_dict

pytest.importorskip("transformers")

from installed import INSTALLED, knowledge
from transformers import HfArgumentParser, TrainingArguments
from transformers.utils import is_torch_tf32_available

from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.knowledge import tables
from ds_lint.semantics import arguments

pytestmark = pytest.mark.fidelity

# Fields whose values the Trainer's agreement with a config rests on; TrainingArguments leaves them as they are.
FIELDS = (
    "activation_checkpointing", "fsdp", "gradient_checkpointing", "adam_beta1", "adam_epsilon",
    "auto_find_batch_size", "average_tokens_across_devices", "bf16",
    "dataloader_pin_memory", "fp16_full_eval", "gradient_accumulation_steps", "learning_rate", "max_grad_norm",
    "max_steps", "per_device_train_batch_size", "save_on_each_node", "warmup_steps", "weight_decay",
)  # fmt: skip
TEXTS = ["1", "0", "-1", "2.5", "1e-4", "true", "False", "yes", "n", "ten", "", "1e3", "inf", "08"]


class Parser(HfArgumentParser):
    def error(self, message):
        raise ValueError(message)


def command_line(seed: int) -> str:
    dice = random.Random(seed)
    words = []
    for name in dice.sample(FIELDS, 3):
        flag = f"--{name.replace('_', '-') if dice.random() < 0.3 else name}"
        if dice.random() < 0.15:
            flag = f"--no_{name}"
        text = dice.choice(TEXTS)
        words += dice.choice([[flag], [f"{flag}={text}"], [flag, text], [flag, text], [flag, text]])
    return shlex.join(words)


def real(flags: str) -> dict[str, object] | None:
    """The fields, or None where the parser refuses the flags."""
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            namespace, _ = Parser(TrainingArguments).parse_known_args(shlex.split(flags))
        except ValueError:
            return None
    return {name: getattr(namespace, name) for name in FIELDS}


@pytest.mark.parametrize("seed", range(150))
def test_a_flag_is_read_as_the_parser_reads_it(seed):
    flags = command_line(seed)
    config = config_of_dict({}, target=INSTALLED, facts=gather(Sources(trainer_args=flags)))
    expected = real(flags)
    refused = [names for names, message in arguments.refusals(config) if message.startswith("--")]
    assert bool(refused) == (expected is None), flags
    if expected is not None:
        assert {name: config.argument(name).value for name in FIELDS} == expected, flags


@pytest.mark.parametrize("name", sorted(knowledge().table("transformers", "training_arguments")))
def test_a_flag_without_a_value_is_refused_as_the_parser_refuses_it(name):
    config = config_of_dict({}, target=INSTALLED, facts=gather(Sources(trainer_args=f"--{name}")))
    is_refused = any(message.startswith("--") for _, message in arguments.refusals(config))
    assert is_refused == (real(f"--{name}") is None)


OTHERS = sorted(
    set(tables.load("transformers")["training_arguments"])
    - set(knowledge().table("transformers", "training_arguments"))
)


@pytest.mark.parametrize("name", OTHERS)
def test_a_field_of_another_release_is_refused(name):
    for source in ({name: None}, f"--{name} 1"):
        config = config_of_dict({}, target=INSTALLED, facts=gather(Sources(trainer_args=source)))
        (names, message), *_ = arguments.refusals(config)
        assert names == (name,)
        assert "transformers" in message
    with pytest.raises(ValueError, match="not used by the HfArgumentParser"):
        HfArgumentParser(TrainingArguments).parse_args_into_dataclasses([f"--{name}", "1"], look_for_args_file=False)
    with pytest.raises(ValueError, match="not used by the HfArgumentParser"):
        HfArgumentParser(TrainingArguments).parse_dict({name: None})


@pytest.mark.skipif(is_torch_tf32_available(), reason="this GPU has TF32")
@pytest.mark.parametrize(
    ("gpu", "is_taken"), [("v100", False), ("t4", False), ("a100", True), ("mi250", True), (None, True)]
)
def test_tf32_needs_a_gpu_that_has_it(gpu, is_taken):
    config = config_of_dict({}, target=INSTALLED, facts=gather(Sources(trainer_args="--tf32 true", gpu=gpu)))
    assert (list(arguments.refusals(config)) == []) == is_taken
    with pytest.raises(ValueError, match="tf32 requires Ampere or a newer GPU"):
        TrainingArguments(output_dir="out", tf32=True)


REFUSED = [
    {"load_best_model_at_end": True},
    {"load_best_model_at_end": True, "eval_strategy": "steps", "save_strategy": "epoch"},
    {"lr_scheduler_type": "reduce_lr_on_plateau"},
    {"eval_strategy": False},
    {"save_strategy": False},
    {"logging_strategy": True},
    {"logging_steps": 0},
    {"logging_steps": 1.5},
    {"save_steps": 2.5},
    {"eval_strategy": "steps", "eval_steps": 1.5},
    {"eval_strategy": "steps", "logging_strategy": "no", "logging_steps": 0},
    {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 200},
    {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 0.3},
    {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 0.3, "save_steps": 0.4},
    {"torch_empty_cache_steps": 0},
    {"torch_empty_cache_steps": 1.5},
    {"dataloader_prefetch_factor": 2},
    {"lr_scheduler_type": "greedy"},
]
TAKEN = [
    {"load_best_model_at_end": True, "eval_strategy": "steps", "save_strategy": "steps"},
    {"load_best_model_at_end": True, "save_strategy": "best"},
    {"lr_scheduler_type": "reduce_lr_on_plateau", "eval_strategy": "epoch"},
    {"logging_strategy": "no", "logging_steps": 0},
    {"logging_steps": 0.3, "save_steps": 2.0},
    {"save_strategy": "epoch", "save_steps": 2.5},
    {"eval_strategy": "steps", "eval_steps": 0, "logging_steps": 5},
    {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 250},
    {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 0.1, "save_steps": 0.3},
    {"torch_empty_cache_steps": 1},
    {"dataloader_prefetch_factor": 2, "dataloader_num_workers": 1},
]


@pytest.mark.parametrize(("fields", "is_taken"), [(one, False) for one in REFUSED] + [(one, True) for one in TAKEN])
def test_strategies_that_do_not_go_together(fields, is_taken):
    config = config_of_dict({}, target=INSTALLED, facts=gather(Sources(trainer_args=fields)))
    assert (list(arguments.refusals(config)) == []) == is_taken
    with contextlib.nullcontext() if is_taken else pytest.raises(ValueError):
        TrainingArguments(output_dir="out", use_cpu=True, report_to="none", **fields)


def test_a_misspelled_field_is_refused_unless_the_script_declares_it():
    """DS611: of a slip, the parser of the script decides."""
    from dataclasses import make_dataclass

    from transformers import HfArgumentParser, TrainingArguments

    words = ["--output_dir", "out", "--learnin_rate", "5"]
    with pytest.raises(ValueError, match="learnin_rate"):
        HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(words)
    own = make_dataclass("Own", [("learnin_rate", int, 1)])
    arguments, script = HfArgumentParser((TrainingArguments, own)).parse_args_into_dataclasses(words)
    assert (arguments.learning_rate, script.learnin_rate) == (5e-5, 5)
