"""The launch that the words of a command make, as if a shell script had them."""

from __future__ import annotations

import json

import pytest

from ds_lint.session.command_line import launches_of

CONFIG = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(json.dumps(CONFIG))
    (tmp_path / "train.py").write_text("import deepspeed\n")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["torchrun", "--nproc-per-node", "2", "train.py", "--deepspeed", "ds.json"],
        ["deepspeed", "--num_gpus", "2", "train.py", "--deepspeed_config", "ds.json"],
        ["python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py", "--deepspeed", "ds.json"],
    ],
)
def test_a_launcher_names_the_config_and_the_ranks(command):
    ((launch, paths),) = launches_of(command)
    assert "ds.json" in paths
    assert launch.world_size == 2
    assert launch.document.path == "<command line>"


def test_a_word_with_spaces_stays_one_word():
    named = ["--name", "a b; rm x", "--deepspeed", "ds.json"]
    ((_, paths),) = launches_of(["torchrun", "--nproc-per-node", "2", "train.py", *named])
    assert "ds.json" in paths


def test_a_shell_script_is_read_for_its_launch(project):
    (project / "run.sh").write_text("torchrun --nproc-per-node 4 train.py --deepspeed ds.json\n")
    ((launch, paths),) = launches_of(["bash", "run.sh"])
    assert (launch.world_size, "ds.json" in paths) == (4, True)


@pytest.mark.parametrize("command", [["true"], ["bash", "missing.sh"], ["echo", "torchrun"]])
def test_a_command_without_a_launch(command):
    assert launches_of(command) == []
