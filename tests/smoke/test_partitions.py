"""The arithmetic of shares, on examples that can be checked by hand."""

from __future__ import annotations

import pytest

from ds_lint.smoke.expected.partitions import Layout, in_partition, partition, touched
from ds_lint.smoke.records.job import TrainedParameter


def parameters(*sizes, group=0):
    return [TrainedParameter(f"weight {place}", size, group) for place, size in enumerate(sizes)]


def test_a_middle_rank_has_two_border_parameters():
    # | 0 .. 9 | 10 .. 19 | 20 .. 29 |, and the parameters are 0 .. 5, 6 .. 15, 16 .. 23 and 24 .. 28.
    model = parameters(6, 10, 8, 5)
    assert partition(model, 2, 3) == 10
    assert touched(model, 3, Layout()) == [16, 18, 13]
    assert in_partition(model, 3, Layout()) == [10, 10, 9]


def test_a_parameter_that_is_larger_than_a_share_is_whole_on_each_of_its_ranks():
    assert touched(parameters(2, 30, 4), 4, Layout()) == [32, 30, 30, 34]


def test_a_share_of_padding_alone_has_no_gradients():
    model = parameters(1, 1)
    assert partition(model, 1, 4) == 2
    assert touched(model, 4, Layout()) == [2, 0, 0, 0]


def test_each_group_is_divided_by_itself():
    model = [*parameters(7, 4), *parameters(3, group=1)]
    assert partition(model, 2, 2) == 6 + 2
    assert touched(model, 2, Layout()) == [7 + 3, 11 + 3]
    assert in_partition(model, 2, Layout()) == [6 + 2, 5 + 1]


def test_aligned_parameters_leave_gaps():
    # 0 .. 4, a gap of 3, 8 .. 10: 11 elements in two shares of 6.
    layout = Layout(alignment=8)
    assert partition(parameters(5, 3), 2, 2, layout) == 6
    assert in_partition(parameters(5, 3), 2, layout) == [5, 3]


def test_round_robin_gives_neighbours_to_different_ranks():
    layout = Layout(is_round_robin=True)  # 4, 2, then 3, 1
    assert touched(parameters(4, 3, 2, 1), 2, layout) == [6, 4]
    assert touched(parameters(4, 3, 2, 1), 2, Layout()) == [7, 6]


@pytest.mark.parametrize(("ranks", "share"), [(2, 5 + 2), (3, 4 + 1), (8, 2 + 1)])
def test_stage_3_divides_each_parameter(ranks, share):
    assert partition(parameters(10, 3), 3, ranks) == share


def test_the_ranks_with_the_same_experts_share_them():
    # Of 4 ranks, 0 and 2 hold the same expert, and so do 1 and 3.
    model = [*parameters(10), TrainedParameter("expert", 7, expert_ranks=2)]
    assert partition(model, 2, 4) == 4 + 4
    assert in_partition(model, 4, Layout()) == [4 + 4, 4 + 4, 2 + 3, 0 + 3]
    assert touched(model, 4, Layout()) == [17, 17, 17, 7]
