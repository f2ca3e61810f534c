"""What ``ds-lint memory`` says of runs whose memory is published."""

from __future__ import annotations

import pytest

from tools.published.__main__ import PAGE, page
from tools.published.comparison import compare
from tools.published.runs import runs

FOUND = [compare(run) for run in runs()]
RUNS = [pytest.param(one, id=f"{one.run.source}, {one.run.name}") for one in FOUND]


@pytest.mark.parametrize("one", RUNS)
def test_a_figure_is_within_the_band_or_has_a_reason(one):
    assert one.is_inside is ("why" not in one.run.fields), one.band


def test_most_figures_are_within_the_band_and_near_what_is_likely():
    assert sum(one.is_inside and not one.run.is_lower_bound for one in FOUND) >= 43
    assert sum(one.is_near for one in FOUND if not one.run.fails) >= 34


def test_the_page_shows_them():
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tools.published --write"


def test_a_figure_outside_is_noticed():
    one = FOUND[0]
    twice = one.run._replace(fields=one.run.fields | {"measured": 2 * one.run.fields["measured"]})
    assert not one._replace(run=twice).is_inside
    assert not one._replace(run=twice).is_near
