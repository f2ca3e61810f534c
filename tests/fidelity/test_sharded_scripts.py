"""Scripts that shard models with FSDP of torch, each broken or set up in its own way: what their run says."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from command_line import ROOT, clean_environment
from installed import measured_with_the_newest

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]
SCRIPT = os.path.join(ROOT, "tests", "fidelity", "programs", "scripts", "sharded.py")
SECONDS = 300
OF_STEPS_AND_FILES = {"averaging", "update", "weights", "resume", "export"}
NO_AVERAGE = "not the average over ranks and micro steps"
BEFORE = "elements of parameters from before they were sharded: its steps change no weight"
# For each fault the check that names it, with its words. Models that are broken side by side share a run.
SECOND = {
    "2 summed": ("averaging", NO_AVERAGE),
    "2 own gradients": ("averaging", NO_AVERAGE),
    "2 no root": ("averaging", NO_AVERAGE),
    "2 never reduced": ("averaging", "the optimizer steps without reduced gradients of"),
    "2 not cleared": ("averaging", "are added to those of the steps before"),
    "2 precision ignored bf16": ("dtypes", "compute with weights in float32, but the script asks for bfloat16"),
    "2 other reduction bf16": ("dtypes", "are reduced in bfloat16, but the script asks for float32"),
    "2 rounded": ("weights", "computes with other weights than the shards of all ranks make"),
    "2 stale": ("export", "has 0 of 21 weights"),
    "2 not recomputed checkpointed": ("recomputation", "do not run again in the backward pass"),
    "2 stays gathered": ("memory", "elements of units gathered between the steps"),
    "2 decay ignored": ("update", "other weights than the documented arithmetic of AdamW"),
    "2 old optimizer": ("update", BEFORE),
    "2 half": ("update", "no optimizer has head.bias"),
    "2 same samples": ("samples", "train on the same inputs in every step"),
    "2 rate of a rank": ("learning-rate", "steps with the learning rate 0.002 in step 1"),
    "2 infinite": ("loss", "the loss of step 1 is"),
    "2 pure bf16": ("dtypes", "the optimizer steps on weights in bfloat16"),
    "2 seeds": ("weights", "the ranks shard different weights"),
}
FIRST = {
    "1 old optimizer": ("update", BEFORE),
    "1 clipped local": ("clipping", "and each rank by another factor"),
    "1 other class": ("units", "wraps no module, so the model is one unit"),
    "1 not cleared": ("averaging", "are added to those of the steps before"),
    "1 halved": ("averaging", NO_AVERAGE),
    "1 same samples": ("samples", "train on the same inputs in every step"),
    "1 seeds": ("weights", "the ranks shard different weights"),
    "1 orig infinite": ("loss", "the loss of step 1 is"),
}
HEALTHY_SECOND = ["2", "2 bf16 clipped", "2 checkpointed sgd", "2 hybrid", "2 offload stays one pass", "2 each time"]
HEALTHY_FIRST = [
    "1", "1 orig bf16 clipped", "1 SHARD_GRAD_OP sgd each time", "1 NO_SHARD", "1 HYBRID_SHARD",
    "1 offload one pass", "1 orig offload", "1 one unit", "1 orig old optimizer",
]  # fmt: skip


@pytest.fixture
def checks(tmp_path):
    """Run the script with models of these kinds; by kind, the checks that fail, and the ids of those not skipped."""

    def checks(kinds, *options, ranks=2):
        report = tmp_path / "report.json"
        (tmp_path / "sharded.py").symlink_to(SCRIPT)
        done = subprocess.run(
            [sys.executable, "-m", "ds_lint", "smoke", "--isolated", "--output-format", "json", "--output-file",
             str(report), "--cpu", "--timeout", str(SECONDS), *options, "--", sys.executable, "-m",
             "torch.distributed.run", "--standalone",
             "--nproc-per-node", str(ranks), "sharded.py", ",".join(kinds)],
            cwd=tmp_path, env={**clean_environment(), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
            check=False, timeout=3 * SECONDS,
        )  # fmt: skip
        assert report.exists(), done.stderr[-3000:]
        found = {}
        for verdict in json.loads(report.read_text())["smoke"]:
            assert verdict["error"] is None, verdict["error"]
            kind = kinds[verdict["engine"]["number"] - 1]
            bad = [one for one in verdict["checks"] if one["status"] not in ("pass", "skip")]
            compared = {one["id"] for one in verdict["checks"] if one["status"] != "skip"}
            found[kind] = [(one["id"], one["message"]) for one in bad], compared
        return done.returncode, found

    return checks


def test_faults_of_models_side_by_side_are_told_apart(checks):
    kinds = ["2", "2 no root", "1 clipped local"]
    status, found = checks(kinds)
    assert status == 1
    bad, compared = found["2"]
    assert (bad, compared & OF_STEPS_AND_FILES) == ([], OF_STEPS_AND_FILES)
    assert any(name == "averaging" and NO_AVERAGE in text for name, text in found["2 no root"][0])
    assert [name for name, _ in found["1 clipped local"][0]] == ["clipping"]


@pytest.mark.long
@pytest.mark.parametrize("faults", [SECOND, FIRST], ids=["FSDP 2", "FSDP 1"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_each_fault_fails_the_check_that_names_it(checks, faults, ranks):
    status, found = checks(list(faults), "--no-resume", ranks=ranks)
    assert status == 1
    for kind, (name, words) in faults.items():
        bad, _ = found[kind]
        assert any(id_ == name and words in text for id_, text in bad), (kind, bad)


@pytest.mark.long
@pytest.mark.parametrize("kinds", [HEALTHY_SECOND, HEALTHY_FIRST], ids=["FSDP 2", "FSDP 1"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_healthy_models_pass(checks, kinds, ranks):
    kinds = [one for one in kinds if ranks == 2 or "hybrid" not in one.lower()]
    status, found = checks(kinds, ranks=ranks)
    assert (status, {kind: bad for kind, (bad, _) in found.items() if bad}) == (0, {})
    assert [kind for kind, (_, compared) in found.items() if OF_STEPS_AND_FILES - compared] == []


@pytest.mark.long
def test_a_checkpoint_without_the_states_of_the_optimizer_does_not_resume(checks):
    status, found = checks(["2 states forgotten"])
    assert (status, [name for name, _ in found["2 states forgotten"][0]]) == (1, ["resume"])


@pytest.mark.long
def test_a_tied_parameter_counts_once(checks, tmp_path):
    kinds = ["1 tied", "1 orig tied", "2 tied"]
    status, found = checks(kinds)
    assert (status, {kind: bad for kind, (bad, _) in found.items() if bad}) == (0, {})
    layer = 2 * 24 + (24 * 72 + 72) + (72 * 24 + 24)
    report = json.loads((tmp_path / "report.json").read_text())
    assert [run["parameter_count"] for run in report["smoke"]] == [53 * 24 + 3 * layer + 53] * len(kinds)


@pytest.mark.long
def test_torch_does_not_load_what_it_saves_of_checkpointed_layers_with_fsdp_1(checks):
    status, found = checks(["1 checkpointed"])
    assert (status, found["1 checkpointed"][0]) == (0, [])
    assert OF_STEPS_AND_FILES - found["1 checkpointed"][1] == {"resume"}
