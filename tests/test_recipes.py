"""Recipes of training frameworks: found by content, read as training arguments, linted with the config they name."""

from __future__ import annotations

import json
import os

import pytest
from command_line import write_into
from hypothesis import given
from hypothesis import strategies as st
from linted import lint_bytes
from newest import NEWEST

from ds_lint.facts.argument_values import argument
from ds_lint.facts.training_recipe import TrainingRecipe
from ds_lint.knowledge.keys import knowledge
from ds_lint.project.references import located
from ds_lint.source import documents
from ds_lint.source.recognition import may_be_recipe

LLAMA_FACTORY = """\
model_name_or_path: x
stage: sft
finetuning_type: full
template: llama3
deepspeed: conf/ds.json
gradient_accumulation_steps: 2
learning_rate: 1e-4
bf16: true
"""
AXOLOTL = """\
base_model: x
micro_batch_size: 4
gradient_accumulation_steps: 2
sequence_len: 128
optimizer: adamw_torch
lr_scheduler: rex
learning_rate: 2e-5
bf16: true
deepspeed: conf/ds.json
"""
SWIFT = """\
model: x
train_type: full
per_device_train_batch_size: 1
bf16: true
deepspeed: conf/ds.json
"""
TRL = """\
model_name_or_path: x
dataset_name: y
per_device_train_batch_size: 4
num_train_epochs: 1
lr_scheduler_type: cosine
deepspeed: conf/ds.json
"""
SCRIPT = """\
my_own_field: x
per_device_train_batch_size: 4
num_train_epochs: 1
lr_scheduler_type: cosine
deepspeed: conf/ds.json
"""
CONFIG = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": 4,
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
}
FITTING = {**CONFIG, "gradient_accumulation_steps": "auto"}


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def recipe_of(text, path="recipe.yaml"):
    (document,) = documents.configs_in(text.encode(), path)
    assert document.kind == "recipe"
    return TrainingRecipe(document)


def known(text, name, path="recipe.yaml"):
    """The value of a training argument and where it comes from; None if it is unknown."""
    found = argument(recipe_of(text, path).training, knowledge(), name)
    return None if found is None else (found.value, found.origin)


def reported(run, *arguments):
    """The findings of a check, and its notes."""
    result = run("check", *arguments, "--output-format", "json")
    return json.loads(result.stdout)["findings"], result.stderr


# --------------------------------------------------------------------------------------------- what is a recipe


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        (LLAMA_FACTORY, "LLaMA-Factory"),
        (AXOLOTL, "axolotl"),
        (SWIFT, "ms-swift"),
        (TRL, "TRL"),
        (SCRIPT, "HfArgumentParser"),
    ],
)
def test_a_recipe_is_known_by_its_fields(text, framework):
    assert recipe_of(text).framework == framework


@pytest.mark.parametrize(
    "text",
    [
        LLAMA_FACTORY.replace("deepspeed:", "deepspeed_config:"),  # names none
        LLAMA_FACTORY.replace("conf/ds.json", ""),
        LLAMA_FACTORY.replace("conf/ds.json", "true"),
        f"training:\n  {LLAMA_FACTORY}".replace("\n", "\n  "),  # one level down
        LLAMA_FACTORY + "---\n" + LLAMA_FACTORY,  # two documents
        LLAMA_FACTORY + "x: [1\n",  # not YAML
        "on: push\njobs:\n  test:\n    steps:\n    - run: pip install deepspeed\ndeepspeed: x\n",
        "services:\n  a:\n    image: deepspeed\ndeepspeed: ds.json\nlearning_rate: 1\noutput_dir: x\n",
        "defaults:\n- _self_\ndeepspeed: conf/ds.json\nbatch_size: 1\nlr: 1\nmodel: x\n",
        "apiVersion: v1\nkind: ConfigMap\ndata: {deepspeed: x}\n",
        "site_name: x\nnav:\n- DeepSpeed: a.md\n",
    ],
)
def test_what_is_no_recipe(text):
    assert documents.configs_in(text.encode(), "a.yaml") == []


def test_a_recipe_in_json(run, write):
    fields = {"per_device_train_batch_size": 1, "num_train_epochs": 1, "lr_scheduler_type": "cosine"}
    write(
        {
            "args.json": {**fields, "deepspeed": CONFIG},
            "package.json": {"deepspeed": "1.0", "name": "x", "version": "1"},
        }
    )
    files = json.loads(run("check", "--show-files", "--output-format", "json").stdout)["files"]
    assert [(file["path"], file["kind"], file["why"]) for file in files] == [
        (
            "./args.json",
            "recipe",
            "recipe of HfArgumentParser, has `deepspeed`, `per_device_train_batch_size`, `num_train_epochs`",
        )
    ]
    assert [config["stack"] for config in files[0]["configs"]] == ["trainer"]


def test_what_a_search_finds(run, write):
    write({"recipes/a.yaml": LLAMA_FACTORY, "conf/ds.json": FITTING, "conf/other.yaml": "deepspeed: x\n"})
    files = json.loads(run("check", "--show-files", "--output-format", "json").stdout)["files"]
    assert [(file["path"], file["kind"], [one["stack"] for one in file["configs"]]) for file in files] == [
        ("./conf/ds.json", "deepspeed", ["trainer"]),
        ("./recipes/a.yaml", "recipe", []),
    ]


@given(st.text() | st.from_regex(r"(deepspeed|base_model|micro_batch_size|model)\s*:[^\0]{0,20}\n", fullmatch=True))
def test_any_text_gives_an_answer(text):
    for path in ("a.yaml", "a.json"):
        for document in documents.configs_in(text.encode(errors="replace"), path):
            lint_bytes(document.text.encode(errors="replace"), path)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["auto", "1__0", "1e-5", "${x}", "qlora", ""]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["stage", "enabled"]), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = [
    *(
        "adapter",
        "bf16",
        "deepspeed",
        "fp16",
        "finetuning_type",
        "fsdp",
        "gradient_accumulation_steps",
        "learning_rate",
    ),
    *("load_in_4bit", "lr_scheduler", "micro_batch_size", "optimizer", "plugins", "quant_method", "quantization_bit"),
    *(
        "rl",
        "save_steps",
        "stage",
        "tensor_parallel_size",
        "use_galore",
        "use_muon",
        "weight_decay",
        "zero_optimization",
    ),
]


@given(st.sampled_from([LLAMA_FACTORY, AXOLOTL, SWIFT, TRL, SCRIPT]), st.dictionaries(st.sampled_from(FIELDS), VALUES))
def test_any_values_give_an_answer(text, fields):
    added = "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items())
    lint_bytes(f"{text}{added}".encode(), "a.yaml")
    for document in documents.configs_in(f"{text}{added}".encode(), "a.yaml"):
        TrainingRecipe(document).refusal(3, None)


def test_a_file_of_megabytes_is_not_parsed():
    assert not may_be_recipe(LLAMA_FACTORY.encode() + b"# x\n" * 100_000)


# ------------------------------------------------------------------------------------------- training arguments


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (LLAMA_FACTORY, "gradient_accumulation_steps", (2, "recipe.yaml:6")),
        (LLAMA_FACTORY, "learning_rate", (1e-4, "recipe.yaml:7")),  # a string for PyYAML
        (LLAMA_FACTORY, "weight_decay", (0.0, f"default of transformers {NEWEST['transformers']}")),
        (LLAMA_FACTORY.replace("1e-4", "${lr}"), "learning_rate", None),
        (LLAMA_FACTORY + "field_of_a_fork: 1\n", "weight_decay", None),
        (LLAMA_FACTORY, "remove_unused_columns", None),  # LLaMA-Factory sets it
        (AXOLOTL, "per_device_train_batch_size", (4, "micro_batch_size in recipe.yaml:2")),
        (AXOLOTL, "optim", ("adamw_torch", "optimizer in recipe.yaml:5")),
        (AXOLOTL, "lr_scheduler_type", None),  # rex is one of its own
        (AXOLOTL.replace("rex", "linear"), "lr_scheduler_type", ("linear", "lr_scheduler in recipe.yaml:6")),
        (AXOLOTL.replace("adamw_torch", "muon"), "optim", None),  # one of its own
        (AXOLOTL, "bf16", (True, "recipe.yaml:8")),
        (AXOLOTL, "fp16", (False, "bf16 in recipe.yaml:8")),
        (AXOLOTL.replace("bf16: true", "bf16: auto"), "bf16", None),  # by the GPU
        (AXOLOTL.replace("bf16: true", "bf16: auto"), "fp16", None),
        (AXOLOTL.replace("bf16: true\n", ""), "bf16", None),
        (AXOLOTL.replace("bf16: true", "bf16: false\nfp16: true"), "fp16", (True, "recipe.yaml:9")),
        (AXOLOTL, "weight_decay", (0.0, "default of axolotl")),
        (AXOLOTL, "max_grad_norm", (1.0, f"default of transformers {NEWEST['transformers']}")),
        (AXOLOTL, "warmup_steps", None),  # by the length of the data
        (SWIFT, "adam_beta2", None),  # newer than some releases
        (SWIFT, "weight_decay", (0.1, "default of ms-swift")),
        (SWIFT, "learning_rate", None),  # by the kind of tuning
        (SWIFT, "gradient_accumulation_steps", None),  # by the number of ranks
        (SWIFT, "fp16", None),  # by the dtype of the model
        (TRL, "max_grad_norm", (1.0, f"default of transformers {NEWEST['transformers']}")),
        (TRL, "learning_rate", None),  # by the trainer
        (TRL, "bf16", None),
        (SCRIPT, "per_device_train_batch_size", (4, "recipe.yaml:2")),
        (SCRIPT, "max_grad_norm", None),  # a class of the script may have another default
        (SCRIPT + "learning_rate: 1e-5\n", "learning_rate", None),  # a string that only some parsers convert
    ],
)
def test_training_arguments_and_where_they_come_from(text, name, expected):
    assert known(text, name) == expected


@pytest.mark.parametrize(
    "text",
    [
        LLAMA_FACTORY.replace("stage: sft", "stage: ppo"),
        AXOLOTL + "rl: dpo\n",
        AXOLOTL + "plugins: [my.Plugin]\n",
        AXOLOTL + "tensor_parallel_size: 2\n",
        AXOLOTL + "use_ray: true\n",
        SWIFT + "rlhf_type: grpo\n",
        SWIFT + "zero_hpz_partition_size: 8\n",
        LLAMA_FACTORY + "fp8: true\n",
    ],
)
def test_what_trains_otherwise_tells_nothing(text):
    assert recipe_of(text).training is None
    assert recipe_of(AXOLOTL + "tensor_parallel_size: 1\n").training is not None
    assert recipe_of(AXOLOTL + "plugins: [axolotl.integrations.liger.LigerPlugin]\n").training is not None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (LLAMA_FACTORY + "quantization_bit: 4\n", "quantization_bit"),
        (AXOLOTL + "adapter: qlora\nload_in_4bit: true\n", "load_in_4bit"),
        (AXOLOTL + "load_in_4bit: true\n", None),  # axolotl quantizes for an adapter alone
        (AXOLOTL + "adapter: lora\nload_in_4bit: true\n", None),
        (SWIFT + "quant_method: bnb\nquant_bits: 4\n", "quant_method"),
        (TRL + "load_in_4bit: true\n", "load_in_4bit"),
        (TRL + "load_in_4bit: false\n", None),
        (SCRIPT + "load_in_4bit: true\n", None),  # what a script does with it is unknown
        (LLAMA_FACTORY + "quantization_bit: ${bits}\n", None),
    ],
)
def test_what_quantizes_the_model(text, name):
    quantization = recipe_of(text).quantization
    assert (quantization.name if quantization is not None else None) == name


# ------------------------------------------------------------------------------------------- the config it names


def test_the_config_is_linted_with_the_recipe(run, write):
    text = LLAMA_FACTORY.replace("full", "lora")
    write({"recipes/sft/a.yaml": text + "quantization_bit: 4\n", "conf/ds.json": CONFIG})
    recipe = "recipes/sft/a.yaml"
    for arguments in ((".",), (recipe,), ("conf/ds.json", recipe), ("--detect", recipe)):
        found, _ = reported(run, *arguments)
        assert [(one["code"], os.path.normpath(one["path"])) for one in found] == [
            ("DS610", "conf/ds.json"),
            ("DS352", "conf/ds.json"),
        ]
        assert [(os.path.normpath(place["path"]), place["span"]["start"]["line"]) for place in found[0]["related"]] == [
            ("recipes/sft/a.yaml", 6)
        ]
        assert "a.yaml:6" in found[0]["message"]


def test_options_win(run, write):
    write({"a.yaml": LLAMA_FACTORY, "conf/ds.json": CONFIG})
    assert [one["code"] for one in reported(run, ".")[0]] == ["DS610"]
    assert reported(run, ".", "--trainer-args", "--gradient_accumulation_steps 4 --bf16")[0] == []
    write({"ds-lint.toml": 'trainer-args = "--gradient_accumulation_steps 4 --bf16"\n'})
    assert reported(run, ".")[0] == []
    found, _ = reported(run, ".", "--trainer-args", "--gradient_accumulation_steps 8 --bf16")
    assert ["8" in one["message"] for one in found] == [True]


def test_what_several_recipes_bring_up_is_told_once(run, write):
    write(
        {
            "a.yaml": LLAMA_FACTORY,
            "b.yaml": f"# moved\n{LLAMA_FACTORY}",
            "c.yaml": LLAMA_FACTORY.replace("steps: 2", "steps: 4"),
            "d.yaml": LLAMA_FACTORY.replace("steps: 2", "steps: 8"),
            "conf/ds.json": {**CONFIG, "gradient_cliping": 1},
        }
    )
    found, _ = reported(run, ".")
    assert [(one["code"], "need" in one["message"]) for one in found if one["code"] == "DS101"] == [("DS101", False)]
    unequal = [one for one in found if one["code"] == "DS610"]
    assert [one["message"].partition("but")[2][:32] for one in unequal] == [
        " the training arguments have 2 (",
        " the training arguments have 8 (",
    ]
    assert [place["label"] for place in unequal[0]["related"]] == [
        "gradient_accumulation_steps is 2",
        "named here, and 1 more recipe",
    ]
    assert [one["related"] for one in found if one["code"] == "DS101"] == [[]]


def test_what_only_some_recipes_bring_up_names_them(run, write):
    lora = LLAMA_FACTORY.replace("full", "lora")
    ungathered = {**FITTING, "zero_optimization": {"stage": 3}}
    write({"a.yaml": lora, "b.yaml": LLAMA_FACTORY, "conf/ds.json": ungathered})
    (found,) = reported(run, ".")[0]
    assert found["code"] == "DS703"
    assert [(place["path"], place["label"]) for place in found["related"]] == [("./b.yaml", "named here")]


def test_a_config_that_is_not_found_is_a_note_only_if_the_recipe_is_named(run, write):
    write({"a.yaml": LLAMA_FACTORY})
    assert "names conf/ds.json, which is not found near it" in reported(run, "a.yaml")[1]
    assert reported(run, ".") == ([], "")


def test_of_several_files_none_is_guessed(tmp_path, write, monkeypatch):
    write({"sub/deep/a.yaml": LLAMA_FACTORY, "sub/conf/ds.json": FITTING})
    monkeypatch.chdir(tmp_path)
    assert located("conf/ds.json", "sub/deep/a.yaml") == os.path.normpath("sub/conf/ds.json")
    write({"conf/ds.json": FITTING})
    assert located("conf/ds.json", "sub/deep/a.yaml") is None
    assert located(str(tmp_path / "conf/ds.json"), "sub/deep/a.yaml") == str(tmp_path / "conf/ds.json")


def test_nothing_is_looked_for_above_the_project(tmp_path, write, monkeypatch):
    write({"conf/ds.json": FITTING, "project/sub/a.yaml": LLAMA_FACTORY, "project/.git/HEAD": "x"})
    monkeypatch.chdir(tmp_path / "project" / "sub")
    assert located("conf/ds.json", "a.yaml") is None
    write({"project/conf/ds.json": FITTING})
    assert located("conf/ds.json", "a.yaml") == os.path.normpath("../conf/ds.json")


def test_a_preset_of_ms_swift_is_not_looked_for(run, write):
    write({"a.yaml": SWIFT.replace("conf/ds.json", "zero3"), "zero3": "{}"})
    assert reported(run, "a.yaml") == ([], "")


def test_fixes_are_applied_to_the_config(run, write, tmp_path):
    write({"a.yaml": LLAMA_FACTORY, "conf/ds.json": CONFIG})
    run("check", ".", "--fix")
    assert json.loads((tmp_path / "conf/ds.json").read_text())["gradient_accumulation_steps"] == "auto"
    assert (tmp_path / "a.yaml").read_text() == LLAMA_FACTORY
    assert reported(run, ".")[0] == []


# ------------------------------------------------------------------------------------------- the config it holds

HOLDING = LLAMA_FACTORY.replace(
    " conf/ds.json",
    """
  train_micro_batch_size_per_gpu: auto
  gradient_accumulation_steps: 4
  gradient_cliping: 1
  bf16: {enabled: auto}
  zero_optimization: {stage: 2}
""".rstrip(),
)


def test_a_config_in_a_recipe_is_checked_where_it_stands(run, write):
    write({"a.yaml": HOLDING})
    found, _ = reported(run, ".")
    assert [(one["code"], one["key"], one["span"]["start"]["line"]) for one in found] == [
        ("DS610", "deepspeed.gradient_accumulation_steps", 7),
        ("DS101", "deepspeed.gradient_cliping", 8),
    ]
    assert all(one["fix"] is None for one in found)
    run("check", ".", "--fix", "--unsafe-fixes")
    assert reported(run, ".")[0] == found


def test_a_recipe_in_documentation_is_an_example(run, write):
    named = f"```yaml\n# gradient_clipping\n{LLAMA_FACTORY}```\n"
    held = f"```yaml\n{HOLDING}```\n"
    write({"named.md": named, "held.md": held, "conf/ds.json": CONFIG})
    found, _ = reported(run, "--include-markdown", ".")
    assert [(one["code"], one["path"]) for one in found if one["code"] < "DS3"] == [("DS101", "./held.md")]
    assert all(one["path"] == "./held.md" for one in found)


def test_comments_in_a_recipe_suppress(run, write):
    write({"a.yaml": HOLDING.replace("cliping: 1", "cliping: 1  # ds-lint: ignore[unknown-key]")})
    assert "DS101" not in [one["code"] for one in reported(run, ".")[0]]


def test_effective_shows_the_config_with_the_arguments(run, write):
    write({"a.yaml": LLAMA_FACTORY, "conf/ds.json": FITTING})
    for path in ("a.yaml", "held.yaml"):
        write({"held.yaml": HOLDING.replace("steps: 4\n  gradient_cliping: 1", "steps: auto")})
        assert "gradient_accumulation_steps = 2" in run("effective", path).stdout


# ------------------------------------------------------------------------------------ what the frameworks reject


@pytest.mark.parametrize(
    ("fields", "stage", "is_rejected"),
    [
        ("use_galore: true", 0, True),
        ("use_galore: false", 0, False),
        ("pure_bf16: true", 3, True),
        ("pure_bf16: true", 2, False),
        ("pure_bf16: true", None, False),
        ("predict_with_generate: true", 3, True),
        ("use_kt: true", 3, False),  # older releases have no such field
    ],
)
def test_what_llama_factory_rejects(fields, stage, is_rejected):
    assert (recipe_of(f"{LLAMA_FACTORY}{fields}\n").refusal(stage, None) is not None) == is_rejected


@pytest.mark.parametrize(
    ("text", "is_rejected"),
    [
        (AXOLOTL, False),
        (AXOLOTL.replace("adamw_torch", "muon"), True),
        (AXOLOTL.replace("adamw_torch", "polora"), False),  # unknown to older releases
        (AXOLOTL + "fsdp: [full_shard]\n", True),
    ],
)
def test_what_axolotl_rejects(text, is_rejected):
    assert (recipe_of(text).refusal(2, None) is not None) == is_rejected


def test_the_reason_names_deepspeed_where_one_release_gives_such_a_reason():
    refusal = recipe_of(AXOLOTL + "fsdp: [full_shard]\n").refusal(None, None)
    assert refusal.message == "deepspeed and fsdp cannot be used together."


@pytest.mark.parametrize(
    ("fields", "stage", "codes"),
    [
        ("use_muon: true\n", 3, ["DS671"]),
        ("use_muon: true\n", 2, []),
        ("use_muon: false\n", 3, []),
        ("use_muon: true\ntrain_from_scratch: true\n", 3, []),
        ("use_muon: true\nfinetuning_type: lora\n", 3, []),  # the last one counts
    ],
)
def test_muon_of_llama_factory(run, write, fields, stage, codes):
    config = {**FITTING, "zero_optimization": {**CONFIG["zero_optimization"], "stage": stage}}
    write({"a.yaml": LLAMA_FACTORY + fields, "conf/ds.json": config})
    assert [one["code"] for one in reported(run, ".")[0]] == codes


def test_the_stage_is_that_of_the_named_config(run, write):
    write({"a.yaml": f"{LLAMA_FACTORY}pure_bf16: true\n", "conf/ds.json": FITTING})
    (found,) = reported(run, ".")[0]
    assert (found["code"], found["path"], found["span"]["start"]["line"]) == ("DS670", "./a.yaml", 9)
    write({"conf/ds.json": {**FITTING, "zero_optimization": {"stage": 2}}})
    assert reported(run, ".")[0] == []
