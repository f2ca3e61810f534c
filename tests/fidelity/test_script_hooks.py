"""What an unobserved Python, and a rank that waits for the others, look like with the real torch and DeepSpeed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys

import pytest
from command_line import clean_environment
from installed import measured_with_the_newest

from ds_lint.launches.launchers import names_per_gpu

pytestmark = [
    measured_with_the_newest,
    pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="takes the extra smoke"),
    pytest.mark.fidelity,
]

PATIENCE = 300
CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "zero_optimization": {"stage": 2},
}
# It leaves its mark where nothing leads it away: with a program that is not Python.
MARKS = "import torch, deepspeed, subprocess\nsubprocess.run(['touch', 'trained'])\n"
TRAINS = """
import deepspeed, os, torch

deepspeed.init_distributed()
rank = torch.distributed.get_rank()
model = torch.nn.Linear(8, 8)
{before}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="config.json")
for step in range(20):
    loss = engine(torch.randn(2, 8)).square().mean()
    engine.backward(loss)
    engine.step()
    {after}
"""
# The pool has its workers in a process of its own, whose PYTHONPATH is `sys.path` of this one.
COMPILES = """
import subprocess, torch._inductor.config
torch._inductor.config.compile_threads = 2
torch._inductor.config.worker_start_method = "subprocess"
from torch._inductor.async_compile import AsyncCompile
AsyncCompile.warm_pool()
torch.compile(model)(torch.randn(2, 8))
found = subprocess.run(["pgrep", "-P", str(os.getpid()), "-fa", "compile_worker"], capture_output=True, text=True)
assert found.stdout, "no worker of torch"
import time; time.sleep(2)
"""
ALONE = """if rank == 0:
        engine.save_checkpoint("out")"""


@pytest.fixture
def smoke(tmp_path):
    """Run a command in the folder of the user: the status, what is said, and the report."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))

    def smoke(script, *command, seconds=200):
        (tmp_path / "train.py").write_text(script)
        done = subprocess.run(
            [sys.executable, "-m", "ds_lint", "smoke", "--isolated", "--cpu", "--output-format", "json",
             "--timeout", str(seconds), "--", *command],
            cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr, json.loads(done.stdout)

    return smoke


def ranks(count):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "train.py"]


@pytest.mark.long
def test_ranks_that_do_not_get_the_hook_end_before_they_train(smoke, tmp_path):
    status, said, _ = smoke(MARKS, "sh", "-c", f"PYTHONPATH=src {' '.join(ranks(3))}")
    assert status == 2, said[-3000:]
    assert "train.py` imports torch without the startup hook of ds-lint, so the run ends before it trains" in said
    assert not (tmp_path / "trained").exists()


@pytest.mark.long
def test_workers_in_which_torch_compiles_end_no_run(smoke):
    script = TRAINS.format(before=COMPILES, after="")
    status, said, report = smoke(script, *ranks(2))
    assert (status, [run["status"] for run in report["smoke"]]) == (0, ["pass"]), said[-3000:]


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 3])
def test_a_checkpoint_that_one_rank_saves_hangs_and_confirms_the_finding(smoke, count):
    status, said, report = smoke(TRAINS.format(before="", after=ALONE), *ranks(count), seconds=40)
    assert status == 2, said[-3000:]
    (found,) = (one for one in report["findings"] if one["code"] == "DS822")
    others = ", ".join(f"rank {rank} in a training step" for rank in range(1, count))
    assert found["confirmed"] == f"the run hangs: rank 0 while it saves, {others}"


def test_the_launchers_are_those_of_the_libraries():
    scripts = {
        path.name
        for library in ("torch", "accelerate", "deepspeed")
        for path in importlib.metadata.files(library) or []
        if path.parent.name == "bin"
    }
    unknown = {
        name for name in names_per_gpu().keys() - scripts if "." not in name or importlib.util.find_spec(name) is None
    }
    assert unknown == set()
