"""Scripts whose DeepSpeed breaks promises, started as users start them: each broken promise fails its check."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys

import pytest
from command_line import ROOT, clean_environment
from installed import measured_with_the_newest

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]
SCRIPTS = os.path.join(ROOT, "tests", "fidelity", "programs", "scripts")
SECONDS = 240

BASE = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.05,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
}
BF16 = {**BASE, "bf16": {"enabled": True}}
STAGE_2 = {**BF16, "zero_optimization": {"stage": 2}}
WHOLE = {"stage": 3, "stage3_param_persistence_threshold": 0, "stage3_gather_16bit_weights_on_model_save": True}
STAGE_3 = {**BF16, "zero_optimization": WHOLE}
OFFLOADED = {**BF16, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
FP16 = {**BASE, "fp16": {"enabled": True, "initial_scale_power": 8}, "zero_optimization": {"stage": 2}}
SCHEDULED = {**STAGE_2, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 9, "warmup_type": "linear"}}}
OF_TRAINER = {
    **dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"), "auto"),
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
    "zero_optimization": WHOLE,
}


@pytest.fixture
def smoke(tmp_path):
    """Starts a script on two ranks whose DeepSpeed breaks promises; the status, and the ids of the checks that fail."""
    if any(importlib.util.find_spec(one) is None for one in ("torch", "deepspeed", "transformers", "accelerate")):
        pytest.skip("the libraries are not installed")  # importing them here would take seconds

    def smoke(script, broken, config, *options, arguments=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # A shell script with a process for each rank: torchrun takes seconds to be imported itself.
        ranks = " ".join(f'RANK={rank} LOCAL_RANK={rank} $PYTHON $SCRIPT & ranks="$ranks $!";' for rank in (0, 1))
        (tmp_path / "train.sh").write_text(f'{ranks} for one in $ranks; do wait "$one" || exit 1; done\n')
        report = tmp_path / "report.json"
        variables = {
            "PYTHON": sys.executable, "SCRIPT": os.path.join(SCRIPTS, script), "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "SABOTAGE": broken,
            "DS_CONFIG": json.dumps(config), "ARGUMENTS": json.dumps(arguments or {}),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "ds_lint", "smoke", "--isolated", "--output-format", "json", "--output-file",
             str(report), "--cpu", "--timeout", str(SECONDS), *options, "--", "sh", "train.sh"],
            cwd=tmp_path, env={**clean_environment(), **variables}, capture_output=True, text=True, check=False,
            timeout=3 * SECONDS,
        )  # fmt: skip
        assert report.exists(), done.stderr[-3000:]
        (verdict,) = json.loads(report.read_text())["smoke"]
        assert verdict["error"] is None, verdict["error"]
        return done.returncode, {one["id"] for one in verdict["checks"] if one["status"] not in ("pass", "skip")}

    return smoke


def test_promises_broken_in_a_plain_script_fail_their_checks(smoke):
    broken = "unsharded state, clips to less, same data, stale weights, shuffled names, rate"
    found = smoke("plain.py", broken, STAGE_2, "--no-resume")
    assert found == (
        1,
        {"optimizer-states", "clipping", "samples", "export", "recovery", "learning-rate"},
    )


@pytest.mark.long
def test_promises_broken_in_a_script_with_the_trainer_fail_their_checks(smoke):
    broken = "same data, clips to less, stale weights, rate"
    found = smoke("trainer.py", broken, OF_TRAINER, "--no-resume", arguments={"bf16": True})
    assert found == (1, {"samples", "clipping", "export", "learning-rate"})


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "config", "checks"),
    [
        (
            "whole parameter, does not clip, windows end early, empty weights, other masters",
            STAGE_3,
            {"parameters", "batch", "clipping", "averaging", "export", "recovery"},
        ),
        (
            "masters in 16 bit, a micro step is dropped, no tied weight, gradients are never freed",
            STAGE_2,
            {"memory", "dtypes", "batch", "export"},
        ),
    ],
)
def test_more_promises_broken_in_a_plain_script(smoke, broken, config, checks):
    assert smoke("plain.py", broken, config, "--no-resume") == (1, checks)


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "config"),
    [
        ("states are not loaded", STAGE_2),
        ("nothing is loaded", STAGE_2),
        ("other masters are loaded", STAGE_3),
        ("schedule is not loaded", SCHEDULED),
        ("step is forgotten", STAGE_2),
    ],
)
def test_a_checkpoint_that_is_not_brought_back_fails_to_resume(smoke, broken, config):
    assert smoke("plain.py", broken, config) == (1, {"resume"})


@pytest.mark.long
@pytest.mark.parametrize("config", [STAGE_2, STAGE_3, OFFLOADED, FP16, SCHEDULED])
def test_an_unbroken_plain_script_passes(smoke, config):
    assert smoke("plain.py", "nothing", config) == (0, set())


@pytest.mark.long
def test_an_unbroken_script_with_the_trainer_passes(smoke):
    assert smoke("trainer.py", "nothing", OF_TRAINER, arguments={"bf16": True}) == (0, set())
