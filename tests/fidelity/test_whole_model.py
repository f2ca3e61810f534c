"""What ``deepspeed.initialize`` moves to the GPU at stage 3: the whole model, unless zero.Init has built it (DS852)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import clean_environment

pytest.importorskip("deepspeed")

pytestmark = pytest.mark.fidelity

PROGRAM = Path(__file__).parent / "programs" / "moves.py"
WHOLE = 2 * (64 * 64 + 64)
CPU = {"device": "cpu"}
OF_ONE_RANK = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "DS_ACCELERATOR": "cpu"}


def config(**zero):
    return {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"torch_adam": True}},
        "zero_optimization": {"stage": 3, **zero},
    }


@pytest.mark.parametrize(("arguments", "moved"), [((), WHOLE), (("init",), 0)])
def test_the_whole_model_is_moved_without_zero_init_wherever_parameters_go(arguments, moved, unused_port):
    configs = [config(), config(offload_param=CPU)]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(configs), *arguments],
        env={**clean_environment(), **OF_ONE_RANK, "MASTER_PORT": str(unused_port)},
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.startswith("moved ")]
    assert found == [f"moved {moved}"] * len(configs)
