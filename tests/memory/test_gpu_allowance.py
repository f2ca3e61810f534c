"""The allowance for what is beside the tensors."""

from __future__ import annotations

from ds_lint.diagnostics.amounts import GIB
from ds_lint.footprint.allowance import allowance
from ds_lint.footprint.band import NOTHING, Band
from ds_lint.knowledge import tables


def test_one_rank_has_no_buffers_of_communication():
    alone, together = allowance(NOTHING, 1), allowance(NOTHING, 8)
    assert alone.least < together.least
    assert alone.most < together.most


def test_fragmentation_is_a_share_of_what_is_held():
    held = Band(10 * GIB, 20 * GIB, 30 * GIB)
    more, none = allowance(held, 8), allowance(NOTHING, 8)
    share = tables.load("allowances")["fragmentation"]
    assert 0 <= share["least"] < share["likely"] < share["most"] < 1
    for bound in ("least", "likely", "most"):
        assert round(getattr(more, bound) - getattr(none, bound)) == round(share[bound] * getattr(held, bound))
