"""A script that ``accelerate launch`` starts on two nodes of two ranks: one run, with one report."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest
from command_line import ROOT, clean_environment
from installed import measured_with_the_newest
from nodes import SecondNode, has_namespaces

pytestmark = [pytest.mark.fidelity, pytest.mark.long, measured_with_the_newest, has_namespaces]

SCRIPTS = os.path.join(ROOT, "tests", "fidelity", "programs", "scripts")
CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2},
}


@pytest.fixture
def launch(tmp_path):
    """Starts the script on two nodes that meet at a port, and gives the reports of both."""
    node = SecondNode(tmp_path)

    def start(port):
        (tmp_path / "ds.json").write_text(json.dumps(CONFIG))
        running = []
        for rank, around in enumerate([[], node.around]):
            command = [
                *(sys.executable, "-m", "ds_lint", "smoke", "--isolated", "--cpu", "--nodes", "2", "--no-resume"),
                *("--output-format", "json", "--", "accelerate", "launch", "--use_deepspeed"),
                *("--deepspeed_config_file", "ds.json", "--deepspeed_multinode_launcher", "standard"),
                *("--num_machines", "2", "--num_processes", "4", "--machine_rank", str(rank)),
                *("--main_process_ip", "127.0.0.1", "--main_process_port", str(port)),
                os.path.join(SCRIPTS, "accelerated_loop.py"),
            ]
            environment = clean_environment() | {
                "DS_CONFIG": json.dumps(CONFIG),
                "SABOTAGE": "",
                "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
            }
            environment["PYTHONPATH"] = os.pathsep.join([ROOT, os.path.dirname(SCRIPTS), SCRIPTS])
            running.append(
                subprocess.Popen(
                    [*around, *command], cwd=tmp_path, env=environment,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )
            )  # fmt: skip
        return [(*one.communicate(timeout=300), one.returncode) for one in running]

    yield start
    node.end()


@pytest.fixture
def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_accelerate_on_two_nodes_makes_one_report(launch, free_port, tmp_path):
    (report, shown, status), (_, followed, other) = launch(free_port)
    assert (status, other) == (0, 0), shown
    (run,) = json.loads(report)["smoke"]
    assert (run["status"], run["world_size"], len(run["nodes"])) == ("pass", 4, 2)
    assert followed.splitlines()[-1].endswith(" has the report")
    assert sorted(os.listdir(tmp_path)) == ["disk", "ds.json"]


def test_a_port_that_another_process_has_is_named(launch, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (_, shown, status), _ = launch(port)
    assert status == 2
    assert f"Tried to launch distributed communication on port `{port}`, but another process is utilizing it" in shown
    assert sorted(os.listdir(tmp_path)) == ["disk", "ds.json"]
