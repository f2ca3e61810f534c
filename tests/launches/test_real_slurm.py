"""What ds-lint says of a job of Slurm is what a real cluster does: docs/dev/tests.md has how to run it.

A fact that ds-lint does not know is one that only the cluster knows, and each job says which those are.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
from command_line import clean_environment
from real_slurm import CLUSTER, STAND_IN_OF_JOB, on_login_node, processes, running_cluster
from slurm_jobs import JOBS

from ds_lint.launches.scripts import launches_in
from ds_lint.source.slurm import allocation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_slurm import Process
    from slurm_jobs import Job

    from ds_lint.launches.launch import Launch

pytestmark = pytest.mark.long
OF_THE_CLUSTER = re.compile(r"\bn(?:\d|\[[\d,-]+\])|10\.77\.0\.")  # names and addresses of its nodes


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    with ExitStack() as stack:
        if (why := stack.enter_context(running_cluster())) is not None:
            pytest.skip(why)
        yield


class Started(NamedTuple):
    """A launch as ds-lint reads it, and the processes that the cluster starts for it."""

    launch: Launch
    processes: list[Process]

    @property
    def on_each(self) -> set[int]:
        """The numbers of processes that nodes have."""
        return set(Counter(one.host for one in self.processes).values())


def submitted(job: Job, folder: Path) -> tuple[list[Process], dict[str, str]]:
    """The programs that a job starts, and the variables of its script."""
    lines = job.script.splitlines()
    first = next(number for number, line in enumerate(lines) if line.strip() and not line.strip().startswith("#"))
    lines.insert(first, STAND_IN_OF_JOB)
    (folder / "run.sh").write_text("\n".join([*lines, ""]))
    for name, text in job.files:
        (folder / name).write_text(text)
    done = on_login_node(job.submit, folder, folder / "log")
    printed = "".join(path.read_text() for path in folder.glob("slurm-*.out"))
    assert done.returncode == 0, done.stderr + printed
    found = processes(folder / "log")
    of_script = [one for one in found if one.words[0] == STAND_IN_OF_JOB]
    return [one for one in found if one not in of_script], of_script[0].environment


def read(job: Job) -> list[Launch]:
    """The launches of the script that submits the job, or is the job."""
    texts = {"run.sh": job.script, **dict(job.files)}
    name = job.submit.split()[-1]
    return launches_in(texts[name], name, texts.get).launches


def may_be(launch: Launch, process: Process) -> bool:
    """Whether a process has the words of a launch, of which some may be unknown."""
    words = launch.command[-len(process.words) :]
    return len(words) == len(process.words) and all(map(lambda a, b: a in (None, b), words, process.words))


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_what_the_cluster_makes_of_it(name: str, tmp_path: Path) -> None:
    job = JOBS[name]
    real, environment = submitted(job, tmp_path)
    job_id = environment.get("SLURM_JOB_ID", "none")
    if job_id != "none" and not job.files:
        said = allocation(job.script).variables
        assert {name for name, value in said.items() if value not in (None, environment.get(name))} == set()
        assert said.keys() - environment.keys() == set()  # no default counts
    launches = read(job)
    assert real
    assert [one for one in real if sum(may_be(launch, one) for launch in launches) != 1] == []
    for launch in launches:
        started = Started(launch, [one for one in real if may_be(launch, one)])
        assert wrong(started) == set(), launch
        assert unknown(started, job_id) == set(job.unknown.split()), launch


def wrong(started: Started) -> set[str]:
    """The facts that are not what the cluster makes of them."""
    launch, found = started.launch, started.processes
    facts = {
        "gpus": (launch.surroundings.gpus and launch.surroundings.gpus.number, *map(_gpus, found)),
        "memory": (launch.memory, *(int(one.environment.get("SLURM_MEM_PER_NODE", 0)) * 2**20 for one in found)),
        "starts": (launch.surroundings.starts, *started.on_each),
    }
    if launch.launcher == "srun":
        facts["nodes"] = (launch.nodes, len({one.host for one in found}))
        facts["per_node"] = (launch.processes_per_node, *started.on_each)
        facts["total"] = (launch.world_size, len(found))
    return {name for name, (said, *real) in facts.items() if said is not None and {said} != set(real)}


def unknown(started: Started, job_id: str) -> set[str]:
    """The facts that ds-lint does not know, other than words that are another time others."""
    launch, gpus = started.launch, _gpus(started.processes[0])
    real = list(zip(*(one.words for one in started.processes), strict=True))
    facts = {
        "gpus": launch.surroundings.gpus if gpus else 0,
        "words": None if None in map(partial(_said, job_id), launch.command[-len(real) :], real) else 0,
    }
    if launch.launcher == "srun":
        facts |= {"nodes": launch.nodes, "per_node": launch.processes_per_node, "total": launch.world_size}
    elif launch.surroundings.around is not None:
        facts["starts"] = launch.surroundings.starts
    return {name for name, value in facts.items() if value is None}


def _said(job_id: str, said: str | None, real: tuple[str, ...]) -> str | None:
    """A word, or one that depends on the node or the job."""
    is_open = len(set(real)) > 1 or job_id in real[0] or OF_THE_CLUSTER.search(real[0]) is not None
    return real[0] if said is None and is_open else said


def _gpus(process: Process) -> int:
    visible = process.environment.get("CUDA_VISIBLE_DEVICES")
    return len(visible.split(",")) if visible else 0


CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 2},
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
}
LAUNCH = "srun --nodes=2 --ntasks-per-node=1"
HOSTS = "/run/ds-lint-slurm/hosts"  # of the cluster
WITHOUT_NAMES = (
    f'cp {HOSTS} {HOSTS}.all; echo 127.0.0.1 localhost > {HOSTS}; "$@"; s=$?; cat {HOSTS}.all > {HOSTS}; exit $s'
)
needs_deepspeed = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="takes the extra smoke")


def trained(folder: Path, *before: str) -> subprocess.CompletedProcess[str]:
    """A training run on two nodes, with these words before the command."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    check = [
        sys.executable,
        "-m",
        "ds_lint",
        "check",
        "config.json",
        "--stack=deepspeed",
        "--smoke",
        "--smoke-device=cpu",
    ]
    return subprocess.run(
        [CLUSTER / "run", *before, *check, "--smoke-timeout=60", f"--smoke-launch={LAUNCH}"],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@needs_deepspeed
@pytest.mark.fidelity
def test_ranks_of_two_nodes_train_together(tmp_path: Path) -> None:
    done = trained(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "smoke: passed on 2 CPU ranks" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@needs_deepspeed
@pytest.mark.fidelity
def test_a_run_on_nodes_whose_names_are_unknown_ends_with_the_reason(tmp_path: Path) -> None:
    done = trained(tmp_path, "bash", "-c", WITHOUT_NAMES, "bash")
    assert done.returncode == 2
    assert re.search(r"n\d cannot resolve n\d, the node of rank 0 \(.*\): set MASTER_ADDR", done.stderr), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@needs_deepspeed
@pytest.mark.fidelity
def test_a_run_that_is_ended_while_its_ranks_wait_leaves_nothing(tmp_path: Path) -> None:
    done = trained(tmp_path, "timeout", "--signal=TERM", "20", "env", "MASTER_ADDR=10.77.0.99")
    assert done.returncode == 124
    assert "SIGTERM ended the smoke run" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


MEMORY = [
    *("--mem=64G", "--mem=65536", "--mem=67108864KB", "--mem=64gb", "--exclusive --mem=64G"),
    *("--mem-per-cpu=4G", "--mem-per-cpu=4G -c 8", "--mem-per-cpu=4G -c 8 -n 4 -N 1"),
    *("--mem-per-cpu=4G -c 8 --ntasks-per-node=4 -N 2", "--mem-per-gpu=32G --gpus-per-node=4"),
    "--mem-per-gpu=32G --gpus-per-task=1 --ntasks-per-node=4",
]
OF_THE_NODE = [
    "--mem=0",
    "--mem-per-cpu=0 -c 5",
    "--exclusive --mem-per-cpu=4G",
    "--exclusive --mem-per-gpu=16G -G 2 -N 1",
]


def test_each_node_of_a_job_has_the_memory_that_is_said(tmp_path: Path) -> None:
    jobs = [*MEMORY, *OF_THE_NODE]
    show = "scontrol --oneliner show job \\$SLURM_JOB_ID"
    submit = (f'sbatch --output=/dev/null {one} --wrap "{show} > {number}.txt"' for number, one in enumerate(jobs))
    done = on_login_node(" && ".join(submit), tmp_path, tmp_path / "log")
    assert done.returncode == 0, done.stderr
    for number, options in enumerate(jobs):
        tres = re.search(r" TRES=\S*mem=(\d+)([MG])\S*node=(\d+)", (tmp_path / f"{number}.txt").read_text())
        assert tres is not None
        real = int(tres[1]) * {"M": 2**20, "G": 2**30}[tres[2]] / int(tres[3])
        said = allocation(f"#SBATCH {options}\n").memory
        assert said == (real if options in MEMORY else None), options
