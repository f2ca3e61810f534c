"""Whose kernels compute the layers and the loss of a run, as its arguments, its recipe and its script show."""

from __future__ import annotations

import pytest
from launched_script import facts_of_script
from linted import config_of_dict

from ds_lint.facts import Facts
from ds_lint.facts.training import arguments_of
from ds_lint.facts.training_recipe import TrainingRecipe
from ds_lint.footprint import kernels
from ds_lint.footprint.kernels import Kernels
from ds_lint.source import yaml
from ds_lint.targets.pin import Pin

PLAIN, LIGER, UNKNOWN = Kernels("transformers", "logits"), Kernels("liger", "fused"), Kernels(None, None)
LLAMA_FACTORY = "stage: sft\nfinetuning_type: full\ntemplate: llama3\ndataset: identity\n"
AXOLOTL = "base_model: model\nsample_packing: true\nmicro_batch_size: 1\nsequence_len: 4096\n"
SWIFT = "model: model\ntuner_type: full\n"
SCRIPT = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("model")
arguments = TrainingArguments(deepspeed="ds.json", bf16=True)
"""


def by_arguments(flags):
    facts = Facts(training=arguments_of(f"--output_dir out {flags}"))
    return config_of_dict({}, stack="trainer", facts=facts)


def by_recipe(text, framework):
    recipe = TrainingRecipe(yaml.parse(text, "recipe.yaml"), framework)
    return config_of_dict({}, stack="trainer", facts=Facts().with_recipe(recipe))


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("--bf16", PLAIN),
        ("--use_liger_kernel", LIGER),
        ("--use_liger_kernel False", PLAIN),
        ("--use_liger_kernel --liger_kernel_config '{\"rope\": true}'", UNKNOWN),
        ("--torch_compile", PLAIN._replace(others=("torch.compile",))),
        ("--enable_liger_kernel True", LIGER),
        ("--activation_offloading True", PLAIN._replace(others=("activation_offloading",))),
    ],
)
def test_training_arguments(flags, found):
    assert kernels.of(by_arguments(flags)) == found


@pytest.mark.parametrize(
    ("recipe", "framework", "found"),
    [
        (LLAMA_FACTORY, "LLaMA-Factory", PLAIN),
        (LLAMA_FACTORY + "enable_liger_kernel: true\n", "LLaMA-Factory", LIGER),
        (LLAMA_FACTORY + "use_unsloth: true\n", "LLaMA-Factory", PLAIN._replace(others=("Unsloth",))),
        (SWIFT + "use_liger_kernel: true\n", "ms-swift", LIGER),
        (AXOLOTL, "axolotl", PLAIN),
        (AXOLOTL + "cut_cross_entropy: true\n", "axolotl", Kernels("transformers", "cut")),
        (AXOLOTL + "liger_rms_norm: true\n", "axolotl", Kernels(None, "logits")),
        (
            AXOLOTL + "liger_rms_norm: true\nliger_glu_activation: true\nliger_fused_linear_cross_entropy: true\n",
            "axolotl",
            LIGER,
        ),
        (
            AXOLOTL + "liger_rms_norm: true\nliger_glu_activation: true\ncut_cross_entropy: true\n",
            "axolotl",
            Kernels("liger", "cut"),
        ),
    ],
)
def test_recipes(recipe, framework, found):
    assert kernels.of(by_recipe(recipe, framework)) == found


@pytest.mark.parametrize(
    ("recipe", "framework", "is_packed"),
    [
        (AXOLOTL, "axolotl", True),
        (AXOLOTL.replace("true", "false"), "axolotl", False),
        (LLAMA_FACTORY, "LLaMA-Factory", False),
        (LLAMA_FACTORY + "neat_packing: true\n", "LLaMA-Factory", True),
        (LLAMA_FACTORY.replace("sft", "pt"), "LLaMA-Factory", True),
        (LLAMA_FACTORY.replace("sft", "pt") + "packing: false\n", "LLaMA-Factory", False),
        (SWIFT + "packing: true\n", "ms-swift", True),
    ],
)
def test_packed_sequences_are_as_long_as_the_longest(recipe, framework, is_packed):
    assert kernels.are_sequences_full(by_recipe(recipe, framework)) is (is_packed or None)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", PLAIN),
        ("from liger_kernel.transformers import apply_liger_kernel_to_llama\napply_liger_kernel_to_llama()\n", LIGER),
        ("if options.liger:\n    patch()\n", UNKNOWN),
        ("from cut_cross_entropy.transformers import cce_patch\ncce_patch(model)\n", Kernels("transformers", "cut")),
        ("model = torch.compile(model)\n", PLAIN._replace(others=("torch.compile",))),
    ],
)
def test_scripts(line, found):
    text = SCRIPT + line + "trainer = Trainer(model, arguments)\ntrainer.train()\n"
    assert kernels.of(config_of_dict({}, stack="trainer", facts=facts_of_script(text))) == found


def test_a_config_alone_is_taken_to_use_those_of_transformers():
    assert kernels.of(config_of_dict({}, stack="deepspeed", facts=Facts())) == PLAIN._replace(is_assumed=True)


@pytest.mark.parametrize(("release", "sums"), [("0.5.10", False), ("0.6.2", True), ("0.8.2", True), ("0.8.5", False)])
def test_releases_of_liger_that_sum_gradients_of_the_head(release, sums):
    pins = {"liger-kernel": Pin("liger-kernel", f"=={release}", "requirements.txt:1")}
    config = config_of_dict({}, stack="trainer", facts=by_arguments("--use_liger_kernel").facts, pins=pins)
    assert kernels.of(config).sums_head_gradients is sums
