"""The table of ``ds-lint convert --smoke``: two runs side by side."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from command_line import clean_environment

from ds_lint.commands.compared_runs import Comparison, as_json, table
from ds_lint.diagnostics.verdict import CPU, Check, Held, Step, Verdict


def verdict(strategy, held, *losses, **more):
    checks = [
        Check("resume", "pass", None, None, None, None, "it resumes"),
        Check("export", "fail", None, None, None, None, "it is stale"),
    ]
    steps = [Step(loss, [1e-3], None, None, is_skipped=False) for loss in losses]
    return Verdict(
        "a.yaml", "accelerate", CPU, 2, "fail", [], checks, [], 4.25, steps=steps, held=held, strategy=strategy, **more
    )


DEEPSPEED = verdict(None, [{"parameters": Held(512, 1024), "exp_avg": Held(512, 2048)}], 4.25, 4.5)
FSDP = verdict(
    "fsdp2", [{"parameters": Held(1, 4)}, {"parameters": Held(512, 2048), "exp_avg_sq": Held(512, 2048)}], 4.25
)


def test_the_fullest_rank_counts():
    rows = [line.split() for line in table(Comparison(DEEPSPEED, FSDP)).splitlines()]
    assert rows[0] == ["DeepSpeed", "FSDP", "2"]
    assert ["parameters", "of", "a", "rank", "1.0", "KiB", "2.0", "KiB"] in rows
    assert ["optimizer", "states", "of", "a", "rank", "2.0", "KiB", "2.0", "KiB"] in rows
    assert ["all", "of", "these", "3.0", "KiB", "4.0", "KiB"] in rows
    assert ["losses", "4.2500", "4.5000", "4.2500"] in rows
    assert ["saved", "model", "fail", "fail"] in rows
    assert ["checkpoint", "not", "checked", "not", "checked"] in rows


def test_a_run_that_was_not_made_is_said():
    stopped = FSDP._replace(status="error", error="the disk is full")
    comparison = Comparison(DEEPSPEED, stopped)
    assert not comparison.is_made
    assert table(comparison).endswith("FSDP 2 could not run: the disk is full\n")
    assert set(as_json(comparison)) == {"original", "counterpart"}


@pytest.mark.long
@pytest.mark.fidelity
def test_both_are_trained(tmp_path):
    path = tmp_path / "ds_config.json"
    config = {"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}
    path.write_text(json.dumps(config))
    command = [sys.executable, "-m", "ds_lint", "convert", str(path), "--to=fsdp", "--stack=accelerate", "--smoke"]
    done = subprocess.run(
        [*command, "--output-format=json"], capture_output=True, text=True, check=False, env=clean_environment()
    )
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["smoke"]
    assert [runs[name]["status"] for name in ("original", "counterpart")] == ["pass", "pass"]
    assert runs["counterpart"]["strategy"] == "fsdp2"
    first = [runs[name]["steps"][0]["loss"] for name in ("original", "counterpart")]
    assert first[0] == pytest.approx(first[1], rel=2**-7)  # the loss of FSDP 2 is rounded to 16 bit
