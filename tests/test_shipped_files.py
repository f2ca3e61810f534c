"""Configs in the repository of a training framework, which recipes and launches name by their paths there."""

from __future__ import annotations

import json
import subprocess

import pytest
from command_line import write_into

from ds_lint.frameworks import FRAMEWORKS
from ds_lint.knowledge.presets import misspelt_file, preset, words_of
from tools.extract.presets import _at_tag, extract

Z3 = "examples/deepspeed/ds_z3_config.json"
BF16 = "deepspeed_configs/zero3_bf16.json"
LLAMA_FACTORY = f"""\
model_name_or_path: Qwen/Qwen2.5-7B
finetuning_type: lora
quantization_bit: 4
template: qwen
bf16: true
deepspeed: {Z3}
"""
AXOLOTL = f"""\
base_model: Qwen/Qwen2.5-7B
sequence_len: 2048
micro_batch_size: 1
adapter: qlora
load_in_4bit: true
deepspeed: {BF16}
"""
COMMAND = f"""\
llamafactory-cli train --finetuning_type lora --quantization_bit 4 \\
  --model_name_or_path x --deepspeed {Z3}
"""


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def findings(run, *arguments):
    report = json.loads(run("check", ".", "--output-format", "json", *arguments).stdout)
    return [
        (one["code"], one["key"], one["path"], one["span"]["start"]["line"], one["span"]["start"]["column"])
        for one in report["findings"]
    ]


def test_findings_are_at_the_path_that_names_the_config(run, write):
    axolotl = f"axolotl train none.yaml --fp16 true --bf16 false --deepspeed {BF16}\n"
    write({"a.yaml": LLAMA_FACTORY, "b.yaml": AXOLOTL, "c.sh": COMMAND, "d.sh": axolotl})
    assert [one for one in findings(run) if one[0] != "DS881"] == [
        ("DS352", "zero_optimization.stage", "./a.yaml", 6, 12),
        ("DS352", "zero_optimization.stage", "./b.yaml", 6, 12),
        ("DS352", "zero_optimization.stage", "./c.sh", 2, 38),
        ("DS612", "bf16.enabled", "./d.sh", 1, 62),
    ]


def test_a_script_that_is_elsewhere_shows_its_framework_in_a_flag(run, write):
    write({"run.sh": COMMAND.replace("llamafactory-cli train", "torchrun --nproc_per_node 2 src/train.py")})
    assert findings(run) == [("DS352", "zero_optimization.stage", "./run.sh", 2, 38)]


def test_the_launch_of_a_recipe_counts(run, write):
    write({"a.yaml": LLAMA_FACTORY, "run.sh": "NPROC_PER_NODE=4 FORCE_TORCHRUN=1 llamafactory-cli train a.yaml\n"})
    assert findings(run) == [("DS352", "zero_optimization.stage", "./a.yaml", 6, 12)]


def test_the_help_says_where_the_config_is(run, write):
    write({"a.yaml": LLAMA_FACTORY})
    (found,) = json.loads(run("check", ".", "--output-format", "json").stdout)["findings"]
    says = f"`{Z3}` is a config in the repository of LLaMA-Factory 0.9.5, not in the project: name a copy of it"
    assert says in found["help"]
    assert "not found" not in run("check", "a.yaml").stderr


def test_a_pin_gives_the_config_of_its_release(run, write):
    """axolotl 0.12.0 wrote keys of stage 3 under other names."""
    write({"a.yaml": AXOLOTL, "requirements.txt": "axolotl==0.11.0\n"})
    before = run("effective", "a.yaml").stdout
    write({"requirements.txt": "axolotl==0.12.0\n"})
    after = run("effective", "a.yaml").stdout
    assert "zero_optimization.stage3_max_live_parameters = 0 " in before
    assert "zero_optimization.max_live_parameters = 0 " in after
    assert "axolotl 0.11.0" in before


def test_the_config_of_a_release_that_is_not_known_is_not_checked(run, write):
    """The tags before 0.9.4 lost their JSON when the repository was rewritten, and no archive has it."""
    write({"a.yaml": LLAMA_FACTORY, "requirements.txt": "llamafactory==0.9.3\n"})
    assert not {one[0] for one in findings(run)} & {"DS352", "DS674", "DS881"}


def test_a_release_without_the_config_is_no_finding(run, write):
    """``axolotl fetch deepspeed_configs`` brings those of the main branch, whatever is installed."""
    write({"a.yaml": AXOLOTL.replace("zero3_bf16", "zero1_torch_compile"), "requirements.txt": "axolotl==0.6.0\n"})
    assert not {one[0] for one in findings(run)} & {"DS674", "DS881"}


@pytest.mark.parametrize("folder", ["", "LLaMA-Factory/"])
def test_a_file_of_the_project_comes_first(run, write, folder):
    stage_2 = (
        '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto"}'
    )
    write({"recipes/a.yaml": LLAMA_FACTORY, "run.sh": COMMAND, f"{folder}{Z3}": stage_2})
    assert findings(run) == []


def test_a_misspelt_path_is_absent(run, write):
    near = ["ds_z4_config", "ds_z3_confg"]
    variants = ["ds_z3_config_mine", "large"]  # which may lie in the user's clone
    for stem in (*near, *variants):
        path = f"examples/deepspeed/{stem}.json"
        write({f"{stem}.yaml": LLAMA_FACTORY.replace(Z3, path), f"{stem}.sh": COMMAND.replace(Z3, path)})
    report = json.loads(run("check", ".", "--output-format", "json").stdout)
    helps = {one["path"]: one["help"] for one in report["findings"] if one["code"] == "DS881"}
    assert set(helps) == {f"./{stem}.{ending}" for stem in near for ending in ("sh", "yaml")}
    assert all(one.startswith(f"Did you mean {Z3}?") for one in helps.values())
    assert "DS352" not in {one["code"] for one in report["findings"]}


def test_no_word_names_a_config_of_a_repository(run, write):
    write({"a.yaml": AXOLOTL.replace(BF16, "zero3")})
    assert "DS674" not in {one[0] for one in findings(run)}


def test_what_is_not_near():
    assert misspelt_file("LLaMA-Factory", Z3) == ""
    assert misspelt_file("LLaMA-Factory", f"./{Z3}") == ""
    assert misspelt_file("TRL", "deepspeed_configs/zero4.json") == ""
    assert misspelt_file("axolotl", "deepspeed_configs/zero3_bf16_cpuofload_all.json") == (
        "deepspeed_configs/zero3_bf16_cpuoffload_all.json"
    )


def test_the_frameworks_write_nothing_that_is_a_finding_without_facts_of_the_recipe(run, write):
    """But for `compile`, which DeepSpeed rejects since 0.14.4."""
    ends = {
        "axolotl": AXOLOTL.replace("load_in_4bit: true", "bf16: true").replace("qlora", "lora"),
        "LLaMA-Factory": LLAMA_FACTORY.replace("quantization_bit: 4\n", ""),
    }
    for framework, release in (("axolotl", "0.21.0"), ("LLaMA-Factory", "0.9.5")):
        for number, path in enumerate(words_of(framework, release)):
            text = ends[framework].replace(BF16, path).replace(Z3, path)
            write(
                {
                    f"{framework}{number}.yaml": text.replace(
                        "micro_batch_size: 1\n", "micro_batch_size: 1\nadapter: lora\n"
                    )
                }
            )
    assert {one[0] for one in findings(run)} <= {"DS101"}


def test_what_is_read_off_a_repository(tmp_path):
    folder = tmp_path / "deepspeed_configs"
    folder.mkdir()
    (folder / "zero9.json").write_text('{"a": 1}')
    assert extract(FRAMEWORKS["axolotl"], tmp_path, "1.0") == {
        "presets": {"deepspeed_configs/zero9.json": {"is": {"a": 1}}}
    }
    (folder / "zero9.json").unlink()
    with pytest.raises(LookupError, match="there is no config"):
        extract(FRAMEWORKS["axolotl"], tmp_path, "1.0")


def test_the_tag_of_a_clone(tmp_path):
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "a.json").write_text("{}")
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], [*name, "commit", "-qm", "a"], ["tag", "v1.0"]):
        subprocess.run(["git", "-C", str(clone), *words], check=True)
    assert [one.name for one in _at_tag(clone, "v1.0", tmp_path / "tag").iterdir()] == ["a.json"]


def test_known_contents():
    assert preset("LLaMA-Factory", Z3, "0.9.4")["zero_optimization"]["stage"] == 3
    assert preset("axolotl", "deepspeed_configs/zero1.json", "0.5.2")["zero_optimization"]["stage"] == 1
