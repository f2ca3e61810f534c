"""DS666, DS667 and DS885: what ``accelerate launch`` does on several machines, none of which is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from installed import measured_with_the_newest
from linted import lint_bytes

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

_SECONDS = 25  # a launch on one machine takes six
MACHINES = """\
distributed_type: MULTI_GPU
mixed_precision: 'no'
num_processes: 2
num_machines: {machines}
machine_rank: {rank}
main_process_port: {port}
"""


@pytest.mark.long  # waits for what does not come
def test_the_script_does_not_begin(tmp_path: Path, unused_port: int) -> None:
    """The launches that a rule names, beside one that starts."""
    (tmp_path / "train.py").write_text("print('begun')")
    address = "main_process_ip: 127.0.0.1\n"
    files = {
        "alone": (MACHINES.format(machines=1, rank=0, port=unused_port), []),
        "behind": (MACHINES.format(machines=2, rank=2, port=unused_port + 1) + address, ["DS666"]),
        "nowhere": (MACHINES.format(machines=2, rank=0, port=unused_port + 2), ["DS667"]),
    }
    started = {}
    for name, (text, codes) in files.items():
        assert [one.code for one in lint_bytes(text.encode(), "accelerate.yaml").findings] == codes
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(path), "train.py"]
        started[name] = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    begun = {name: "begun" in printed_by(process) for name, process in started.items()}
    assert begun == {"alone": True, "behind": False, "nowhere": False}


@pytest.mark.long
def test_torchrun_numbers_machines_with_c10d(tmp_path: Path, unused_port: int) -> None:
    """Two machines, both with a number that is out of range: DS666 is silent."""
    (tmp_path / "train.py").write_text("print('begun')")
    text = MACHINES.format(machines=2, rank=2, port=unused_port) + "main_process_ip: 127.0.0.1\n"
    (tmp_path / "two.yaml").write_text(text)
    launch = ["-m", "accelerate.commands.launch", "--config_file", "two.yaml", "--rdzv_backend", "c10d", "train.py"]
    started = [
        subprocess.Popen(
            [sys.executable, *launch], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for _ in range(2)
    ]
    assert ["begun" in printed_by(process) for process in started] == [True, True]


def test_a_machine_without_a_number_raises(tmp_path: Path) -> None:
    """DS885: neither a flag nor a YAML has the number."""
    options = ["--multi_gpu", "--num_machines", "2", "--num_processes", "2", "--main_process_ip", "127.0.0.1"]
    done = subprocess.run(
        [sys.executable, "-m", "accelerate.commands.launch", *options, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path)},  # without the YAML of ``accelerate config``
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TypeError: int() argument must be" in done.stderr


def printed_by(process: subprocess.Popen[str]) -> str:
    """What a launch prints until it ends, or its time does."""
    try:
        return process.communicate(timeout=_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.terminate()
        return process.communicate()[0]
