"""What single releases do wrong, where the rule pages have no example."""

from __future__ import annotations

import pytest
from linted import lint_dict

from ds_lint.facts import Facts
from ds_lint.facts.model import Model
from ds_lint.knowledge.keys import Target

BF16, FP16 = ({name: {"enabled": True}} for name in ("bf16", "fp16"))
ADAMW = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}
SUPER = {"offload_optimizer": {"device": "cpu", "super_offload": True}}
QUANTIZED = {"zero_quantized_gradients": True}
NVME = {"device": "nvme", "nvme_path": "/nvme"}


def codes(wanted, release, config, stack="deepspeed", **facts):
    config = {"train_micro_batch_size_per_gpu": 1, **ADAMW, **config}
    known = Facts(world_size=facts.pop("world_size", None), nodes=facts.pop("nodes", None))
    known.model = Model("", {"model_type": "llama"}, **facts) if facts else None
    report = lint_dict(config, target=Target(deepspeed=release), stack=stack, facts=known)
    return [finding.code for finding in report.findings if finding.code in wanted]


def zero(stage=3, **settings):
    return {"zero_optimization": {"stage": stage, **settings}}


@pytest.mark.parametrize(
    ("release", "hits"), [("0.13.4", 1), ("0.13.5", 1), ("0.16.9", 1), ("0.18.2", 1), ("0.18.3", 0), ("0.19.7", 0)]
)
def test_secondary_partitions_of_older_releases(release, hits):
    assert codes(["DS325"], release, zero(zero_hpz_partition_size=8)) == ["DS325"] * hits
    assert codes(["DS325"], release, zero(zero_hpz_partition_size=1)) == []


@pytest.mark.parametrize(("release", "hits"), [("0.12.6", 0), ("0.13.0", 1), ("0.16.3", 1), ("0.16.4", 0)])
def test_parameters_on_nvme_beside_an_optimizer_elsewhere(release, hits):
    expected = ["DS366"] * hits
    assert codes(["DS366"], release, zero(offload_param=NVME)) == expected
    assert codes(["DS366"], release, zero(offload_param=NVME, offload_optimizer={"device": "cpu"})) == expected
    assert codes(["DS366"], release, zero(offload_param=NVME, offload_optimizer=NVME)) == []
    assert codes(["DS366"], release, zero(2, offload_param=NVME)) == []


@pytest.mark.parametrize("release", ["0.18.0", "0.18.3"])
def test_super_offload_raises_in_its_first_releases_whatever_the_model(release):
    assert codes(["DS367"], release, zero(**SUPER), parameter_count=9_000_000_000, world_size=8) == ["DS367"]
    assert codes(["DS367"], release, zero(2, **SUPER)) == []


@pytest.mark.parametrize(("release", "hits"), [("0.18.4", 1), ("0.18.8", 1), ("0.18.9", 0)])
def test_super_offload_needs_several_sub_groups(release, hits):
    expected = ["DS367"] * hits
    assert codes(["DS367"], release, zero(**SUPER)) == expected
    assert codes(["DS367"], release, zero(**SUPER), parameter_count=7_000_000_000, world_size=8) == expected
    assert codes(["DS367"], release, zero(**SUPER), parameter_count=9_000_000_000, world_size=8) == []
    assert codes(["DS367"], release, zero(**SUPER, sub_group_size=1e8), parameter_count=10**9, world_size=8) == []


@pytest.mark.parametrize(
    ("config", "facts", "hits"),
    [
        (BF16, {}, 1),
        (BF16, {"world_size": 16, "nodes": 2}, 1),
        (BF16, {"world_size": 8, "nodes": 1}, 0),
        (FP16, {}, 0),
        ({**FP16, "communication_data_type": "fp32"}, {}, 1),
        ({**BF16, "communication_data_type": "fp16"}, {}, 0),
        ({**BF16, "torch_autocast": {"enabled": True}}, {}, 0),
    ],
)
def test_gradients_that_are_quantized_in_other_dtypes(config, facts, hits):
    assert codes(["DS368"], "0.18.9", {**config, **zero(**QUANTIZED)}, **facts) == ["DS368"] * hits
    assert codes(["DS368"], "0.18.9", {**config, **zero(2, **QUANTIZED)}, **facts) == []


def test_a_trainer_may_switch_fp16_on():
    assert codes(["DS368"], "0.16.9", zero(**QUANTIZED, zero_quantized_weights=True), stack="trainer") == []


@pytest.mark.parametrize(("release", "hits"), [("0.10.0", 1), ("0.19.5", 1), ("0.19.6", 0)])
def test_weights_that_are_quantized_in_bf16(release, hits):
    assert codes(["DS368"], release, {**BF16, **zero(zero_quantized_weights=True)}) == ["DS368"] * hits
    assert codes(["DS368"], release, {**FP16, **zero(zero_quantized_weights=True)}) == []


@pytest.mark.parametrize(("release", "hits"), [("0.17.5", 0), ("0.17.6", 1), ("0.19.6", 1), ("0.19.7", 0)])
def test_muon_without_zero(release, hits):
    muon = {"optimizer": {"type": "Muon", "params": {"lr": 0.02}}}
    assert codes(["DS531"], release, muon) == ["DS531"] * hits
    assert codes(["DS531"], release, {**muon, **zero(1)}) == []


def test_a_parameter_that_only_a_newer_release_reads_for_muon():
    config = {"optimizer": {"type": "Muon", "params": {"lr": 0.02, "muon_lr": 0.02, "momentumm": 0.9}}, **zero(2)}
    report = lint_dict({"train_micro_batch_size_per_gpu": 1, **config}, target=Target(deepspeed="0.18.2"))
    newer, misspelled = (finding for finding in report.findings if finding.code == "DS503")
    assert newer.help == "Upgrade to DeepSpeed 0.18.3, or delete `muon_lr`."
    assert "before" not in misspelled.message
