"""The second model and the pairs of runs that align a model, by a script, a launch or a recipe."""

from __future__ import annotations

import pytest

from ds_lint.facts import Facts, alignment
from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.training_recipe import TrainingRecipe
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script
from ds_lint.source import yaml
from ds_lint.source.document import Document

IMPORTS = """\
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import CPOTrainer, DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, KTOTrainer, PPOTrainer, SFTTrainer
from trl import get_peft_config
model = AutoModelForCausalLM.from_pretrained(name)
copied = AutoModelForCausalLM.from_pretrained(name)
smaller = AutoModelForCausalLM.from_pretrained("acme/tiny")
"""


def found(facts):
    aligned = alignment.of(facts)
    return aligned and (aligned.samples, aligned.reference)


def launched(command, script=None):
    (launch,) = launches_in(command, "run.sh", lambda _: None).launches
    read = read_training_script(script) if script is not None else None
    return Facts().with_launch(LaunchFacts(launch, Document("run.sh", command, None, []), read))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("DPOTrainer(model, args=DPOConfig('out'))", (2, True)),
        ("DPOTrainer(model, ref_model=None, args=DPOConfig('out'))", (2, True)),
        ("DPOTrainer(model, copied, args=DPOConfig('out'))", (2, True)),
        ("DPOTrainer(model, smaller, args=DPOConfig('out'))", (2, False)),  # named, and not counted
        ("DPOTrainer(model, args=DPOConfig('out'), peft_config=LoraConfig())", (2, False)),
        ("DPOTrainer(model, args=DPOConfig('out'), peft_config=LoraConfig() if args.use_lora else None)", (2, None)),
        ("DPOTrainer(model, args=DPOConfig('out', precompute_ref_log_probs=True))", (2, False)),
        ("DPOTrainer(model, args=DPOConfig('out', precompute_ref_log_probs=flag))", (2, None)),
        ("class Own(DPOTrainer): ...\nOwn(model, args=DPOConfig('out'))", (2, True)),
        ("CPOTrainer(model)", (2, False)),
        ("KTOTrainer(model)", (1, True)),
        ("GRPOTrainer(model, args=GRPOConfig('out', beta=0.1))", (1, True)),
        ("GRPOTrainer(model, args=GRPOConfig('out', beta=0.0))", (1, False)),
        ("GRPOTrainer(model)", (1, None)),  # older releases keep one
        ("SFTTrainer(model)", None),
    ],
)
def test_a_script_with_a_trainer_of_trl(call, expected):
    assert found(launched("deepspeed train.py", IMPORTS + call)) == expected


def test_flags_decide_about_adapters():
    script = IMPORTS + "DPOTrainer(model, args=DPOConfig('out'), peft_config=get_peft_config(model_args))"
    assert found(launched("deepspeed train.py --output_dir out", script)) == (2, True)
    assert found(launched("deepspeed train.py --use_peft", script)) == (2, False)
    assert found(launched('deepspeed train.py "$@"', script)) == (2, None)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("trl dpo --model_name_or_path x --deepspeed z2.json", (2, True)),
        ("trl dpo --model_name_or_path x --use_peft", (2, False)),
        ("trl kto --model_name_or_path x", (1, True)),
        ("trl sft --model_name_or_path x", None),
        ("swift rlhf --rlhf_type dpo --model x --tuner_type full --deepspeed zero2", (2, True)),
        ("swift rlhf --rlhf_type dpo --model x --deepspeed zero2", (2, False)),  # LoRA by default
        ("swift rlhf --rlhf_type simpo --model x --train_type full --deepspeed zero2", (2, False)),
        ("swift sft --model x --deepspeed zero2", None),
    ],
)
def test_a_command_of_a_framework(command, expected):
    assert found(launched(command)) == expected


@pytest.mark.parametrize(
    ("fields", "framework", "expected"),
    [
        ("stage: dpo\nfinetuning_type: full\n", "LLaMA-Factory", (2, True)),
        ("stage: dpo\nfinetuning_type: lora\n", "LLaMA-Factory", (2, False)),
        ("stage: dpo\nfinetuning_type: full\npref_loss: simpo\n", "LLaMA-Factory", (2, False)),
        ("stage: rm\nfinetuning_type: full\n", "LLaMA-Factory", (2, False)),
        ("stage: sft\nfinetuning_type: full\n", "LLaMA-Factory", None),
        ("rl: dpo\nbase_model: x\n", "axolotl", (2, True)),
        ("rl: dpo\nbase_model: x\nadapter: lora\n", "axolotl", (2, False)),
        ("rl: orpo\nbase_model: x\n", "axolotl", (2, False)),
        ("rlhf_type: kto\ntuner_type: full\n", "ms-swift", (1, True)),
    ],
)
def test_a_recipe(fields, framework, expected):
    document = yaml.parse(fields, "recipe.yaml")
    assert found(Facts().with_recipe(TrainingRecipe(document, framework))) == expected


def test_models_of_another_size_are_named():
    aligned = alignment.of(launched("deepspeed train.py", IMPORTS + "PPOTrainer(model=model, ref_model=copied)"))
    assert [name for name in aligned.others if "model" in name] == [
        "the value model, which is trained too",
        "the reward model",
    ]
