"""What the installed DeepSpeed does, where releases differ in what no key's facts say: ``behaviours`` in the overlay.

Each is shown by a config that one side refuses and the other trains. Run in the environments of older releases
(``python -m tools.fidelity``), this holds both sides of every border that lies between two of them.
"""

from __future__ import annotations

import pytest
from linted import lint_dict

pytest.importorskip("deepspeed")

from agreement import is_decided
from installed import INSTALLED, knowledge
from oracle import Oracle

from ds_lint.facts import Facts
from ds_lint.knowledge import tables

pytestmark = pytest.mark.fidelity

ADAMW = {"type": "AdamW", "params": {"lr": 1e-3}}
FP16 = {"enabled": True}

# A config, and what becomes of it where DeepSpeed behaves in this way, and where it does not: the stage at which it is
# rejected, or None.
SHOWN_BY = {
    "master-weights-at-stage-2-only": (
        {
            "fp16": {**FP16, "fp16_master_weights_and_grads": True},
            "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}},
            "optimizer": ADAMW,
        },
        "parse",
        None,
    ),
    "dynamic-loss-scale-is-checked": (
        {"fp16": {**FP16, "loss_scale_window": 0}, "zero_optimization": {"stage": 2}, "optimizer": ADAMW},
        "parse",
        "train",
    ),
    "bf16-has-a-static-loss-scale": (
        {
            "bf16": {"enabled": True},
            "optimizer": {"type": "Lamb", "params": {"lr": 1e-3}},
            "zero_optimization": {"stage": 1},  # without ZeRO the kernel gets gradients in bf16, which it does not know
            "zero_allow_untested_optimizer": True,
        },
        "initialize",
        None,
    ),
    "static-loss-scale-trips-fused-fp16": ({"fp16": {**FP16, "loss_scale": 8}, "optimizer": ADAMW}, "train", None),
    "loss-is-scaled-at-stage-0": ({"fp16": {**FP16, "initial_scale_power": 64}, "optimizer": ADAMW}, "train", None),
    "muon-has-no-stage-3": (
        {
            "optimizer": {"type": "Muon", "params": {"lr": 1e-3}},
            "zero_optimization": {"stage": 3, "reduce_scatter": False},
        },
        "initialize",
        None,
    ),
    "optimizer-parameters-are-sorted-out": (
        {"optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "fp32_optimizer_states": True}}},
        None,
        "initialize",
    ),
    "bf16-accumulates-in-fp32": (
        {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}, "optimizer": ADAMW},
        None,
        "initialize",
    ),
    "zenflow-is-tested-under-zero": (
        {
            "zero_optimization": {
                "stage": 2,
                "offload_optimizer": {"device": "cpu"},
                "zenflow": {"topk_ratio": 0.1, "update_interval": 4, "full_warm_up_rounds": 0, "overlap_step": False},
            },
            "optimizer": ADAMW,
        },
        None,
        "initialize" if knowledge().find(("zero_optimization", "zenflow")) else "parse",
    ),
    "optimizer-parameters-are-copied": (
        {
            "zero_optimization": {
                "stage": 2,
                "offload_optimizer": {"device": "cpu"},
                "zenflow": {"topk_ratio": 0.1, "update_interval": 1, "full_warm_up_rounds": 0, "overlap_step": False},
            },
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        },
        "initialize",
        "train" if knowledge().find(("zero_optimization", "zenflow")) else "parse",
    ),
    "zenflow-runs-at-stage-3": (
        {
            "zero_optimization": {
                "stage": 3,
                "offload_optimizer": {"device": "cpu"},
                "overlap_comm": False,
                "zenflow": {"offload": True},
            },
            "optimizer": ADAMW,
        },
        "initialize",
        None if knowledge().find(("zero_optimization", "zenflow")) else "parse",
    ),
    "partial-offload-is-checked": (
        {
            "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}},
            "optimizer": ADAMW,
        },
        "parse",
        None,
    ),
    "sequence-parallel-divides-the-world-size": (
        {
            "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": 1,
            "sequence_parallel_size": 2,
            "optimizer": ADAMW,
        },
        "parse",
        None,
    ),
}

# What trains, or is refused, on both sides, and where else it is shown, or why it is not.
NOT_SHOWN_BY_REFUSAL = {
    "hostfile-lines-are-matched": "test_hosts_truth.py",
    "include-is-taken-as-it-is": "only 0.15.2 to 0.19.6, of which the function was run by hand",
    "slurm-checks-slots": "test_hosts_truth.py",
    "visible-devices-are-included": "test_hosts_truth.py",
    "backward-of-torch-needs-zero": "test_training_loops_truth.py",
    "gradients-between-steps-are-lost": "test_training_loops_truth.py",
    "the-engine-has-no-sync": "test_training_loops_truth.py",
    "cuda-architectures-are-numbers": "test_environment_truth.py",
    "autocast-around-the-engine-raises": "only 0.17.2 to 0.17.5, which were run by hand",
    "checkpoints-keep-their-world-size": "test_launches_truth.py",
    "cpu-lion-may-be-passed": "the sources; the extension of DeepSpeedCPULion does not build on every machine",
    "engine-sets-its-own-autocast": "test_scripts_truth.py",
    "deepcompile-refuses-activations-beside": "test_compiling.py",
    "deepcompile-refuses-two-offloads": "test_compiling.py",
    "expert-parallel-folds-with-tensor-parallel": "test_parallelism.py",
    "expert-parallel-takes-stage-3": "test_parallelism.py",
    "folding-refuses-stage-3": "test_parallelism.py",
    "forward-marks-parameters-of-every-module": "test_scripts_truth.py",
    "super-offload-raises": "only 0.18.0 to 0.18.3, which were run by hand",
    "mesh-is-read-from-files": "test_rule_pages_truth.py, on the page of DS807",
    "tensor-parallel-sizes-must-agree": "test_parallelism.py",
    "cosine-holds-at-both-ends": "test_schedules_truth.py",
    "nvme-below-stage-3-is-host-memory": "test_engine_truth.py",
    "nvme-states-are-loaded-in-part": "test_engine_truth.py",
    "nvme-states-are-not-saved": "only releases that are older than those which are measured",
    "one-cycle-has-stairs": "test_schedules_truth.py",
    "bf16-is-split-without-zero": "measured with programs/held.py, see tests/memory/test_states_of_releases.py",
    "offload-keeps-a-16-bit-copy": "test_memory_peaks.py",
    "offloaded-master-weights-are-page-locked": "read in the sources; without a GPU nothing is page-locked",
    "offloaded-shares-are-copied-on-the-gpu": "read in the sources; on a CPU there is one memory for both",
    "parameters-are-flattened-on-the-gpu": "read in the sources; it asks for free memory of a GPU",
    "moments-are-cast-on-loading": "test_saved_states.py",
    "partitions-are-linked-in-model-order": "test_recovery.py",
    "predivided-gradients-stay-divided": "test_smoke_reference.py",
    "quantized-gradients-are-read-as-fp16": "a kernel takes a GPU",
    "super-offload-skips-single-sub-groups": "SuperOffload takes a GPU",
    "swapped-weights-stay-in-buffers": "test_saved_states.py",
    "tensor-parallel-refuses-stage-3": "test_engine_truth.py",
    "warmup-ends-at-the-rate-of-each-group": "test_schedules_truth.py",
    "warmup-sets-the-first-rate": "test_schedules_truth.py",
}


@pytest.fixture(scope="module")
def verdicts():
    configs = [{"train_batch_size": 2, **config} for config, _, _ in SHOWN_BY.values()]
    with Oracle() as oracle:
        return dict(zip(SHOWN_BY, oracle.verdicts(configs, level="train"), strict=True))


SHOWN_BY_THE_TRAINER = {"recomputation-loses-frozen-parameters"}  # test_frozen_parameters.py


def test_every_behaviour_is_shown():
    assert set(tables.load("overlay")["behaviours"]) == set(SHOWN_BY) | SHOWN_BY_THE_TRAINER | set(NOT_SHOWN_BY_REFUSAL)


@pytest.mark.parametrize("behaviour", SHOWN_BY)
def test_the_installed_release_behaves_as_the_overlay_says(behaviour, verdicts):
    _, if_it_does, if_not = SHOWN_BY[behaviour]
    verdict = decided(verdicts[behaviour])
    expected = if_it_does if knowledge().does(behaviour) else if_not
    assert verdict.rejected_at == expected, verdict.error


@pytest.mark.parametrize("behaviour", SHOWN_BY)
def test_ds_lint_reports_it(behaviour, verdicts):
    config = {"train_batch_size": 2, **SHOWN_BY[behaviour][0]}
    found = lint_dict(config, target=INSTALLED, stack="deepspeed", facts=Facts(world_size=1)).findings
    rejections = {finding.stage for finding in found if finding.effect == "rejected"}
    assert rejections == ({decided(verdicts[behaviour]).rejected_at} - {None})


def decided(verdict):
    """The verdict; before DeepSpeed had a Muon of its own, torch's refused the model."""
    assert verdict.undecided is None
    if not is_decided(verdict):
        pytest.skip(verdict.error)
    return verdict
