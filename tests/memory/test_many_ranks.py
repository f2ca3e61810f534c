"""What the fullest rank holds at stages 1 and 2, by the borders of the parameters and not by counting the ranks."""

from __future__ import annotations

import itertools

import pytest

from ds_lint.facts.tensors import Tensor
from ds_lint.footprint import partition
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.setup import TrainingSetup

SIZES = (("embed.weight", 97), ("layers.0.w", 16), ("layers.0.norm.weight", 3), ("layers.1.w", 40), ("h.1.bias", 7))
TENSORS = tuple(Tensor(name, size) for name, size in SIZES)


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 64, 999])
@pytest.mark.parametrize("changed", [{}, {"decays_apart": True}, {"is_round_robin": True}, {"aligns_parameters": True}])
def test_the_fullest_rank_is_found(ranks, changed):
    setup = TrainingSetup(TENSORS, ranks, 1, 2, {}, **changed)
    groups = partition._flat_tensors(setup)
    for pads in (True, False):
        held = [sum(one.touched(rank, pads=pads) for one in groups) for rank in range(ranks)]
        assert partition.touched(setup, pads=pads) == max(held)
        if pads:
            assert partition.holds_most(setup) == held.index(max(held))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_billion_ranks_take_no_longer_than_eight(stage):
    counted = itertools.count()
    touched = partition._Flat.touched

    def noted(self, *arguments, **keywords):
        next(counted)
        return touched(self, *arguments, **keywords)

    setup = TrainingSetup(TENSORS, 10**9, 1, stage, {}, is_round_robin=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(partition._Flat, "touched", noted)
        estimate(setup)
    assert next(counted) < 1000
