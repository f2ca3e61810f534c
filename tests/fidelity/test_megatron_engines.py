"""What becomes of the engines that Megatron-DeepSpeed makes where its options and the config disagree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.fidelity
PROGRAM = Path(__file__).parent / "programs" / "megatron_engines.py"
REFUSED = "AssertionError: ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism"


def results(of: str, port: int) -> list[Any]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), of],
        env={**os.environ, "MASTER_PORT": str(port)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.mark.long
def test_a_pipeline_of_one_stage_takes_stage_1_alone(unused_port: int) -> None:
    """DS690."""
    assert results("pipeline", unused_port) == [None, REFUSED, REFUSED]


def test_other_micro_batches_scale_the_gradients(unused_port: int) -> None:
    """DS691: of the gradient, half counts if the config halves the micro-batch, and twice as much if it doubles it."""
    *scales, refused = results("micro_batches", unused_port)
    assert scales == pytest.approx([1.0, 0.5, 2.0])
    assert refused == "ValueError: Train batch size must be divisible by micro-batch data parallelism"


def test_a_model_of_zero_init_does_not_run_below_stage_3(unused_port: int) -> None:
    """DS691 about ``--zero-stage 3``."""
    assert all(str(one).startswith("RuntimeError") for one in results("zero_init", unused_port))


@pytest.mark.long
def test_the_config_casts_the_model(unused_port: int) -> None:
    """DS691 about ``--fp16`` and ``--bf16``."""
    assert results("precision", unused_port) == ["bfloat16"]


@pytest.mark.long
def test_the_adam_of_the_cpu_raises_for_other_parameters(unused_port: int) -> None:
    """DS692."""
    (error,) = results("cpu_adam", unused_port)
    assert "must be 'cpu'" in error
