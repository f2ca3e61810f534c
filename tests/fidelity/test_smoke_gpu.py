"""Training runs on the GPUs of this machine: what a CPU cannot show."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest
from command_line import clean_environment


def gpus():
    """How many GPUs torch sees, asked elsewhere: no rank is to inherit CUDA."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("deepspeed") is None:
        return 0
    count = "import torch; print(torch.cuda.device_count())"
    asked = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=False)
    return int(asked.stdout) if asked.returncode == 0 else 0


GPUS = gpus()
pytestmark = [pytest.mark.fidelity, pytest.mark.gpu, pytest.mark.skipif(GPUS == 0, reason="takes a CUDA GPU")]

ADAMW = {"type": "AdamW", "params": {"lr": 1e-3}}
BF16 = {"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}, "optimizer": ADAMW}
FP16 = {"train_micro_batch_size_per_gpu": 2, "optimizer": ADAMW}
GATHER = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
OFFLOAD = {"device": "cpu", "pin_memory": True}


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


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("stack", ["deepspeed", "trainer"])
def test_each_stage_trains_saves_and_resumes(stage, stack, run):
    zero = GATHER if stage == 3 else {"stage": stage}
    made = on_gpu(run(BF16 | {"zero_optimization": zero}, "--smoke-device", "cuda", "--stack", stack))
    assert made["status"] == "pass", made["checks"]
    assert (of(made, "resume"), of(made, "export")) == (["pass"], ["pass"])


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


@pytest.mark.parametrize("stage", [2, 3])
def test_what_is_offloaded_lies_in_pinned_host_memory(stage, run):
    zero = {**(GATHER if stage == 3 else {"stage": 2}), "offload_optimizer": OFFLOAD}
    made = on_gpu(run(BF16 | {"zero_optimization": zero}, "--smoke-device", "cuda"))
    messages = [check["message"] for check in made["checks"] if check["id"] == "offload"]
    assert of(made, "offload") == ["pass", "pass", "pass"], messages
    assert "the host memory of the optimizer is page-locked" in messages


def test_fp16_is_that_of_the_gpu(run):
    made = on_gpu(run(FP16 | {"fp16": {"enabled": True, "initial_scale_power": 8}}, "--smoke-device", "cuda"))
    assert made["status"] == "pass", made["checks"]
    assert not any(one["key"] == "fp16.enabled" for one in made["adaptations"])


def test_a_static_loss_scale_that_overflows_is_found(run):
    made = on_gpu(run(FP16 | {"fp16": {"enabled": True, "loss_scale": 1e9}}, "--smoke-device", "cuda"))
    assert of(made, "overflow") == ["fail"]


def test_torchrun_takes_the_gpus(run):
    launcher = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node {GPUS}"
    (made,) = run(BF16 | {"zero_optimization": GATHER}, "--smoke-launch", launcher)
    assert (made["mode"], made["world_size"], made["status"]) == ("cuda-nccl", GPUS, "pass")
