"""``ds-lint check`` knows a launch in a script as the script that calls it does."""

from __future__ import annotations

import json
import subprocess

import pytest
from command_line import write_into

CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "zero_optimization": {"stage": 2},
}
PROJECT = {
    "ds.json": CONFIG,
    "train.py": "import deepspeed\n",
    "inner.sh": "deepspeed --num_gpus ${1:-2} train.py --deepspeed_config ds.json\n",
    "run.sh": "export CUDA_VISIBLE_DEVICES=2\nbash inner.sh 1\n",
}


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def shown(run, *arguments):
    launches = json.loads(run("check", "--show-launches", "--output-format", "json", *arguments).stdout)["launches"]
    return [(one["path"], one["line"], one["world_size"]) for one in launches]


@pytest.mark.parametrize("named", [".", "ds.json"])
def test_the_variables_of_the_caller_count(run, write, tmp_path, named):
    """DS833: ``deepspeed --num_gpus`` runs on GPU 0, whatever the caller exports."""
    write(PROJECT)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    found = json.loads(run("check", named, "--select", "DS833", "--output-format", "json").stdout)["findings"]
    assert [(one["path"].removeprefix("./"), one["code"]) for one in found] == [("inner.sh", "DS833")]


def test_a_script_that_is_called_is_listed_once(run, write):
    write(PROJECT)
    assert shown(run) == [("inner.sh", 1, 1)]
    assert "called in run.sh" in run("check", "--show-launches").stdout


def test_two_callers_are_two_launches(run, write):
    write({**PROJECT, "other.sh": "./inner.sh 4\n"})
    assert shown(run) == [("inner.sh", 1, 4), ("inner.sh", 1, 1)]


def test_a_script_that_is_submitted_counts_by_itself_too(run, write):
    write({**PROJECT, "inner.sh": "#!/bin/bash\n#SBATCH --nodes=1\n" + PROJECT["inner.sh"]})
    assert sorted(shown(run)) == [("inner.sh", 3, 1), ("inner.sh", 3, 2)]


def test_a_script_in_another_folder_is_found(run, write):
    project = {"ds.json": CONFIG, "train.py": "import deepspeed\n"}
    write({**project, "scripts/inner.sh": PROJECT["inner.sh"], "scripts/run.sh": 'bash "$(dirname "$0")/inner.sh" 3\n'})
    assert shown(run) == [("scripts/inner.sh", 1, 3)]


def test_a_guide_is_listed_and_no_more(run, write):
    write(
        {
            "ds.json": CONFIG,
            "README.md": "```bash\nCUDA_VISIBLE_DEVICES=2 deepspeed --num_gpus 1 train.py --deepspeed ds.json\n```\n",
        }
    )
    assert shown(run) == [("README.md", 2, 1)]
    assert json.loads(run("check", ".", "--select", "DS833", "--output-format", "json").stdout)["findings"] == []


def test_an_unknown_launcher_is_null(run, write):
    write({"run.sh": "$LAUNCHER train.py --deepspeed ds.json\n"})
    (launch,) = json.loads(run("check", "--show-launches", "--output-format", "json").stdout)["launches"]
    assert (launch["launcher"], launch["script"], launch["deepspeed_config"]) == (None, "train.py", "ds.json")
    assert "launcher unknown" in run("check", "--show-launches").stdout


def test_the_recipe_is_shown(run, write):
    write({"run.sh": "llamafactory-cli train conf/sft.yaml\n"})
    (launch,) = json.loads(run("check", "--show-launches", "--output-format", "json").stdout)["launches"]
    assert launch["recipe"] == "conf/sft.yaml"
    assert "recipe conf/sft.yaml" in run("check", "--show-launches").stdout
