"""What scripts and frameworks call the length of a sequence and the kind of attention."""

from __future__ import annotations

import pytest
from launched_script import facts_of_script

from ds_lint.facts import Facts, own_arguments, training
from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.training_recipe import TrainingRecipe
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.scripts import launches_in
from ds_lint.source import yaml
from ds_lint.source.document import Document

LLAMA_FACTORY = "stage: sft\nfinetuning_type: lora\ntemplate: llama3\ndataset: identity\ncutoff_len: 4096\n"

LOADING = """\
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--flash", action="store_true")
args = parser.parse_args()
given = {"attn_implementation": "eager"}
made = dict(attn_implementation="eager")
changed = {"attn_implementation": "eager"}
changed["attn_implementation"] = pick()
model = AutoModelForCausalLM.from_pretrained(LOAD)
Trainer(model, TrainingArguments("out", deepspeed="ds.json")).train()
"""


def facts_of(flags):
    return Facts(training=training.arguments_of(f"--output_dir out {flags}"))


def with_recipe(text, framework=None):
    return Facts().with_recipe(TrainingRecipe(yaml.parse(text, "recipe.yaml"), framework))


@pytest.mark.parametrize(
    ("recipe", "framework", "is_on"),
    [
        ("rl: dpo\nbase_model: x\ngradient_checkpointing: true\n", "axolotl", True),
        ("rl: dpo\nbase_model: x\ngradient_checkpointing: offload\n", "axolotl", True),
        ("rl: dpo\nbase_model: x\n", "axolotl", None),
    ],
)
def test_checkpointing_of_recipes_without_training_arguments(recipe, framework, is_on):
    assert own_arguments.is_checkpointed(with_recipe(recipe, framework)) is is_on


def test_frameworks_that_checkpoint_unless_told_not_to():
    recipe = "rlhf_type: dpo\ntuner_type: full\n"
    assert own_arguments.is_checkpointed_by_default(with_recipe(recipe, "ms-swift")) is True
    off = with_recipe(f"{recipe}gradient_checkpointing: false\n", "ms-swift")
    assert own_arguments.is_checkpointed_by_default(off) is False
    assert own_arguments.is_checkpointed_by_default(with_recipe("base_model: x\n", "axolotl")) is None


@pytest.mark.parametrize(
    ("flags", "length"),
    [
        ("--max_seq_length 2048", 2048),
        ("--model_max_length 4096 --bf16", 4096),
        ("--block_size=1024", 1024),
        ("--cutoff_len 512", 512),
        ("--max_length 512 --max_seq_length 4096", 4096),
        ("--max_length lots", None),
        ("--max_length -1", None),
        ("--bf16", None),
    ],
)
def test_the_length_of_a_sequence(flags, length):
    assert own_arguments.sequence_length(facts_of(flags)) == length


def test_what_the_user_says_wins():
    facts = facts_of("--max_seq_length 2048")
    facts.sequence_length = 64
    assert own_arguments.sequence_length(facts) == 64


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ("--attn_implementation flash_attention_2", "flash_attention_2"),
        ("--attn_impl sdpa", "sdpa"),
        ("--flash_attn fa2", "flash_attention_2"),
        ("--flash_attn disabled", "eager"),
        ("--flash_attn auto", None),
        ("--flash_attention true", "flash_attention_2"),
        ("--flash_attention true --attn_implementation sdpa", "sdpa"),
        ("--flash_attention false", None),
        ("--bf16", None),
    ],
)
def test_the_kind_of_attention(flags, kind):
    assert own_arguments.attention(facts_of(flags)) == kind


def test_the_field_of_the_framework_wins():
    recipe = "rlhf_type: dpo\ntuner_type: full\nmax_length: 512\nmax_seq_length: 4096\n"
    assert own_arguments.sequence_length(with_recipe(recipe, "ms-swift")) == 512


def test_a_recipe_tells_too():
    facts = with_recipe(LLAMA_FACTORY + "flash_attn: fa2\n")
    assert own_arguments.sequence_length(facts) == 4096
    assert own_arguments.attention(facts) == "flash_attention_2"
    assert own_arguments.attention(with_recipe("base_model: a\nsequence_len: 8\nsdp_attention: true\n")) == "sdpa"


@pytest.mark.parametrize(
    ("more", "is_on"), [("", True), ("disable_gradient_checkpointing: true\n", False), ("bf16: true\n", True)]
)
def test_llama_factory_checkpoints_activations_unless_it_is_told_not_to(more, is_on):
    assert own_arguments.is_checkpointed(with_recipe(LLAMA_FACTORY + more, "LLaMA-Factory")) is is_on


def test_other_frameworks_leave_it_to_the_training_arguments():
    assert own_arguments.is_checkpointed(with_recipe("base_model: a\nsequence_len: 8\n", "axolotl")) is None
    assert own_arguments.is_checkpointed(facts_of("--bf16")) is None


@pytest.mark.parametrize(
    ("command", "default"),
    [
        ("trl sft --model_name_or_path x", None),  # as transformers has it
        ("trl sft --model_name_or_path x $MORE", UNKNOWN),  # which may be --optim
        ("deepspeed train.py --model_name_or_path x", UNKNOWN),
    ],
)
def test_the_optimizer_of_a_framework_whose_flags_name_none(command, default):
    (launch,) = launches_in(command, "run.sh", lambda _: None).launches
    facts = Facts().with_launch(LaunchFacts(launch, Document("run.sh", command, None, []), None))
    assert own_arguments.default_of_framework(facts, "optim") is default


@pytest.mark.parametrize(
    ("load", "flags", "kind"),
    [
        ("'gpt2', attn_implementation='flash_attention_2'", "", "flash_attention_2"),
        ("'gpt2', use_flash_attention_2=True", "", "flash_attention_2"),
        ("'gpt2', use_flash_attention_2=args.flash", "", None),
        ("'gpt2', attn_implementation='flash_attention_2' if args.flash else 'sdpa'", "--flash", "flash_attention_2"),
        ("'gpt2', attn_implementation='flash_attention_2' if args.flash else 'sdpa'", "", "sdpa"),
        ("'gpt2', attn_implementation=pick()", "", None),
        ("'gpt2', **given", "", "eager"),
        ("'gpt2', **made", "", "eager"),
        ("'gpt2', **changed", "", None),
        ("'gpt2'", "", None),
    ],
)
def test_the_attention_that_a_script_loads_the_model_with(load, flags, kind):
    assert own_arguments.attention(facts_of_script(LOADING.replace("LOAD", load), flags)) == kind


@pytest.mark.parametrize(
    ("lines", "flags", "length"),
    [
        ("tokenizer(text, truncation=True, max_length=512)", "", 512),
        ("tokenizer.encode(text, truncation='longest_first', max_length=args.block_size)", "", 1024),
        ("tokenizer(text, truncation=True, max_length=args.block_size)", "--block_size 64", 64),
        ("tokenizer(text, max_length=512)", "", 1024),  # pads, and cuts nothing off
        ("tokenizer(text, truncation=cuts(), max_length=512)", "", 1024),
        (
            "tokenizer(question, truncation=True, max_length=8)\ntokenizer(answer, truncation=True, max_length=8)",
            "",
            None,
        ),
        ("tokenizer(a, truncation=True, max_length=8)\ntokenizer(text_target=b, truncation=True, max_length=4)", "", 8),
        ("build()", "--block_size $SIZE", None),
        ("build()", '"$@"', None),
    ],
)
def test_the_length_at_which_a_script_cuts_samples_off(lines, flags, length):
    text = LOADING.replace("LOAD", "'gpt2'").replace('"--flash", action="store_true"', '"--block_size", default=1024')
    assert own_arguments.sequence_length(facts_of_script(f"{text}{lines}\n", flags)) == length


def test_a_trainer_of_trl_cuts_samples_off_itself():
    text = LOADING.replace("TrainingArguments(", "SFTConfig(") + "tokenizer(prompt, truncation=True, max_length=8)\n"
    text = text.replace("import argparse", "import argparse\nfrom trl import SFTConfig")
    assert own_arguments.sequence_length(facts_of_script(text.replace("LOAD", "'gpt2'"), "")) is None
