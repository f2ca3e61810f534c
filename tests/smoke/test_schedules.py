"""The learning rates that a config asks for, as worked examples."""

from __future__ import annotations

import math

import pytest

from ds_lint.knowledge import keys
from ds_lint.knowledge.keys import Target
from ds_lint.smoke.expected.schedules import default_rate, rates, trainer_rates

LINEAR = {"warmup_min_lr": 0.0, "warmup_max_lr": 0.3, "warmup_num_steps": 3, "warmup_type": "linear"}
CYCLE = {"cycle_min_lr": 0.1, "cycle_max_lr": 0.5, "cycle_first_step_size": 4, "cycle_second_step_size": 2}


def release(deepspeed):
    return keys.knowledge(Target(deepspeed))


# ------------------------------------------------------------------------------------------------------ DeepSpeed


def test_a_warmup_makes_its_first_two_steps_with_the_lowest_rate():
    assert rates("WarmupLR", LINEAR, 9.9, 6) == pytest.approx([0.0, 0.0, 0.1, 0.2, 0.3, 0.3])


def test_a_warmup_is_logarithmic_unless_the_config_says_otherwise():
    params = {"warmup_max_lr": 1.0, "warmup_num_steps": 4}
    assert rates("WarmupLR", params, 9.9, 6) == pytest.approx([0, 0, 0.5, math.log(3) / math.log(4), 1.0, 1.0])


def test_a_warmup_without_a_maximum_ends_at_the_rate_of_the_optimizer():
    assert rates("WarmupLR", {"warmup_num_steps": 2}, 0.25, 5)[-1] == 0.25


def test_a_warmup_without_a_maximum_ended_at_a_thousandth_in_older_releases():
    assert rates("WarmupLR", {"warmup_num_steps": 2}, 0.25, 5, release("0.17.1"))[-1] == 0.001


def test_the_rate_of_the_optimizer_means_nothing_beside_a_maximum():
    assert rates("WarmupLR", LINEAR, 1.0, 6) == rates("WarmupLR", LINEAR, 2.0, 6)


def test_a_warmup_takes_two_steps_at_least():
    assert rates("WarmupLR", {**LINEAR, "warmup_num_steps": 1}, 9.9, 4) == pytest.approx([0.0, 0.0, 0.15, 0.3])


def test_a_decay_falls_to_the_lowest_rate_and_stays_there():
    found = rates("WarmupDecayLR", {**LINEAR, "total_num_steps": 6}, 9.9, 9)
    assert found == pytest.approx([0.0, 0.0, 0.1, 0.2, 0.3, 0.2, 0.1, 0.0, 0.0])


def test_a_decay_defaults_to_a_thousandth():
    assert max(rates("WarmupDecayLR", {"warmup_num_steps": 2, "total_num_steps": 9}, 0.25, 9)) == 0.001


def test_a_cosine_makes_its_first_step_with_nothing_whatever_its_lowest_ratio():
    params = {"warmup_min_ratio": 0.5, "warmup_num_steps": 2, "total_num_steps": 4, "warmup_type": "linear"}
    found = rates("WarmupCosineLR", {**params, "cos_min_ratio": 0.0}, 0.8, 7)
    assert found == pytest.approx([0.0, 0.4, 0.6, 0.4, 0.0, 0.0, 0.0])


def test_a_cycle_rises_falls_and_stays():
    assert rates("OneCycle", CYCLE, 9.9, 9) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.3, 0.1, 0.1, 0.1])


def test_a_cycle_decays_where_the_config_says_at_which_rate_and_how_often():
    decaying = {**CYCLE, "decay_lr_rate": 1.0, "decay_step_size": 2}
    assert rates("OneCycle", decaying, 9.9, 9)[6:] == pytest.approx([0.1, 0.1 / 1.5, 0.1 / 2])
    assert rates("OneCycle", {**CYCLE, "decay_lr_rate": 1.0}, 9.9, 9)[6:] == [0.1, 0.1, 0.1]


def test_a_cycle_may_go_up_and_down_stairs():
    stairs = {**CYCLE, "cycle_first_stair_count": 2, "cycle_second_stair_count": 1}
    assert rates("OneCycle", stairs, 9.9, 7) == pytest.approx([0.1, 0.1, 0.3, 0.3, 0.5, 0.1, 0.1])
    assert rates("OneCycle", stairs, 9.9, 7, release("0.19.3")) is None


def test_a_stair_is_climbed_at_its_step_whatever_a_division_leaves():
    stairs = {**CYCLE, "cycle_min_lr": 0.0, "cycle_max_lr": 1.0, "cycle_first_step_size": 22}
    assert rates("OneCycle", {**stairs, "cycle_first_stair_count": 22}, 9.9, 16)[15] == 15 / 22


def test_a_range_test_rises_steadily_or_in_stairs():
    params = {"lr_range_test_min_lr": 0.1, "lr_range_test_step_size": 2}
    assert rates("LRRangeTest", params, 9.9, 5) == pytest.approx([0.1, 0.15, 0.2, 0.25, 0.3])
    stairs = {**params, "lr_range_test_staircase": True}
    assert rates("LRRangeTest", stairs, 9.9, 5) == pytest.approx([0.1, 0.1, 0.2, 0.2, 0.3])


def test_a_list_is_for_the_parameter_groups():
    found = rates("WarmupLR", {**LINEAR, "warmup_max_lr": [0.3, 0.6]}, 9.9, 4)
    assert found == [pytest.approx(each) for each in ([0.0, 0.0], [0.0, 0.0], [0.1, 0.2], [0.2, 0.4])]
    of_two_groups = rates("WarmupLR", {"warmup_num_steps": 2}, [0.25, 0.5], 4)
    assert of_two_groups[-1] == [0.25, 0.5]


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("StepLR", {"step_size": 2}),
        ("warmuplr", LINEAR),
        ("*", {}),
        ("WarmupLR", {**LINEAR, "warmup_max_lr": "auto"}),
        ("WarmupLR", {**LINEAR, "warmup_num_steps": "auto"}),
        ("WarmupLR", {**LINEAR, "warmup_num_steps": 0}),
        ("WarmupLR", {**LINEAR, "warmup_num_steps": 3.0}),
        ("WarmupLR", {**LINEAR, "warmup_steps": 3}),
        ("WarmupLR", {**LINEAR, "last_batch_iteration": 3}),
        ("WarmupLR", {**LINEAR, "warmup_min_lr": [0.0, 0.0], "warmup_max_lr": [0.1, 0.2, 0.3]}),
        ("WarmupDecayLR", LINEAR),
        ("OneCycle", {"cycle_min_lr": 0.1}),
        ("OneCycle", {**CYCLE, "cycle_max_lr": [0.5, 0.6]}),
        ("OneCycle", {**CYCLE, "cycle_first_step_size": 0}),
        ("LRRangeTest", {"lr_range_test_min_lr": "auto", "lr_range_test_staircase": True}),
        ("LRRangeTest", {"lr_range_test_step_size": 2.5}),
    ],
)
def test_nothing_is_claimed_of_what_is_not_known_or_refused(kind, params):
    assert rates(kind, params, 0.1, 4) is None


def test_nothing_is_claimed_of_releases_with_other_formulas():
    cosine = {"warmup_num_steps": 2, "total_num_steps": 4}
    assert rates("WarmupCosineLR", cosine, 0.1, 4, release("0.19.2")) is None
    assert rates("WarmupLR", LINEAR, 0.1, 4, release("0.15.2")) is None
    assert rates("WarmupLR", {}, [0.1, 0.2], 4, release("0.19.3")) is None


# --------------------------------------------------------------------------------------------------- the Trainer


@pytest.mark.parametrize(
    ("name", "kwargs", "shares"),
    [
        ("constant", None, [1, 1, 1, 1, 1, 1, 1]),
        ("constant_with_warmup", None, [0, 0.5, 1, 1, 1, 1, 1]),
        ("linear", None, [0, 0.5, 1, 0.75, 0.5, 0.25, 0]),
        ("cosine", None, [0, 0.5, 1, (2 + math.sqrt(2)) / 4, 0.5, (2 - math.sqrt(2)) / 4, 0]),
        ("cosine", {"num_cycles": 1}, [0, 0.5, 1, 0.5, 0, 0.5, 1]),
        ("cosine_with_restarts", {"num_cycles": 2}, [0, 0.5, 1, 0.5, 1, 0.5, 0]),
        ("cosine_with_min_lr", {"min_lr_rate": 0.5}, [0, 0.5, 1, (6 + math.sqrt(2)) / 8, 0.75, None, 0.5]),
        ("cosine_with_min_lr", {"min_lr": 0.05}, [0, 0.5, 1, (6 + math.sqrt(2)) / 8, 0.75, None, 0.5]),
        ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.5}, [0.5, 1, (6 + math.sqrt(2)) / 8, 0.75, None, 0.5, None]),
        ("polynomial", {"lr_end": 0.05}, [0, 0.5, 1, 0.875, 0.75, 0.625, 0.5]),
        ("polynomial", {"lr_end": 0.0, "power": 2}, [0, 0.5, 1, 0.5625, 0.25, 0.0625, 0]),
        ("inverse_sqrt", None, [0, 0.5, 1, math.sqrt(2 / 3), math.sqrt(1 / 2), math.sqrt(2 / 5), math.sqrt(1 / 3)]),
        ("warmup_stable_decay", {"num_decay_steps": 2, "decay_type": "linear"}, [0, 0.5, 1, 1, 1, 0.5, 0]),
    ],
)
def test_the_shape_of_a_training_arguments_scheduler(name, kwargs, shares):
    found = trainer_rates(name, 0.1, 2, 6, 7, kwargs)
    assert [None if share is None else rate for share, rate in zip(shares, found, strict=True)] == [
        None if share is None else pytest.approx(share * 0.1, abs=1e-15) for share in shares
    ]


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("reduce_lr_on_plateau", None),
        ("greedy", None),
        ("linear", {"num_cycles": 1}),
        ("polynomial", {"lr_end": 0.1}),
        ("cosine_with_min_lr", None),
        ("cosine_with_min_lr", {"min_lr": 0.01, "min_lr_rate": 0.1}),
        ("inverse_sqrt", {"timescale": 0}),
        ("warmup_stable_decay", None),
        ("warmup_stable_decay", {"num_decay_steps": 2, "decay_type": "steep"}),
        ("warmup_stable_decay", {"num_decay_steps": 2, "min_lr_ratio": 0.1}),  # releases differ
    ],
)
def test_nothing_is_claimed_of_what_needs_metrics_or_is_refused(name, kwargs):
    assert trainer_rates(name, 0.1, 2, 6, 7, kwargs) is None


def test_nothing_is_claimed_where_the_epochs_decide_the_number_of_steps():
    assert trainer_rates("linear", 0.1, 0, -1, 4) is None


# ------------------------------------------------------------------------------------------------- the optimizer


def test_an_optimizer_without_a_rate_has_that_of_its_constructor():
    assert default_rate("AdamW") == 0.001
    assert default_rate("Adagrad") == 0.01
    assert default_rate("Adadelta") == 1.0


def test_muon_has_two_rates_and_what_there_is_not_has_none():
    assert default_rate("Muon") is None
    assert default_rate("Adamm") is None


def test_an_optimizer_that_only_older_releases_have():
    assert default_rate("OneBitAdam", release("0.19.6")) == 0.001
    assert default_rate("OneBitAdam", release("0.19.7")) is None
