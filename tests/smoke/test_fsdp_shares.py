"""The arithmetic of FSDP's shares, on examples that can be checked by hand, and what the check says of wrong ones."""

from __future__ import annotations

import pytest

from ds_lint.smoke.expected.fsdp_shares import alignment, of_flat, of_rows
from ds_lint.smoke.records.fsdp import FSDP1, FSDP2, FsdpHolding, FsdpUnit, ParameterShard, plain_name
from ds_lint.smoke.verify.fsdp_shares import of_trained, parameters


def pieces(share):
    return [(one.begin, one.start, one.elements) for one in share.pieces]


def test_a_flat_parameter_is_cut_into_equal_parts():
    # 0 .. 4 and 5 .. 10: three parts of 4, the last with a single element and 3 that pad it.
    shares = [of_flat([5, 6], 3, rank) for rank in range(3)]
    assert [one.stored for one in shares] == [4, 4, 4]
    assert pieces(shares[0]) == [(0, 0, 4), (0, 0, 0)]
    assert pieces(shares[1]) == [(0, 4, 1), (1, 0, 3)]
    assert pieces(shares[2]) == [(0, 0, 0), (0, 3, 3)]


def test_original_parameters_start_at_multiples_of_16_bytes():
    # In 16 bit at multiples of 8: 0 .. 4, and 8 .. 13; padded to 15 for 3 ranks.
    aligned_to = alignment(2, keeps_original=True)
    assert (aligned_to, alignment(4, keeps_original=True), alignment(2, keeps_original=False)) == (8, 4, 0)
    shares = [of_flat([5, 6], 3, rank, aligned_to=aligned_to) for rank in range(3)]
    assert [one.stored for one in shares] == [5, 5, 5]
    assert [one.elements for one in shares] == [5, 2, 4]


def test_without_sharding_a_flat_parameter_is_padded_for_all_ranks():
    assert of_flat([5, 6], 1, 0, aligned_to=4, padded_to=4).stored == 16


def test_version_2_divides_rows():
    # 5 rows of 3 on 4 ranks: 2, 2, 1 and none; each stores two.
    shares = [of_rows([(5, 3)], 4, rank) for rank in range(4)]
    assert [one.stored for one in shares] == [6, 6, 6, 6]
    assert [one.elements for one in shares] == [6, 6, 3, 0]
    assert [one.pieces[0].start for one in shares] == [0, 6, 12, 0]


def holdings(*elements, stored=(6, 6), version=FSDP2, ranks=2):
    found = []
    for place, number in enumerate(elements):
        shard = ParameterShard("layer.weight", (4, 3), 6 * place, number, "float32", "cpu")
        unit = FsdpUnit(("layer",), ranks, place, 1, stored[place], (shard,), None, None)
        found.append(FsdpHolding(version, (unit,), (), ()))
    return found


def test_shares_that_fit_pass():
    check = parameters(holdings(6, 6), "key", 2)
    assert (check.status, check.expected, check.observed) == ("pass", [6, 6], [6, 6])
    assert of_trained("gradients", "gradients", [6, 6], holdings(6, 6), "key", 2).status == "pass"


@pytest.mark.parametrize(
    ("held", "ranks", "message"),
    [
        (
            holdings(6, 6, stored=(6, 12)),
            2,
            "rank 1 keeps 12 elements of the unit layer, but its share on 2 ranks is 6",
        ),
        (holdings(6, 3), 2, "rank 1 has 3 of 12 elements of layer.weight, not 6"),
        (holdings(12, 12, stored=(12, 12), ranks=1), 2, "1 ranks divide the unit layer, not 2"),
    ],
)
def test_other_shares_fail(held, ranks, message):
    check = parameters(held, "key", ranks)
    assert (check.status, check.message) == ("fail", message)


def test_a_rank_with_more_states_fails():
    check = of_trained("optimizer-states", "exp_avg", [6, 12], holdings(6, 6), "key", 2)
    assert check.status == "fail"
    assert check.message == "rank 1 holds 12 elements of exp_avg, but its share of the 12 that are trained is 6"


def test_the_optimizer_of_version_1_updates_what_pads_a_flat_parameter():
    shard = ParameterShard("weight", (5,), 0, 3, "float32", "cpu")
    unit = FsdpUnit(("",), 2, 0, 1, 3, (shard,), "float32", "float32", keeps_original=False)
    assert of_trained("gradients", "gradients", [3], [FsdpHolding(FSDP1, (unit,), (), ())], "key").status == "pass"


def test_names_have_no_wrappers():
    assert plain_name("_fsdp_wrapped_module.model._checkpoint_wrapped_module.norm.weight") == "model.norm.weight"
