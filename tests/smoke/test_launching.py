from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from ds_lint.smoke.processes.client import CouldNotRun
from ds_lint.smoke.small_run import command

WORKER = "ds_lint.smoke.worker"
HERE = [sys.executable, "-m", WORKER]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Makes programs of these names that are found: each is a shell script."""

    def make(**scripts):
        for name, script in scripts.items():
            path = tmp_path / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)

    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    monkeypatch.chdir(tmp_path)
    return make


@pytest.mark.parametrize(
    ("launcher", "end"),
    [
        ("torchrun --nproc-per-node 4", ["-m", WORKER]),
        ("deepspeed --num_gpus 2", ["--module", WORKER]),
        ("deepspeed --hostfile hosts --num_nodes 2", ["--module", WORKER]),
        ("accelerate launch --use_deepspeed --num_processes 2", ["-m", WORKER]),
        ("accelerate-launch --config_file cluster.yaml", ["-m", WORKER]),
        ("srun -N 2 --ntasks-per-node 8", HERE),
        ("mpirun -np 4 -x MASTER_ADDR=node-1", HERE),
        ("srun -N 2 --ntasks-per-node 1 torchrun --nnodes 2 --nproc-per-node 8", ["-m", WORKER]),
        ("python3 -m torch.distributed.run --nproc-per-node 2", ["-m", WORKER]),
        ("python3 -m deepspeed.launcher.runner --num_gpus 2", ["--module", WORKER]),
        ("env A=1 torchrun --nproc-per-node 2", ["-m", WORKER]),
    ],
)
def test_each_launcher_is_told_in_its_own_way_that_it_starts_a_module(launcher, end, programs):
    programs(**dict.fromkeys(["torchrun", "deepspeed", "accelerate", "accelerate_launch", "srun", "mpirun"], "exit 1"))
    words = launcher.split()
    assert command.command(launcher) == words + end


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        ("no-such-launcher -n 2", "command 'no-such-launcher' not found"),
        ("", "names no launcher"),
        ("torchrun '", "is not a valid command line"),
    ],
)
def test_what_is_no_launcher_is_said_in_one_sentence(launcher, message):
    with pytest.raises(CouldNotRun, match=message):
        command.command(launcher)


def test_the_runs_of_the_report_of_rank_0_are_read(programs, tmp_path):
    (tmp_path / "report").write_text('{"smoke": [{"status": "pass"}]}')
    programs(torchrun='for word; do case $word in --output-file=*) cp report "${word#*=}";; esac; done')
    found = command.runs(command.command("torchrun"), "config.json", [], None)
    assert found == [{"status": "pass"}]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 1", "srun ended with status 1, and rank 0 wrote no verdict"),
        ("echo 'srun: error: Unable to allocate resources' >&2; exit 1", "verdict: srun: error: Unable to allocate"),
        ("echo noise; echo '[rank1] ds-lint: rank 1: no answer'; exit 2", "verdict: rank 1: no answer"),
        ("kill -9 $$", "srun was killed by SIGKILL, and"),
    ],
)
def test_a_launcher_without_a_verdict_could_not_run(script, message, programs, tmp_path):
    programs(srun=script)
    with pytest.raises(CouldNotRun, match=message.replace("[", r"\[")):
        command.runs(command.command("srun"), "config.json", [], None)
    assert os.listdir(tmp_path) == ["srun"]


def test_srun_gets_a_folder_that_its_nodes_share_with_us(programs, tmp_path):
    programs(srun=f'echo "$@" > {tmp_path}/given')
    with pytest.raises(CouldNotRun):
        command.runs(command.command("srun"), "config.json", ["--stack=trainer"], None)
    given = (tmp_path / "given").read_text().split()
    assert given[:5] == [*HERE, "config.json", "--stack=trainer"]
    assert re.fullmatch(rf"--smoke-folder={re.escape(str(tmp_path))}/ds-lint-smoke-\w+", given[5])


def test_whoever_ends_us_ends_the_launcher(programs, tmp_path):
    programs(torchrun=f"echo $$ > {tmp_path}/pid; exec sleep 1000")
    program = (
        "from ds_lint.smoke.small_run import command\n"
        "from ds_lint.smoke.processes.client import ended_by_signal\n"
        "with ended_by_signal():\n"
        "    command.runs(command.command('torchrun'), 'config.json', [], None)\n"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with subprocess.Popen([sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": root}) as ours:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.05)
        ours.send_signal(signal.SIGTERM)
        assert ours.wait(30) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_the_last_words_of_a_launcher_are_those_of_its_exception(tmp_path):
    log = tmp_path / "launcher.log"
    log.write_text(
        '  File "/env/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 362, in wrapper\n'
        "    return f(*args, **kwargs)\n"
        "torch.distributed.DistNetworkError: The server socket has failed to listen on port 29500: EADDRINUSE\n"
    )
    assert command._last_words(str(log)) == (
        ": torch.distributed.DistNetworkError: The server socket has failed to listen on port 29500: EADDRINUSE"
    )
