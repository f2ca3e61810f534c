"""Ranks on GPUs are forked from a process that has imported the libraries for CUDA, if CUDA begins in a fork."""

from __future__ import annotations

import json
import os

import pytest
from command_line import ROOT
from installed import measured_with_the_newest

from ds_lint.diagnostics.verdict import CPU, CUDA, FAKE
from ds_lint.smoke.processes import client
from ds_lint.smoke.records.job import WORLD, Job

pytest.importorskip("deepspeed")

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

TELLING = os.path.join(ROOT, "tests", "fidelity", "programs", "gpu_ranks")


@pytest.mark.parametrize(("begins", "made"), [("yes", "fork"), pytest.param("no", "fresh", marks=pytest.mark.long)])
def test_a_rank_is_a_fork_or_a_process_that_has_imported_nothing(tmp_path, monkeypatch, begins, made):
    path = os.pathsep.join([TELLING, ROOT, os.environ.get("PYTHONPATH", "")])
    for name, value in {"PYTHONPATH": path, "CUDA_BEGINS": begins, "CUDA_VISIBLE_DEVICES": "0,1,2"}.items():
        monkeypatch.setenv(name, value)
    with client.Pool(mode=CUDA) as pool:
        jobs = [
            Job("{}", "deepspeed", str(tmp_path), mode=CUDA, gpus=("GPU-5a",)),
            Job("{}", "deepspeed", str(tmp_path), mode=CUDA, world_size=1),
        ]
        chosen, visible = pool.run(jobs)
    assert [rank.model for rank in [*chosen.evidence, *visible.evidence]] == [made] * 3
    assert chosen.evidence[1].layers == ["CUDA_VISIBLE_DEVICES=GPU-5a", "DS_ACCELERATOR=cuda"]
    assert visible.evidence[0].layers[0] == "CUDA_VISIBLE_DEVICES=0,1,2"


def test_deepspeed_reads_no_other_names_of_gpus_than_numbers(monkeypatch):
    from deepspeed.accelerator.cuda_accelerator import CUDA_Accelerator

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert CUDA_Accelerator._get_nvml_gpu_id(None, 1) == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5a1c")
    with pytest.raises(ValueError, match="GPU-5a1c"):
        CUDA_Accelerator._get_nvml_gpu_id(None, 0)


def test_a_simulated_world_has_no_gpu(tmp_path):
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2},
    }
    with client.Pool(mode=CUDA) as pool:
        (world,) = pool.run([Job(json.dumps(config), "deepspeed", str(tmp_path), part=WORLD, mode=FAKE, world_size=8)])
    assert [end.exit for end in world.ends] == ["ok", "ok"]


def test_the_process_of_gpus_starts_when_it_is_needed_and_ends_with_the_other(monkeypatch):
    started = []
    monkeypatch.setattr(client.Pool, "_start", lambda pool: started.append(pool.mode))
    pool = client.Pool()
    assert pool.of(CPU) is pool
    assert started == [CPU]
    of_gpus = pool.of(CUDA)
    assert pool.of(CUDA) is of_gpus.of(CPU) is of_gpus
    assert started == [CPU, CUDA]
    pool.close()
    assert not os.path.exists(of_gpus.folder)
