"""A recipe that a launch starts with counts as the launch has it: its ranks, its fields, and what the words set."""

from __future__ import annotations

import json
import subprocess

import pytest
from command_line import write_into

CONFIG = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": 8,
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2},
}
OF_LLAMA_FACTORY = """\
model_name_or_path: Qwen/Qwen3-4B
stage: sft
finetuning_type: lora
template: qwen3
deepspeed: conf/ds.json
per_device_train_batch_size: 2
gradient_accumulation_steps: {}
bf16: true
"""
OF_AXOLOTL = """\
base_model: Qwen/Qwen3-4B
micro_batch_size: 2
sequence_len: 2048
gradient_accumulation_steps: {}
deepspeed: conf/ds.json
"""
OF_SWIFT = """\
model: Qwen/Qwen3-4B
tuner_type: lora
per_device_train_batch_size: 2
gradient_accumulation_steps: {}
deepspeed: conf/ds.json
"""
OF_TRL = """\
model_name_or_path: Qwen/Qwen3-4B
per_device_train_batch_size: 2
gradient_accumulation_steps: {}
num_train_epochs: 1
save_steps: 100
deepspeed: conf/ds.json
"""
RECIPES = {
    "llamafactory-cli train a.yaml": OF_LLAMA_FACTORY,
    "FORCE_TORCHRUN=1 NPROC_PER_NODE=2 lmf train a.yaml": OF_LLAMA_FACTORY,
    "torchrun --nproc_per_node 2 src/train.py a.yaml": OF_LLAMA_FACTORY,
    "axolotl train a.yaml": OF_AXOLOTL,
    "axolotl train a.yaml --launcher torchrun -- --nproc_per_node=4": OF_AXOLOTL,
    "accelerate launch -m axolotl.cli.train a.yaml": OF_AXOLOTL,
    "python -m axolotl.cli.train a.yaml": OF_AXOLOTL,
    "swift sft a.yaml": OF_SWIFT,
    "swift sft --config a.yaml": OF_SWIFT,
    "trl sft --config a.yaml": OF_TRL,
    "accelerate launch --num_processes 4 scripts/run_sft.py --config a.yaml": OF_TRL,
    "python train.py a.yaml": OF_TRL,
}
OVERRIDES = {
    "llamafactory-cli train a.yaml gradient_accumulation_steps=8": OF_LLAMA_FACTORY,
    "axolotl train a.yaml --gradient-accumulation-steps 8": OF_AXOLOTL,
    "accelerate launch -m axolotl.cli.train a.yaml --gradient_accumulation_steps=8": OF_AXOLOTL,
    "swift sft a.yaml --gradient_accumulation_steps 8": OF_SWIFT,
    "trl sft --config a.yaml --gradient_accumulation_steps=8": OF_TRL,
}


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def findings(run, *arguments):
    return json.loads(run("check", *arguments, "--output-format", "json").stdout)["findings"]


def mismatches(run, *arguments):
    return [one for one in findings(run, *arguments) if one["code"] == "DS610"]


def places(finding):
    return [(place["path"], place["span"]["start"]["line"]) for place in finding["related"]]


@pytest.mark.parametrize("launch", RECIPES)
def test_the_recipe_of_a_launch_has_the_arguments(run, write, launch):
    write({"conf/ds.json": CONFIG, "a.yaml": RECIPES[launch].format(2), "run.sh": f"{launch}\n"})
    (finding,) = mismatches(run, ".")
    assert finding["path"] == "./conf/ds.json"
    assert "./a.yaml" in [path for path, _ in places(finding)]
    write({"a.yaml": RECIPES[launch].format(8)})
    assert mismatches(run, ".") == []


@pytest.mark.parametrize("launch", OVERRIDES)
def test_what_the_command_line_sets_wins_over_the_recipe(run, write, launch):
    write({"conf/ds.json": CONFIG, "a.yaml": OVERRIDES[launch].format(2), "run.sh": f"{launch}\n"})
    assert mismatches(run, ".") == []
    write({"run.sh": f"set -e\n{launch[:-1]}4\n"})
    (finding,) = mismatches(run, ".")
    assert "have 4 (./run.sh:2)" in finding["message"]
    assert ("./run.sh", 2) in places(finding)


def test_launches_of_one_recipe_are_told_apart(run, write):
    launch = "llamafactory-cli train a.yaml gradient_accumulation_steps={}\n"
    write({"conf/ds.json": CONFIG, "a.yaml": OF_LLAMA_FACTORY.format(2)})
    write({"good.sh": launch.format(8), "bad.sh": launch.format(4)})
    (finding,) = mismatches(run, ".")
    assert [path for path, _ in places(finding) if path.endswith(".sh")] == ["./bad.sh"]


def test_the_ranks_of_the_launch_and_the_arguments_of_the_recipe_make_the_batch(run, write):
    config = {**CONFIG, "train_batch_size": 48}
    launch = "NNODES=2 NPROC_PER_NODE={} llamafactory-cli train a.yaml\n"
    write({"conf/ds.json": config, "a.yaml": OF_LLAMA_FACTORY.format(8), "run.sh": launch.format(2)})
    (finding,) = mismatches(run, ".")
    assert "64" in finding["message"]
    assert {path for path, _ in places(finding)} == {"./a.yaml", "./run.sh"}
    write({"conf/ds.json": {**config, "train_batch_size": 64}})
    assert findings(run, ".") == []


def test_a_config_that_a_recipe_holds_knows_the_ranks(run, write):
    recipe = OF_TRL.format(1).replace(
        "deepspeed: conf/ds.json", "deepspeed:\n  train_batch_size: 12\n  zero_optimization: {stage: 2}"
    )
    write({"a.yaml": recipe, "run.sh": "torchrun --nproc_per_node 4 train.py a.yaml\n"})
    assert "12" in mismatches(run, ".")[0]["message"]
    write({"run.sh": "torchrun --nproc_per_node 6 train.py a.yaml\n"})
    assert mismatches(run, ".") == []


def test_a_recipe_without_a_config_goes_with_the_one_that_accelerate_names(run, write):
    """As the recipes of alignment-handbook do."""
    yaml = "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  deepspeed_config_file: conf/ds.json\n"
    recipe = OF_TRL.format(2).replace("deepspeed: conf/ds.json\n", "")
    launch = "accelerate launch --config_file acc/z2.yaml scripts/sft.py --config recipes/a.yaml"
    write({"conf/ds.json": CONFIG, "acc/z2.yaml": yaml, "recipes/a.yaml": recipe, "run.sh": f"{launch}\n"})
    (finding,) = mismatches(run, ".")
    assert {path for path, _ in places(finding)} == {"./recipes/a.yaml", "./run.sh"}
    write({"run.sh": f"{launch} --gradient_accumulation_steps=8\n"})
    assert mismatches(run, ".") == []


def test_a_config_that_is_named_alone_is_checked_with_recipe_and_launch(run, write, tmp_path):
    write({"conf/ds.json": CONFIG, "a.yaml": OF_LLAMA_FACTORY.format(2)})
    assert mismatches(run, "conf/ds.json") == []
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (finding,) = mismatches(run, "conf/ds.json")
    assert places(finding) == [("./a.yaml", 7)]
    write({"run.sh": "llamafactory-cli train a.yaml gradient_accumulation_steps=8\n"})
    assert mismatches(run, "conf/ds.json") == []


@pytest.mark.parametrize(
    "launch",
    [
        "python train.py a.yaml --fold 3",  # HfArgumentParser takes the file as its only word
        "python train.py --options a.yaml",
        "axolotl train a.yaml --sweep sweep.yaml",
        "llamafactory-cli export a.yaml",
        "python train.py other.yaml",
    ],
)
def test_what_may_be_no_recipe_of_the_launch_is_not_taken_for_one(run, write, launch):
    recipe = OF_TRL.format(2).replace("deepspeed: conf/ds.json\n", "")
    write({"conf/ds.json": CONFIG, "a.yaml": recipe, "run.sh": f"{launch} --deepspeed conf/ds.json\n"})
    assert mismatches(run, ".") == []


def test_an_unknown_value_of_the_command_line_is_unknown(run, write):
    launch = "llamafactory-cli train a.yaml gradient_accumulation_steps=$STEPS\n"
    write({"conf/ds.json": CONFIG, "a.yaml": OF_LLAMA_FACTORY.format(2), "run.sh": launch})
    assert mismatches(run, ".") == []


def test_a_field_of_the_command_line_that_the_framework_rejects_has_its_place(run, write):
    launch = "llamafactory-cli train a.yaml use_galore=true\n"
    write({"conf/ds.json": CONFIG, "a.yaml": OF_LLAMA_FACTORY.format(8).replace("lora", "full"), "run.sh": launch})
    (finding,) = findings(run, ".")
    assert (finding["code"], finding["path"], finding["span"]["start"]["line"]) == ("DS670", "./a.yaml", 5)
    assert ("./run.sh", 1) in places(finding)
