"""What happens to the name of no file: DS881 claims that the run stops, DS882 that `deepspeed` goes on alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("deepspeed")

from installed import measured_with_the_newest

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

TRAINER = 'from transformers import TrainingArguments\nTrainingArguments("out", deepspeed="no.json", use_cpu=True)\n'
INITIALIZE = """\
import deepspeed, torch
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # would be compiled
model = torch.nn.Linear(2, 2)
deepspeed.initialize(config="no.json", model=model, model_parameters=model.parameters())
"""
ACCELERATOR = 'from accelerate import DeepSpeedPlugin\nDeepSpeedPlugin(hf_ds_config="no.json")\n'
RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}  # a free one


def program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def ended(folder: Path, *command: str, **variables: str) -> tuple[int, str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": "", **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (TRAINER, "ValueError: Expected a string path to an existing deepspeed config, or a dictionary, or a base64"),
        (INITIALIZE, "ValueError: Expected a string path to an existing deepspeed config, or a dictionary or a valid"),
        (
            ACCELERATOR,
            "ValueError: Expected a string path to an existing deepspeed config, or a dictionary, or a base64",
        ),
    ],
)
def test_no_config(tmp_path: Path, script: str, error: str) -> None:
    (tmp_path / "train.py").write_text(script)
    status, text = ended(tmp_path, sys.executable, "train.py", **RANK)
    assert status != 0
    assert error in text


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (["torchrun", "--nproc_per_node", "1", "no.py"], "can't open file"),
        pytest.param(["deepspeed", "--num_gpus", "1", "no.py"], "can't open file", marks=pytest.mark.long),
        pytest.param(["accelerate", "launch", "--cpu", "no.py"], "can't open file", marks=pytest.mark.long),
        (
            ["accelerate", "launch", "--config_file", "no.yaml", "no.py"],
            "FileNotFoundError: The passed configuration file `no.yaml` does not exist.",
        ),
    ],
)
def test_no_script_and_no_yaml(tmp_path: Path, command: list[str], error: str) -> None:
    name, *words = command
    status, text = ended(tmp_path, program(name), *words)
    assert status != 0
    assert error in text


def test_no_hostfile(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text('import os\nprint("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])\n')
    status, text = ended(tmp_path, program("deepspeed"), "--hostfile", "no", "--num_gpus", "1", "train.py")
    assert status == 0
    assert "Unable to find hostfile, will proceed with training with local resources only." in text
    assert "rank 0 of 1" in text
