"""Adapters are read as each framework is asked for them, with its defaults."""

from __future__ import annotations

import pytest

from ds_lint.facts import Facts, Sources
from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.lora import Adapters, NoAdapters, parsed, tensors_with
from ds_lint.facts.lora_requests import parameters, requested
from ds_lint.facts.model import Model
from ds_lint.facts.readers import gather
from ds_lint.facts.training_recipe import TrainingRecipe
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.frameworks import FRAMEWORKS
from ds_lint.knowledge import tables
from ds_lint.launches.scripts import launches_in
from ds_lint.source import documents
from ds_lint.source.document import Document

LLAMA_FACTORY = "model_name_or_path: x\nstage: sft\ntemplate: qwen3\ndeepspeed: ds.json\n"
AXOLOTL = "base_model: x\nmicro_batch_size: 2\nsequence_len: 2048\ndeepspeed: ds.json\n"
SWIFT = "model: x\ntuner_type: lora\nper_device_train_batch_size: 2\ndeepspeed: ds.json\n"
TRL = (
    "model_name_or_path: x\nuse_peft: true\nper_device_train_batch_size: 2\nnum_train_epochs: 1\nsave_steps: 9\n"
    "deepspeed: ds.json\n"
)


def of_recipe(text: str) -> Adapters | None:
    facts = Facts()
    (document,) = documents.configs_in(text.encode(), "recipe.yaml")
    facts.recipe = TrainingRecipe(document)
    found = requested(facts)
    return found._replace(source="") if found is not None else None


def of_launch(command: str) -> Adapters | None:
    facts = Facts()
    (launch,) = launches_in(command, "run.sh", lambda _: None).launches
    facts.launch = LaunchFacts(launch, Document("run.sh", command, None, []), None)
    found = requested(facts)
    return found._replace(source="") if found is not None else None


@pytest.mark.parametrize(
    ("recipe", "adapters"),
    [
        (LLAMA_FACTORY + "finetuning_type: lora\n", Adapters(8, "all")),
        (LLAMA_FACTORY + "lora_rank: 16\nlora_target: q_proj,v_proj\n", Adapters(16, ("q_proj", "v_proj"))),
        (
            LLAMA_FACTORY + "lora_target: all\nadditional_target: embed_tokens,lm_head\n",
            Adapters(8, "all", ("embed_tokens", "lm_head")),
        ),
        (LLAMA_FACTORY + "finetuning_type: full\nlora_rank: 16\n", None),
        (AXOLOTL + "adapter: qlora\nlora_r: 32\nlora_target_linear: true\n", Adapters(32, "all")),
        (
            AXOLOTL
            + "adapter: lora\nlora_r: 8\nlora_target_modules: [q_proj, k_proj]\nlora_modules_to_save: [lm_head]\n",
            Adapters(8, ("q_proj", "k_proj"), ("lm_head",)),
        ),
        (AXOLOTL + "adapter: lora\nlora_r: 8\n", None),
        (AXOLOTL + "adapter: lora\nlora_target_linear: true\n", None),
        (AXOLOTL + "lora_r: 8\nlora_target_linear: true\n", None),
        (SWIFT, Adapters(8, "all")),
        (SWIFT + "lora_rank: 64\ntarget_modules: [all-linear]\n", Adapters(64, "all")),
        (SWIFT.replace("lora", "full"), None),
        (TRL, Adapters(16)),
        (TRL + "lora_r: 4\nlora_target_modules: [q_proj]\n", Adapters(4, ("q_proj",))),
        (TRL + "lora_target_modules: all-linear\n", Adapters(16, "all-linear")),
        (TRL.replace("use_peft: true", "use_peft: false"), None),
    ],
)
def test_recipes(recipe, adapters):
    assert of_recipe(recipe) == adapters


@pytest.mark.parametrize(
    ("command", "adapters"),
    [
        (
            "llamafactory-cli train --stage sft --finetuning_type lora --lora_rank 16 --deepspeed a.json",
            Adapters(16, "all"),
        ),
        (
            "swift sft --tuner_type lora --lora_rank 16 --target_modules q_proj v_proj --deepspeed zero2",
            Adapters(16, ("q_proj", "v_proj")),
        ),
        ("deepspeed train.py --lora_r 64 --lora_target_modules q_proj,v_proj", Adapters(64, ("q_proj", "v_proj"))),
        ("deepspeed train.py --lora_r 64", None),
        ("deepspeed train.py --lora_target_modules q_proj", None),
        ("deepspeed train.py --lora_r $R --lora_target_modules q_proj", None),
        ("deepspeed train.py", None),
    ],
)
def test_launches(command, adapters):
    assert of_launch(command) == adapters


@pytest.mark.parametrize(
    ("text", "adapters"),
    [
        ("r=16,targets=q_proj+v_proj", Adapters(16, ("q_proj", "v_proj"), (), "--lora")),
        ("targets=all-linear, r=4", Adapters(4, "all-linear", (), "--lora")),
        ("r=16", Adapters(16, None, (), "--lora")),
        ("r=8,modules_to_save=embed_tokens+lm_head", Adapters(8, None, ("embed_tokens", "lm_head"), "--lora")),
    ],
)
def test_the_option(text, adapters):
    assert parsed(text) == adapters
    facts = gather(Sources(lora=text))
    assert (facts.lora, requested(facts), facts.adapters) == (adapters, adapters, "--lora")


@pytest.mark.parametrize("text", ["", "16", "r=0", "r=-1", "r=x", "rank=8", "r=8,r=9", "r=", "r=8,,targets=a"])
def test_what_describes_no_adapters_is_named(text):
    with pytest.raises(UnreadableFact, match="adapters"):
        parsed(text)


def test_a_weight_gets_two_matrices():
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 2,
        "vocab_size": 96,
    }
    found = tensors_with(Model("", config), Adapters(4, ("down_proj",)))
    trained = [(one.name.rpartition("mlp.")[2], one.size) for one in found if one.is_trained]
    assert trained == [("down_proj.lora_A.default.weight", 4 * 160), ("down_proj.lora_B.default.weight", 64 * 4)] * 2


def test_the_parameters_of_a_run_have_its_adapters():
    facts = gather(Sources(model="Qwen2.5-0.5B"))
    assert {one.is_trained for one in parameters(facts)} == {True}
    assert sum(one.size for one in parameters(facts)) == 494_032_768
    facts = gather(Sources(model="Qwen2.5-0.5B", lora="r=8,targets=q_proj"))
    assert sum(one.size for one in parameters(facts) if not one.is_trained) == 494_032_768
    assert sum(one.size for one in parameters(facts) if one.is_trained) == 24 * 8 * (896 + 896)
    assert parameters(Facts()) == []


def test_a_target_that_no_layer_has_is_named():
    config = {"model_type": "llama", "num_hidden_layers": 2}
    with pytest.raises(NoAdapters, match="c_attn"):
        tensors_with(Model("own", config), Adapters(4, ("c_attn",)))
    with pytest.raises(NoAdapters, match="no default targets for model type olmo"):
        tensors_with(Model("", config | {"model_type": "olmo"}), Adapters(4))


def test_a_model_without_shapes_has_none_with_adapters():
    assert tensors_with(Model("", {"model_type": "own"}), Adapters(4)) == []


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_frameworks_have_the_fields_that_are_read(framework):
    known = tables.load("recipes")["frameworks"][framework]["fields"]
    asked = FRAMEWORKS[framework].adapters
    named = {asked.rank, asked.targets, asked.saved, *filter(None, [asked.all_linear])}
    assert named <= set(known)
    assert set(asked.switches) & set(known)  # of several, some are those of older releases
