"""What makes a run fit: in the order of the guides, alone or as the shortest combination, and on the host too."""

from __future__ import annotations

import pytest

from ds_lint.facts.tensors import Tensor
from ds_lint.memory.advice import STEPS, advice
from ds_lint.memory.capacity import Capacity
from ds_lint.memory.estimate import estimate
from ds_lint.memory.setup import Offload, TrainingSetup
from ds_lint.memory.sweep import changed, sweep

GIB = 2**30
CPU = Offload("cpu")
# 30 billion elements in matrices of 268 million: states of 480 GB, beside which an allowance is little.
MODEL = (Tensor("embed", 2**29), *(Tensor(f"layers.{layer}.weight", 2**28) for layer in range(112)))
SMALL_BUCKETS = {"reduce_bucket": 2**20, "prefetch_bucket": 2**20}
ONE_GPU = TrainingSetup(MODEL, ranks=1, nodes=1, stage=0, architecture={}, uses_zero_init=True, **SMALL_BUCKETS)
EIGHT = ONE_GPU._replace(ranks=8)


def words(setup, gpu=None, host=None):
    return [one.words for one in advice(setup, Capacity(gpu and round(gpu * GIB), host and round(host * GIB)))]


def test_what_fits_needs_no_advice():
    assert words(EIGHT, gpu=1000) == []


def test_without_a_capacity_there_is_nothing_to_fit():
    assert words(EIGHT) == []


def test_all_that_suffice_alone_are_told_in_the_order_of_the_guides():
    needed = estimate(EIGHT._replace(stage=2)).gpu_bytes.most / GIB
    assert words(EIGHT, gpu=needed + 0.1)[:2] == ["ZeRO stage 2", "ZeRO stage 3"]


def test_each_change_has_the_estimate_of_the_setup_that_it_makes():
    capacity = Capacity(round(estimate(EIGHT._replace(stage=2)).gpu_bytes.most + 1))
    first, *_ = advice(EIGHT, capacity)
    assert first.estimate.setup.stage == 2
    assert first.estimate.gpu_bytes == estimate(first.estimate.setup).gpu_bytes
    assert [write[1:] for write in first.writes] == [("zero_optimization.stage", 2)]


def test_if_none_suffices_the_shortest_combination_is_told():
    setup = ONE_GPU._replace(stage=2, ranks=2, nodes=1)
    needed = estimate(changed(setup, 3, ("optimizer",))).gpu_bytes.most
    assert needed < estimate(changed(setup, 2, ("optimizer",))).gpu_bytes.least
    first, *others = advice(setup, Capacity(round(needed) + 1))
    assert [change.words for change in first.changes] == ["ZeRO stage 3", "optimizer offload to the CPU"]
    assert others == []


def test_a_stage_is_changed_before_what_only_it_can_do():
    """At stage 0 nothing is offloaded, and parameters at stage 3 alone."""
    room = Capacity(round(estimate(changed(EIGHT, 3, ("optimizer", "param"))).gpu_bytes.most) + 1)
    (found,) = [one for one in advice(ONE_GPU._replace(ranks=8), room) if one.is_sure]
    keys = {write.key for write in found.writes}
    assert "zero_optimization.stage" in keys
    assert found.estimate.gpu_bytes.most <= room.gpu


def test_offload_that_the_host_cannot_hold_is_not_advised():
    gpu = estimate(changed(EIGHT, 2, ("optimizer",))).gpu_bytes.most / GIB + 0.1
    assert "optimizer offload to the CPU" not in words(EIGHT._replace(stage=2), gpu=gpu, host=320)
    assert "optimizer offload to the CPU" in words(EIGHT._replace(stage=2), gpu=gpu, host=9000)


def test_what_the_host_cannot_hold_comes_back():
    setup = EIGHT._replace(stage=3, optimizer_offload=CPU, uses_zero_init=True)
    without = estimate(setup._replace(optimizer_offload=None)).host_bytes.likely
    assert without < estimate(setup).host_bytes.least
    first, *_ = advice(setup, Capacity(1000 * GIB, round(without) + 1))
    assert (first.words, first.is_sure) == ("no offload", False)


def test_a_smaller_micro_batch_keeps_the_batch_size():
    setup = EIGHT._replace(micro_batch=8, accumulation_steps=2, stack="trainer")
    step = next(step for step in STEPS if step.__name__ == "_smaller_micro_batch")
    changes = list(step(setup))
    assert [change.setup.micro_batch for change in changes] == [4, 2, 1]
    assert all(change.setup.micro_batch * change.setup.accumulation_steps == 16 for change in changes)
    assert [write[:2] for write in changes[0].writes] == [
        ("arguments", "per_device_train_batch_size"),
        ("arguments", "gradient_accumulation_steps"),
    ]


def test_more_ranks_fill_nodes_of_eight():
    step = next(step for step in STEPS if step.__name__ == "_more_ranks")
    assert [(change.setup.ranks, change.setup.nodes) for change in step(ONE_GPU._replace(ranks=4))][:4] == [
        (8, 1), (16, 2), (32, 4), (64, 8),
    ]  # fmt: skip


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_row_of_the_config_is_its_estimate(stage):
    setup = EIGHT._replace(stage=stage, optimizer_offload=Offload("cpu", ratio=0.5) if stage == 3 else None)
    (row,) = [row for row in sweep(setup) if row.is_chosen]
    assert row.estimate == estimate(setup)


def test_stages_shard_more_and_offload_moves():
    rows = {(row.stage, row.offload): row.estimate for row in sweep(EIGHT._replace(uses_zero_init=True))}
    by_stage = [rows[stage, ()].gpu_bytes.likely for stage in (0, 1, 2, 3)]
    assert by_stage == sorted(by_stage, reverse=True)
    for stage in (1, 2, 3):
        moved = rows[stage, ("optimizer",)]
        assert moved.gpu_bytes.likely < rows[stage, ()].gpu_bytes.likely
        assert moved.host_bytes.likely > rows[stage, ()].host_bytes.likely
    assert rows[3, ("optimizer", "param")].gpu_bytes.likely < rows[3, ("optimizer",)].gpu_bytes.likely
