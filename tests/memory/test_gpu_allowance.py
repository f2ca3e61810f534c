"""The allowance for what is beside the tensors."""

from __future__ import annotations

from ds_lint.diagnostics.amounts import GIB
from ds_lint.memory.allowance import allowance
from ds_lint.memory.band import NOTHING, Band


def test_one_rank_has_no_buffers_of_communication():
    alone, together = allowance(NOTHING, 1), allowance(NOTHING, 8)
    assert alone.least < together.least
    assert alone.most < together.most


def test_fragmentation_is_a_share_of_what_is_held():
    held = Band(10 * GIB, 20 * GIB, 30 * GIB)
    more, none = allowance(held, 8), allowance(NOTHING, 8)
    assert more.least == none.least  # an allocator may lose nothing
    assert more.likely - none.likely == 0.05 * held.likely
    assert round(more.most - none.most) == round(0.2 * held.most)
