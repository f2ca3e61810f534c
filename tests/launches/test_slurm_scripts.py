"""Scripts of users on the nodes of a real Slurm cluster: one verdict, and each node is as before."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from command_line import clean_environment
from real_slurm import CLUSTER, running_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.long,
    pytest.mark.fidelity,
    pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="takes the extra smoke"),
]
TRAIN = """
import os, signal, socket, sys, time
import torch, deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
fault, _, node = os.environ.get("FAULT", "").partition(" on ")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
open("/var/tmp/notes", "a").write("of the script")
open("shared", "a").write("of the script")
deepspeed.init_distributed()
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="config.json")
torch.manual_seed(int(os.environ["RANK"]))
for step in range(20):
    if step == 1 and node == socket.gethostname():
        {"killed": lambda: os.kill(os.getpid(), signal.SIGKILL), "hangs": lambda: time.sleep(1000)}[fault]()
    loss = engine(torch.randn(2, 32).to(engine.device, torch.bfloat16)).float().pow(2).mean()
    engine.backward(loss)
    engine.step()
"""
TASK = """
export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_SIZE=$PER_NODE MASTER_PORT=29471
export MASTER_ADDR=${MASTER:-$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1)}
exec "$PYTHON" train.py
"""
# Slurm on clusters ends with a step whatever it has left, such as the agents of ds-lint.
ENDS_ALL = '"$PYTHON" train.py; status=$?; pkill -KILL -f node_agent; exit "$status"'
TASK_OF_A_STEP_THAT_ENDS_ALL = TASK.replace('exec "$PYTHON" train.py', ENDS_ALL)
CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
}
SMOKE = [sys.executable, "-m", "ds_lint", "smoke", "--isolated", "--output-format", "json"]
# What stands in for ssh, with which the deepspeed launcher starts the other nodes.
SSH = """#!/bin/bash
while [[ $1 == -* ]]; do case $1 in -o | -p) shift 2 ;; *) shift ;; esac; done
first=$(cat "/run/ds-lint-slurm/${1#*@}.first"); shift
exec nsenter "--target=$first" --net --uts --mount --pid env -i "HOME=$HOME" PATH=/usr/bin:/bin bash -c "$*"
"""


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    with ExitStack() as stack:
        if (why := stack.enter_context(running_cluster())) is not None:
            pytest.skip(why)
        yield


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """The folder of the script; each node has a file of the same name on a disk of its own."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "task.sh").write_text(TASK)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "shared").write_text("mine")
    for node in ("n1", "n2", "n3", "n4"):
        on(node, "sh", "-c", f"echo of {node} >/var/tmp/notes")
    before = sorted(os.listdir(tmp_path))
    yield tmp_path
    assert (sorted(os.listdir(tmp_path)), (tmp_path / "shared").read_text()) == (before, "mine")
    for node in ("n1", "n2", "n3", "n4"):
        assert on(node, "cat", "/var/tmp/notes") == f"of {node}\n"
        assert on(node, "ls", "/dev/shm", "/var/tmp") == "/dev/shm:\n\n/var/tmp:\nnotes\n"
        assert on(node, "sh", "-c", "pgrep -f 'train[.]py|node_agen[t]'; true") == ""


def on(node: str, *command: str) -> str:
    return subprocess.run([CLUSTER / "on", node, *command], capture_output=True, text=True, check=True).stdout


def start(project: Path, *command: str, node: str | None = None, **variables: str) -> subprocess.Popen[str]:
    place = [CLUSTER / "on", node] if node else [CLUSTER / "run"]
    return subprocess.Popen(
        [*place, *command],
        cwd=project,
        env=clean_environment() | {"PYTHON": sys.executable, "CC": "/bin/false", "CXX": "/bin/false"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def verdict(process: subprocess.Popen[str]) -> dict[str, object]:
    """The one run in a report; the status of the command is in it, too."""
    output, complaints = process.communicate(timeout=600)
    assert output, complaints
    (run,) = json.loads(output)["smoke"]
    return run | {"returncode": process.returncode, "complaints": complaints}


def srun(nodes: int, per_node: int) -> list[str]:
    return ["srun", f"--nodes={nodes}", f"--ntasks-per-node={per_node}", "bash", "task.sh"]


@pytest.mark.parametrize(("nodes", "per_node"), [(2, 2), (4, 1)])
def test_ranks_of_srun_make_one_run(nodes: int, per_node: int, project: Path) -> None:
    run = verdict(start(project, *SMOKE, "--", *srun(nodes, per_node), PER_NODE=str(per_node)))
    assert (run["returncode"], run["status"], run["world_size"]) == (0, "pass", nodes * per_node), run
    numbers = [node["ranks"] for node in run["nodes"]]
    assert numbers == [list(range(first, first + per_node)) for first in range(0, nodes * per_node, per_node)]
    (resumed,) = [check for check in run["checks"] if check["id"] == "resume"]
    assert resumed["status"] == "pass"


def test_nodes_whose_agents_are_killed_are_restored(project: Path) -> None:
    (project / "task.sh").write_text(TASK_OF_A_STEP_THAT_ENDS_ALL)
    run = verdict(start(project, *SMOKE, "--no-resume", "--", *srun(2, 1), PER_NODE="1"))
    assert (run["returncode"], run["status"]) == (0, "pass"), run


def test_torchrun_is_started_on_each_node(project: Path) -> None:
    port = ["--master-addr", "10.77.0.11", "--master-port", "29472"]
    both = [
        start(project, *SMOKE, "--", sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={rank}",
              "--nproc-per-node=2", *port, "train.py", node=node)
        for rank, node in enumerate(("n1", "n2"))
    ]  # fmt: skip
    run = verdict(both[0])
    output, complaints = both[1].communicate(timeout=60)
    assert (both[1].returncode, output, complaints.splitlines()[-1]) == (0, "", "ds-lint: n1 has the report")
    assert (run["returncode"], run["status"]) == (0, "pass"), run
    assert [(node["name"], node["ranks"]) for node in run["nodes"]] == [("n1", [0, 1]), ("n2", [2, 3])]


def test_the_deepspeed_launcher_starts_the_nodes_of_a_hostfile(project: Path, tmp_path_factory) -> None:
    programs = tmp_path_factory.mktemp("programs")
    (programs / "ssh").write_text(SSH)
    (programs / "ssh").chmod(0o755)
    hosts = programs / "hosts"
    hosts.write_text("n1 slots=1\nn2 slots=1\n")
    launcher = [sys.executable, "-m", "deepspeed.launcher.runner", "--hostfile", str(hosts), "--launcher", "pdsh"]
    port = ["--master_addr", "10.77.0.11", "--master_port", "29473"]
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    if subprocess.run(["which", "pdsh"], capture_output=True, check=False).returncode:
        pytest.skip("needs pdsh")
    run = verdict(start(project, *SMOKE, "--no-resume", "--", *launcher, *port, "train.py", PATH=path))
    assert (run["returncode"], run["status"], len(run["nodes"])) == (0, "pass", 2), run


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("killed on n2", "rank 1 on n2 is killed"),
        (
            "hangs on n2",
            "the command did not finish within 60 s (--timeout): rank 0 on n1 in a training step, rank 1 on n2",
        ),
    ],
)
def test_a_rank_that_fails_on_a_node_is_named(fault: str, message: str, project: Path) -> None:
    done = start(project, *SMOKE, "--timeout=60", "--", *srun(2, 1), PER_NODE="1", FAULT=fault)
    _, complaints = done.communicate(timeout=600)
    assert (done.returncode, message in complaints) == (2, True), complaints


def test_a_node_that_does_not_reach_the_first_rank_is_named(project: Path) -> None:
    command = [*SMOKE, "--timeout=40", "--", *srun(2, 1)]
    done = start(project, *command, PER_NODE="1", MASTER="not-a-node")
    _, complaints = done.communicate(timeout=300)
    assert done.returncode == 2
    assert "n2 cannot resolve not-a-node, the node of rank 0 (MASTER_ADDR)" in complaints


def test_a_folder_that_nodes_do_not_share_is_named(project: Path) -> None:
    done = start(project, *SMOKE, "--folder=/var/tmp", "--", *srun(2, 1), PER_NODE="1")
    _, complaints = done.communicate(timeout=300)
    assert done.returncode == 2
    assert "the folder of the run: name a folder that all nodes share, at the same path (--folder)" in complaints


def test_the_job_of_smoke_sbatch_makes_the_run(project: Path) -> None:
    check = [sys.executable, "-m", "ds_lint", "check", "config.json", "--isolated", "--stack=deepspeed"]
    options = ["--smoke-sbatch=job.sh", "--nodes=2", "--world-size=2", "--smoke-device=cpu"]
    written = start(project, *check, *options)
    _, complaints = written.communicate(timeout=60)
    assert written.returncode == 0, complaints
    job, log = project / "job.sh", project / "job.out"
    programs = os.path.dirname(sys.executable)
    job.write_text(job.read_text().replace("exec srun", f'PATH="{programs}:$PATH" exec srun'))
    done = start(project, "sbatch", "--wait", "--output=job.out", "job.sh")
    done.communicate(timeout=300)
    assert done.returncode == 0, log.read_text()
    assert "smoke: passed on 2 CPU ranks of 2 nodes" in log.read_text()
    job.unlink()
    log.unlink()
