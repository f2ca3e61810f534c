"""Training runs on the GPUs of this machine: what a CPU cannot show."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest
from command_line import ROOT, clean_environment

from tools.gpu.part import SHARES
from tools.gpu.setting import BAD


def gpus():
    """How many GPUs torch sees, asked elsewhere: no rank is to inherit CUDA."""
    if shutil.which("nvidia-smi") is None:  # asking torch takes seconds
        return 0
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("deepspeed") is None:
        return 0
    count = "import torch; print(torch.cuda.device_count())"
    asked = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=False)
    return int(asked.stdout) if asked.returncode == 0 else 0


GPUS = gpus()
pytestmark = [pytest.mark.fidelity, pytest.mark.gpu, pytest.mark.skipif(GPUS == 0, reason="takes a CUDA GPU")]

ADAMW = {"type": "AdamW", "params": {"lr": 1e-3}}
BF16 = {"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}, "optimizer": ADAMW}
GATHER = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}


@pytest.mark.parametrize("name", SHARES)
def test_a_part_of_what_is_measured_on_a_gpu(name, tmp_path):
    """All of it, and nothing is as it should not be: what ``tools/gpu/run`` does in the minutes that it has."""
    command = [os.path.join(ROOT, "tools", "gpu", "run"), "--out", str(tmp_path), "--minutes", "10", "--only", name]
    done = subprocess.run(
        command, env={**clean_environment(), "PYTHON": sys.executable}, capture_output=True, text=True, check=False
    )
    content = json.loads((tmp_path / f"{name}.json").read_text())
    bad = {
        item["name"]: item.get("not_passed", item.get("error")) for item in content["items"] if item["status"] in BAD
    }
    assert (done.returncode, bad, content["left_out"]) == (0, {}, []), done.stdout


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Makes the runs of a config, and returns them as the report has them."""
    monkeypatch.chdir(tmp_path)

    def run(config, *options):
        (tmp_path / "config.json").write_text(json.dumps(config))
        command = [sys.executable, "-m", "ds_lint", "check", "config.json", "--smoke", "--output-format", "json"]
        ended = subprocess.run(
            [*command, *options], env=clean_environment(), capture_output=True, text=True, timeout=600, check=False
        )
        assert ended.returncode in (0, 1), ended.stderr
        return json.loads(ended.stdout)["smoke"]

    return run


def on_gpu(runs):
    (found,) = (one for one in runs if one["mode"] == "cuda-nccl")
    return found


def of(run, id):
    return [check["status"] for check in run["checks"] if check["id"] == id]


def test_the_cpu_proves_sharding_and_the_gpu_the_rest(run):
    runs = run(BF16 | {"zero_optimization": GATHER})
    assert [one["mode"] for one in runs] == ["cpu-gloo", "cuda-nccl"]
    assert [one["status"] for one in runs] == ["pass", "pass"]
    assert on_gpu(runs)["world_size"] == GPUS
    assert all(size > 0 for size in on_gpu(runs)["peak_bytes"])


@pytest.mark.skipif(GPUS != 1, reason="several GPUs share")
def test_one_gpu_does_not_prove_sharding(run):
    made = on_gpu(run(BF16 | {"zero_optimization": {"stage": 2}}, "--smoke-device", "cuda"))
    (check,) = (one for one in made["checks"] if one["id"] == "parameters")
    assert check["status"] == "skip"
    assert check["message"].endswith("see the run on CPU ranks")


@pytest.mark.skipif(GPUS < 2, reason="takes two GPUs")
def test_several_gpus_do(run):
    made = on_gpu(run(BF16 | {"zero_optimization": GATHER}, "--smoke-device", "cuda"))
    assert of(made, "parameters") == ["pass"]
    assert of(made, "master-weights") == ["pass"]
    assert len(made["peak_bytes"]) == GPUS


def test_torchrun_takes_the_gpus(run):
    launcher = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node {GPUS}"
    (made,) = run(BF16 | {"zero_optimization": GATHER}, "--smoke-launch", launcher)
    assert (made["mode"], made["world_size"], made["status"]) == ("cuda-nccl", GPUS, "pass")
