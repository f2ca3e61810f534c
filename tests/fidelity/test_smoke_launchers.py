"""Training runs on ranks that others started: by a launcher, by SLURM's variables, or as new processes of the pool."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from command_line import clean_environment
from installed import measured_with_the_newest

pytestmark = [
    pytest.mark.fidelity,
    measured_with_the_newest,
    pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="takes the extra smoke"),
]

CONFIG = {
    "train_batch_size": 4,
    "train_micro_batch_size_per_gpu": 2,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
}
PATIENCE = 180
TORCHRUN = f"{sys.executable} -m torch.distributed.run --nproc-per-node 2"

# What is wrong in rank 1 as soon as it trains, by the name of the fault.
FAULTS = """
import importlib.abc, importlib.machinery, os, signal, sys, time

FAULTS = {"killed": lambda: os.kill(os.getpid(), signal.SIGKILL), "hangs": lambda: time.sleep(1000)}

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "ds_lint.smoke.rank.deepspeed_run":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module
        def load_and_break(module):
            load(module)
            if os.environ.get("SLURM_PROCID") == "1":
                module._steps = lambda *_: FAULTS[os.environ["FAULT"]]()
        spec.loader.exec_module = load_and_break
        return spec

sys.meta_path.insert(0, Finder())
"""
# Ranks that are forked elsewhere are new processes, as those on a GPU are.
NEW_PROCESSES = """
import os, sys

if "ds_lint.smoke.rank.pool" in sys.orig_argv:
    import ds_lint.diagnostics.verdict

    ds_lint.diagnostics.verdict.CUDA = ds_lint.diagnostics.verdict.CPU
    start = os.execve
    os.execve = lambda path, arguments, variables: start(path, arguments, variables | {"DS_ACCELERATOR": "cpu"})
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with the config, where temporary files are written too."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("CC", "/bin/false")
    monkeypatch.setenv("CXX", "/bin/false")
    return tmp_path


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """The statuses of a run on two ranks of our own."""
    path = tmp_path_factory.mktemp("usual") / "config.json"
    path.write_text(json.dumps(CONFIG))
    ended = start([sys.executable, "-m", "ds_lint", "check", str(path), "--smoke", "--output-format", "json"])
    output, _ = ended.communicate(timeout=PATIENCE)
    return statuses(json.loads(output))


def start(command, variables=None, sitecustomize=None):
    """A process with these variables too, and with a sitecustomize of its own."""
    environment = clean_environment() | (variables or {})
    if sitecustomize is not None:
        folder = os.path.join(os.environ["TMPDIR"], os.pardir, "site")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as file:
            file.write(sitecustomize)
        environment["PYTHONPATH"] = os.pathsep.join([os.path.abspath(folder), environment["PYTHONPATH"]])
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process):
    """What a process printed, and its status; it never outlives the test."""
    try:
        output, complaints = process.communicate(timeout=PATIENCE)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, output, complaints


def statuses(report):
    (run,) = report["smoke"]
    return run["world_size"], run["status"], sorted((check["id"], check["status"]) for check in run["checks"])


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def by_slurm(rank, *, nodes=1):
    """The variables of one of two tasks of ``srun``."""
    return {
        "SLURM_JOB_ID": free_port(),  # the port of rank 0 is made of it
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": str(rank),
        "SLURM_JOB_NODELIST": "localhost",
        "SLURM_LOCALID": str(rank if nodes == 1 else 0),
        "SLURM_NODEID": str(rank if nodes == 2 else 0),
        "SLURM_TASKS_PER_NODE": "2" if nodes == 1 else "1(x2)",
    }


def on_slurm(*options, nodes=1, variables=None, sitecustomize=None):
    """How the two tasks of a job end."""
    job = by_slurm(0)["SLURM_JOB_ID"]
    ranks = [
        start(
            [sys.executable, "-m", "ds_lint.smoke.worker", "config.json", *options],
            by_slurm(rank, nodes=nodes) | {"SLURM_JOB_ID": job} | (variables or {}),
            sitecustomize,
        )
        for rank in (0, 1)
    ]
    return [finish(rank) for rank in ranks]


def left_behind(place):
    """What of ours is still there; a log stays where something went wrong, and torchrun leaves a folder of its own."""
    return sorted(name for name in os.listdir(place / "tmp") if name.startswith("ds-lint") and name[-4:] != ".log")


@pytest.mark.long
def test_ranks_of_torchrun_show_what_our_own_show(place, usual):
    command = [sys.executable, "-m", "ds_lint", "check", "config.json", "--smoke", "--output-format", "json"]
    status, output, complaints = finish(start([*command, "--smoke-launch", f"{TORCHRUN} --master-port {free_port()}"]))
    assert (status, complaints) == (0, "")
    assert statuses(json.loads(output)) == usual
    assert left_behind(place) == []


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param(
            [sys.executable, "-m", "deepspeed.launcher.runner", "--num_gpus", "2", "--master_port", "PORT", "--module"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            [sys.executable, "-m", "accelerate.commands.launch", "--use_deepspeed", "--num_processes", "2",
             "--main_process_port", "PORT", "-m"],
            marks=pytest.mark.long,  # it starts what torchrun starts
        ),
    ],
    ids=["deepspeed", "accelerate"],
)  # fmt: skip
def test_ranks_of_other_launchers_do_too(launcher, place, usual):
    port = free_port()
    command = [port if word == "PORT" else word for word in launcher]
    arguments = ["config.json", "--output-format=json", "--output-file=verdict.json"]
    status, _, complaints = finish(start([*command, "ds_lint.smoke.worker", *arguments]))
    assert status == 0, complaints
    assert statuses(json.loads((place / "verdict.json").read_text())) == usual
    assert left_behind(place) == []


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.long), 2])
@pytest.mark.long
def test_tasks_of_slurm_find_each_other_and_rank_0_writes_the_verdict(nodes, place, usual):
    first, second = on_slurm("--output-format", "json", nodes=nodes)
    assert (first[0], second) == (0, (0, "", ""))
    assert statuses(json.loads(first[1])) == usual
    assert left_behind(place) == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        pytest.param("killed", "rank 1 was killed by SIGKILL in train", marks=pytest.mark.long),
        ("hangs", "the run did not finish within 5 s (--smoke-timeout): rank 1 is stuck in train, at "),
    ],
)
@pytest.mark.long  # what a rank that hangs does on one machine, test_smoke_robust.py shows
def test_a_rank_that_fails_elsewhere_is_reported_and_no_rank_hangs(fault, message, place):
    first, second = on_slurm("--smoke-timeout=5", variables={"FAULT": fault}, sitecustomize=FAULTS)
    assert (first[0], second[0]) == (2, 0)
    assert message in first[2]
    assert left_behind(place) == []


@pytest.mark.long
def test_a_rank_that_is_a_new_process_does_what_a_forked_one_does(place, usual):
    command = [sys.executable, "-m", "ds_lint", "check", "config.json", "--smoke", "--output-format", "json"]
    status, output, complaints = finish(start(command, sitecustomize=NEW_PROCESSES))
    assert (status, complaints) == (0, "")
    assert statuses(json.loads(output)) == usual
    assert left_behind(place) == []


def test_a_gpu_that_torch_does_not_see_is_no_pass(place):
    (place / "bin").mkdir()
    driver = place / "bin" / "nvidia-smi"
    driver.write_text('#!/bin/sh\necho "0, GPU-0f00, 0, Disabled"\n')
    driver.chmod(0o755)
    variables = {"PATH": os.pathsep.join([str(place / "bin"), os.environ["PATH"]]), "CUDA_VISIBLE_DEVICES": "0"}
    command = [sys.executable, "-m", "ds_lint", "check", "config.json", "--smoke", "--smoke-device", "cuda"]
    torch = pytest.importorskip("torch")
    if torch.version.cuda is not None:
        pytest.skip("it may see one")
    status, _, complaints = finish(start(command, variables))
    assert status == 2
    assert "--smoke-device cuda needs a GPU for each rank, and torch" in complaints
    assert "is built without CUDA" in complaints


def test_a_node_that_does_not_see_the_folder_of_rank_0_is_named():
    pytest.importorskip("torch")
    from ds_lint.smoke.small_run.ranks import Arrival, obstacle

    first = Arrival(0, "node-1", sees_folder=True, gpus=8, error=None)
    blind = Arrival(9, "node-2", sees_folder=False, gpus=8, error=None)
    assert obstacle(first, first, "/tmp/run") is None
    assert obstacle(blind, first, "/tmp/run") == (
        "rank 9 on node-2 does not see /tmp/run, which rank 0 made on node-1: "
        "give --smoke-folder DIR, a folder on a file system that all nodes share"
    )


@pytest.mark.parametrize(("gpus", "message"), [(8, None), (0, None), (1, "with srun no --gpus-per-task")])
def test_ranks_that_see_their_own_gpu_alone_are_told_to_see_all(gpus, message):
    pytest.importorskip("torch")
    from ds_lint.smoke.processes.client import CouldNotRun
    from ds_lint.smoke.records.rendezvous import Rendezvous
    from ds_lint.smoke.small_run import ranks

    class Met(ranks.LaunchedRanks):
        versions = property(lambda _: {})

        def __init__(self):
            self.place = Rendezvous(0, 16, 0, 8, "node-1", 29500, "srun", 0, 2)
            self._arrived = [ranks.Arrival(rank, "node-1", True, gpus, None) for rank in range(16)]

    if message is None:
        assert Met().have_gpus == (gpus > 0)
    else:
        with pytest.raises(CouldNotRun, match=message):
            _ = Met().have_gpus


def test_a_node_with_another_release_is_named():
    pytest.importorskip("torch")
    from ds_lint.smoke.small_run.ranks import Arrival, obstacle

    first = Arrival(0, "node-1", sees_folder=True, gpus=8, error=None, versions={"deepspeed": "0.17.2"})
    other = Arrival(8, "node-2", sees_folder=True, gpus=8, error=None, versions={"deepspeed": "0.18.9"})
    assert obstacle(other, first, "/tmp/run") == (
        "rank 8 on node-2 has deepspeed 0.18.9, and rank 0 on node-1 has 0.17.2: install the same release on all nodes"
    )


def test_why_a_rank_does_not_come_is_in_the_folder_of_the_run(tmp_path):
    pytest.importorskip("torch")
    from ds_lint.smoke.processes.client import CouldNotRun
    from ds_lint.smoke.processes.meeting_store import Absences

    run = tmp_path / "shared" / "ds-lint-smoke-1"
    run.mkdir(parents=True)
    Absences(str(run)).demand_none()
    Absences(str(run)).note(3, "rank 3: n2 cannot resolve n1")
    with pytest.raises(CouldNotRun, match=r"^rank 3: n2 cannot resolve n1$"):
        Absences(str(run)).demand_none()
    Absences(str(run.parent)).note(3, "in the folder of the user, it would be there in the next run")
    assert os.listdir(run.parent) == ["ds-lint-smoke-1"]
