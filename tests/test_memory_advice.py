"""What makes a run fit: likely, and surely, from what costs the least, with its price, and on the host too."""

from __future__ import annotations

import pytest

from ds_lint.facts.tensors import Tensor
from ds_lint.footprint import changes
from ds_lint.footprint.advice import STEPS, advice, least_ranks
from ds_lint.footprint.capacity import Capacity
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.setup import Offload, TrainingSetup
from ds_lint.footprint.sweep import Combination, changed, sweep
from ds_lint.footprint.untrained import Untrained

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
    needed = estimate(changed(setup, Combination(3, ("optimizer",), "cpu"))).gpu_bytes.most
    assert needed < estimate(changed(setup, Combination(2, ("optimizer",), "cpu"))).gpu_bytes.least
    first, *others = advice(setup, Capacity(round(needed) + 1, 4000 * GIB))
    assert [change.words for change in first.changes] == ["ZeRO stage 3", "optimizer offload to the CPU"]
    assert others == []


def test_a_stage_is_changed_before_what_only_it_can_do():
    """At stage 0 nothing is offloaded, and parameters at stage 3 alone."""
    room = Capacity(round(estimate(changed(EIGHT, Combination(3, ("optimizer", "param"), "cpu"))).gpu_bytes.most) + 1)
    (found,) = [one for one in advice(ONE_GPU._replace(ranks=8), room) if one.is_sure]
    keys = {write.key for write in found.writes}
    assert "zero_optimization.stage" in keys
    assert found.estimate.gpu_bytes.most <= room.gpu


def test_offload_that_the_host_cannot_hold_is_not_advised():
    gpu = estimate(changed(EIGHT, Combination(2, ("optimizer",), "cpu"))).gpu_bytes.most / GIB + 0.1
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
    found = list(changes.smaller_micro_batch(setup))
    assert [change.setup.micro_batch for change in found] == [4, 2, 1]
    assert all(change.setup.micro_batch * change.setup.accumulation_steps == 16 for change in found)
    assert [write[:2] for write in found[0].writes] == [
        ("arguments", "per_device_train_batch_size"),
        ("arguments", "gradient_accumulation_steps"),
    ]


@pytest.mark.parametrize(
    ("ranks", "nodes", "within_reach"),
    [
        (1, 1, [(2, 1), (4, 1), (8, 1)]),
        (4, 1, [(8, 1), (16, 2)]),
        (16, 2, [(32, 4), (64, 8)]),
    ],
)
def test_more_ranks_are_those_of_a_node_or_a_few_times_as_many(ranks, nodes, within_reach):
    setup = ONE_GPU._replace(ranks=ranks, nodes=nodes)
    assert [(change.setup.ranks, change.setup.nodes) for change in changes.more_ranks(setup)] == within_reach


def test_who_has_one_gpu_is_not_advised_to_take_hundreds():
    """30 billion parameters in 8 GB: the model alone would fill many such GPUs."""
    capacity = Capacity(8 * GIB, 64 * GIB)
    setup = ONE_GPU._replace(stage=2)
    assert advice(setup, capacity) == []
    needed = least_ranks(setup, capacity)
    assert needed.estimate.setup.ranks > 8
    assert capacity.holds(needed.estimate, "likely")
    fewer = needed.estimate.setup._replace(ranks=needed.estimate.setup.ranks // 2)
    assert not capacity.holds(estimate(fewer._replace(nodes=-(-fewer.ranks // 8))), "likely")


def test_what_likely_fits_and_what_surely_fits_are_two_answers():
    stage_3 = estimate(EIGHT._replace(stage=3)).gpu_bytes
    assert stage_3.likely < stage_3.most
    room = round((stage_3.likely + stage_3.most) / 2)
    found = advice(EIGHT._replace(stage=2), Capacity(room, 9000 * GIB))
    likely = [one.words for one in found if not one.is_sure]
    surely = [one.words for one in found if one.is_sure]
    assert "ZeRO stage 3" in likely
    assert surely
    assert not set(likely) & set(surely)
    assert all(one.estimate.gpu_bytes.most <= room for one in found if one.is_sure)
    assert all(one.estimate.gpu_bytes.likely <= room < one.estimate.gpu_bytes.most for one in found if not one.is_sure)


def test_what_likely_fits_gets_advice_for_certainty_alone():
    band = estimate(EIGHT._replace(stage=3)).gpu_bytes
    found = advice(EIGHT._replace(stage=3), Capacity(round((band.likely + band.most) / 2), 9000 * GIB))
    assert found
    assert all(one.is_sure for one in found)


PRICES = {
    changes.checkpointing: {"speed"},
    changes.smaller_buckets: {"speed"},
    changes.stage_3: {"speed", "saving"},
    changes.optimizer_offload: {"speed"},
    changes.parameter_offload: {"speed"},
    changes.nvme: {"speed", "saving"},
    changes.smaller_micro_batch: {"speed"},
    changes.eight_bit_optimizer: {"precision"},
    changes.low_precision_states: {"precision"},
    changes.shorter_sequences: {"result"},
    changes.more_ranks: {"hardware", "result"},
}


@pytest.mark.parametrize("step", PRICES, ids=lambda step: step.__name__)
def test_each_change_names_its_price(step):
    setup = EIGHT._replace(stage=3, micro_batch=4, sequence_length=4096, decays_apart=True, reduce_bucket=5 * 10**8)
    if step is changes.stage_3:
        setup = setup._replace(stage=2)
    if step is changes.low_precision_states:
        setup = setup._replace(optimizer_offload=CPU)
    if step is changes.eight_bit_optimizer:
        setup = setup._replace(optimizer="adamw_torch", stack="trainer")
    made = list(step(setup))
    assert made
    assert all({price.kind for price in one.price} == PRICES[step] for one in made)


def test_every_step_of_the_advice_has_a_price_or_costs_nothing():
    free = {changes.without_offload, changes.sharded_loading, changes.fused_attention, changes.stage_2}
    assert set(STEPS) == free | PRICES.keys()


def test_whole_weights_that_are_gathered_are_saved_as_before():
    (one,) = changes.stage_3(EIGHT._replace(gathers_on_save=True))
    assert [price.kind for price in one.price] == ["speed"]


def test_a_gpu_without_bf16_gets_no_advice_about_bf16():
    """16-bit master weights are in bf16, which a T4 does not compute in."""
    setup = ONE_GPU._replace(stage=2, optimizer_offload=CPU)
    (change,) = changes.low_precision_states(setup)
    room = Capacity(9000 * GIB, round(estimate(change.setup).host_bytes.most) + 1)
    assert not room.holds(estimate(setup))
    assert "16-bit master weights" in [one.words for one in advice(setup, room)]
    assert "16-bit master weights" not in [one.words for one in advice(setup, room, has_bf16=False)]


def test_offload_that_no_usual_host_holds_is_not_advised():
    """480 GB of states on the host of one GPU; nothing is known of the host."""
    gpu = estimate(changed(ONE_GPU, Combination(3, ("optimizer", "param"), "cpu"))).gpu_bytes.most / GIB + 1
    assert not any("CPU" in one for one in words(ONE_GPU, gpu=gpu))
    assert any("CPU" in one for one in words(ONE_GPU, gpu=gpu, host=4000))


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_row_of_the_config_is_its_estimate(stage):
    setup = EIGHT._replace(stage=stage, optimizer_offload=Offload("cpu", ratio=0.5) if stage == 3 else None)
    (row,) = [row for row in sweep(setup) if row.is_chosen]
    assert row.estimate == estimate(setup)


def test_stages_shard_more_and_offload_moves():
    rows = {tuple(row.combination): row.estimate for row in sweep(EIGHT._replace(uses_zero_init=True))}
    by_stage = [rows[stage, (), None].gpu_bytes.likely for stage in (0, 1, 2, 3)]
    assert by_stage == sorted(by_stage, reverse=True)
    for stage in (1, 2, 3):
        moved = rows[stage, ("optimizer",), "cpu"]
        assert moved.gpu_bytes.likely < rows[stage, (), None].gpu_bytes.likely
        assert moved.host_bytes.likely > rows[stage, (), None].host_bytes.likely
    both = ("optimizer", "param")
    assert rows[3, both, "cpu"].gpu_bytes.likely < rows[3, ("optimizer",), "cpu"].gpu_bytes.likely
    assert rows[3, both, "nvme"].host_bytes.likely < rows[3, both, "cpu"].host_bytes.likely


def test_a_run_that_does_not_train_is_told_no_change_that_does_nothing():
    setup = ONE_GPU._replace(stage=3, untrained=Untrained("evaluation", 1, 512))
    needed = least_ranks(setup, Capacity(8 * GIB, 64 * GIB))
    named = {change.words for change in needed.changes}
    assert not named & {"activation checkpointing", "smaller buckets", "optimizer offload to the CPU"}
