"""Configs that a training framework ships, which a word names: ``swift sft --deepspeed zero3``."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from command_line import write_into
from newest import FLAGS

from ds_lint.frameworks import FRAMEWORKS
from ds_lint.knowledge import tables
from ds_lint.knowledge.presets import preset, preset_changes, release_of, words_of
from ds_lint.targets.pin import Pin
from tools.extract.presets import extract

GRPO = """\
CUDA_VISIBLE_DEVICES=0,1,2,3,4,5 NPROC_PER_NODE=6 \\
swift rlhf \\
  --rlhf_type grpo \\
  --model models/qwen3b \\
  --train_type full --torch_dtype bfloat16 \\
  --per_device_train_batch_size 2 --gradient_accumulation_steps 8 \\
  --deepspeed zero3 --output_dir out
"""
RECIPE = """\
model: Qwen/Qwen3-4B
tuner_type: lora
quant_method: bnb
quant_bits: 4
per_device_train_batch_size: 1
deepspeed: zero3
"""


@pytest.fixture
def write(tmp_path):
    into = write_into(tmp_path)
    return lambda name, text: into({name: text})


def values(run, path, *options):
    """The values of a config by ``effective``, and where each comes from."""
    found = json.loads(run("effective", path, "--output-format", "json", *options).stdout)
    return {one["key"]: (one["value"], one["source"]) for one in found["values"]}


def findings(run, *arguments):
    found = json.loads(run("check", ".", "--output-format", "json", *arguments).stdout)["findings"]
    starts = [one["span"]["start"] for one in found]
    return [
        (one["code"], one["key"], one["path"], start["line"], start["column"])
        for one, start in zip(found, starts, strict=True)
    ]


# ----------------------------------------------------------------------------------------------- the config of a launch


def test_a_word_is_the_config_with_the_ranks_of_the_launch(run, write):
    write("grpo.sh", GRPO)
    report = json.loads(run("check", ".", "--output-format", "json", *FLAGS).stdout)
    (file,) = report["files"]
    assert file["path"].endswith("grpo.sh")
    assert file["stack"] == "trainer"
    assert file["facts"]["world size"].startswith("6, ")


def test_the_config_is_that_of_the_newest_release_with_what_the_trainer_sets(run, write):
    write("grpo.sh", GRPO)
    found = values(run, "grpo.sh")
    assert found["zero_optimization.stage"][0] == 3
    assert found["zero_optimization.overlap_comm"] == (False, "default of ms-swift 4.6.0")
    # GRPOConfig.__post_init__ in swift/rlhf_trainers/arguments.py
    assert found["zero_optimization.stage3_prefetch_bucket_size"][0] == 0


def test_a_pin_gives_the_config_of_its_release(run, write):
    write("run.sh", GRPO.replace("rlhf \\\n  --rlhf_type grpo", "sft"))
    write("requirements.txt", "ms-swift==3.0.0\n")
    found = values(run, "run.sh")
    assert found["zero_optimization.overlap_comm"] == (True, "default of ms-swift 3.0.0")
    assert found["scheduler.type"][0] == "WarmupCosineLR"


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("swift sft --model x --quant_method bnb --quant_bits 4 --deepspeed zero3\n", (1, 67)),
        ("swift sft --model x --quant_method bnb \\\n  --deepspeed   zero3\n", (2, 17)),
        ("DS=zero3\nswift sft --model x --quant_method bnb --deepspeed $DS\n", (1, 4)),
        ("# not zero3.json\nswift sft --model zero3 --quant_method bnb --deepspeed=zero3\n", (2, 56)),
    ],
)
def test_findings_are_at_the_word_that_names_the_config(run, write, command, place):
    write("run.sh", command)
    (found,) = [one for one in findings(run) if one[0] == "DS352"]
    assert found[1:] == ("zero_optimization.stage", "./run.sh", *place)


def test_findings_of_a_recipe_are_at_its_word(run, write):
    write("a.yaml", RECIPE)
    assert findings(run) == [("DS352", "zero_optimization.stage", "./a.yaml", 6, 12)]
    assert values(run, "a.yaml")["zero_optimization.stage"] == (3, "default of ms-swift 4.6.0")


def test_what_the_framework_writes_anyway_is_no_finding(run, write):
    """`offload_param.pin_memory` without a device, `loss_scale_window` with bf16, and the like."""
    for word in words_of("ms-swift", "4.6.0"):
        write(
            f"{word}.sh",
            f"NPROC_PER_NODE=4 swift sft --model x --torch_dtype bfloat16 --bf16 true --deepspeed {word}\n",
        )
    assert findings(run, "--select", "ALL") == []


@pytest.mark.parametrize(
    ("flag", "key", "value"),
    [
        ("--zero_hpz_partition_size 4", "zero_optimization.zero_hpz_partition_size", 4),
        ("--deepspeed_autotp_size 2", "tensor_parallel.autotp_size", 2),
        ("--rlhf_type grpo", "zero_optimization.stage3_prefetch_bucket_size", 0),
    ],
)
def test_flags_that_become_keys(run, write, flag, key, value):
    write("run.sh", f"swift rlhf --model x --deepspeed zero3 {flag}\n")
    assert values(run, "run.sh")[key][0] == value


@pytest.mark.parametrize("command", ["memory", "effective", "convert"])
def test_commands_take_the_script(run, write, command):
    write("run.sh", "NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-0.5B --deepspeed zero3 --bf16 true\n")
    options = {"convert": ["--to", "fsdp"]}.get(command, [])
    done = run(command, "run.sh", *options)
    assert done.returncode == 0, done.stderr
    assert ("ZeRO stage 3" if command == "memory" else "stage" if command == "effective" else "FSDP") in done.stdout


def test_launches_and_files_name_the_framework(run, write):
    write("grpo.sh", GRPO)
    assert "6 ranks, DeepSpeed config zero3 of ms-swift" in run("check", ".", "--show-launches").stdout
    assert "a command names `zero3`, a config of ms-swift" in run("check", ".", "--show-files").stdout


# --------------------------------------------------------------------------------------------------- Accelerate's YAML


def test_trl_names_a_yaml_of_accelerate(run, write):
    write("run.sh", "trl sft --model_name_or_path x --accelerate_config zero1 --gradient_accumulation_steps 4\n")
    (found,) = findings(run)  # as the Trainer raises ValueError, run with transformers 5.24 and accelerate 1.15
    assert found == ("DS610", "gradient_accumulation_steps", "./run.sh", 1, 52)


@pytest.mark.parametrize(
    ("flags", "ranks"), [("", "8 ranks"), (" --num_processes 2", "2 ranks"), (" --num_processes $N", "ranks unknown")]
)
def test_ranks_are_those_of_the_yaml_unless_a_flag_has_others(run, write, flags, ranks):
    write("run.sh", f"trl sft --model_name_or_path x --accelerate_config zero2{flags}\n")
    assert ranks in run("check", ".", "--show-launches").stdout


# ------------------------------------------------------------------------------------------------------- unknown words


@pytest.mark.parametrize(
    ("pin", "rejected", "taken"),
    [
        # One of older releases may be installed.
        ("", ("zero4",), ("zero3", "default-zero3", "zero3.json", "conf/zero4")),
        ("ms-swift==4.6.0", ("default-zero3",), ("zero3",)),
        ("ms-swift==2.6.1", ("zero3",), ("default-zero3",)),
        ("ms_swift[all]>=3.8", (), ("zero1",)),
        ("ms-swift==99.0", (), ("zero4",)),  # a release that is not known
    ],
)
def test_words_that_are_no_names(run, write, pin, rejected, taken):
    words = [*rejected, *taken]
    write("run.sh", "".join(f"swift sft --model x --bf16 true --deepspeed {word}\n" for word in words))
    write("requirements.txt", f"{pin}\n")
    assert {words[one[3] - 1] for one in findings(run) if one[0] == "DS674"} == set(rejected)


def test_ms_swift_rejects_other_words():
    """``json_parse_to_dict`` in swift/utils/utils.py: it reads a word that names no file as JSON."""
    with pytest.raises(json.JSONDecodeError):
        json.loads("zero4")
    with pytest.raises(json.JSONDecodeError):
        json.loads("")  # what json_repair makes of a word, in releases since 3.7


# ------------------------------------------------------------------------------------------------------------ the store


def test_each_run_of_a_config_differs_from_the_one_before():
    for store in tables.load("presets")["frameworks"].values():
        for record in store["presets"].values():
            runs = [one["is"] for one in record.get("runs", [record])]
            assert all(one != other for one, other in pairwise(runs))


def test_the_release_of_a_pin():
    assert release_of("ms-swift", Pin("ms-swift", ">=3.0,<3.2", "x")) == "3.1.1"
    assert release_of("ms-swift", None, "default-zero2") == "2.6.1"
    assert release_of("HfArgumentParser", None) is None
    assert preset("ms-swift", "zero1", "3.0.0") is None
    assert ("zero_optimization", "zero_hpz_partition_size") in preset_changes("ms-swift", "3.12.0")


SOURCE = """
class SftArguments:
    def _init_deepspeed(self):
        if self.deepspeed:
            deepspeed_mapping = {name: f"{name}.json" for name in ["zero1", "zero9"]}
            if self.zero_hpz_partition_size is not None:
                self.deepspeed["zero_optimization"]["zero_hpz_partition_size"] = self.zero_hpz_partition_size
            self.deepspeed.setdefault("tensor_parallel", {})["autotp_size"] = 2
            self.deepspeed["a"] = {"b": 1}
"""


def test_what_is_read_off_a_release(tmp_path):
    folder = tmp_path / "swift" / "config"
    folder.mkdir(parents=True)
    (tmp_path / "swift" / "arguments.py").write_text(SOURCE)
    (folder / "zero1.json").write_text('{"a": 1}')
    with pytest.raises(LookupError, match=r"there is no zero9\.json"):
        extract(FRAMEWORKS["ms-swift"], tmp_path, "4.0.0")
    (folder / "zero9.json").write_text("{}")
    assert extract(FRAMEWORKS["ms-swift"], tmp_path, "4.0.0") == {
        "presets": {"zero1": {"is": {"a": 1}}, "zero9": {"is": {}}},
        "changes": {
            "zero_optimization.zero_hpz_partition_size": {
                "value": "zero_hpz_partition_size",
                "only_if": ["deepspeed", "zero_hpz_partition_size is not None"],
            },
            "tensor_parallel.autotp_size": {"value": "2", "only_if": ["deepspeed"]},
            "a.b": {"value": "1", "only_if": ["deepspeed"]},
        },
    }
