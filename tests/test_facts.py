"""What is known beside a config, and who says so."""

from __future__ import annotations

import pytest

from ds_lint.facts import Facts, Sources, UnreadableFact
from ds_lint.facts.gathering import gather


def test_a_fact_says_what_it_is_and_who_says_so():
    facts = gather(Sources(world_size=8, nodes=2))
    assert (facts.world_size, facts.nodes, facts.ranks_per_node) == (8, 2, 4)
    assert facts.origins == {"world size": "8, by --world-size", "nodes": "2, by --nodes"}


def test_without_sources_nothing_is_known():
    assert not Sources()
    assert gather(Sources()).origins == {}


def test_the_command_line_comes_before_a_settings_file():
    sources = Sources(world_size=8).over(Sources(world_size=4, nodes=2, said_by="ds-lint.toml"))
    assert gather(sources).origins == {"world size": "8, by --world-size", "nodes": "2, by ds-lint.toml"}


def test_ranks_that_do_not_spread_evenly_have_no_number_by_node():
    assert Facts(world_size=7, nodes=2).ranks_per_node is None


def test_more_nodes_than_ranks_is_one_line():
    with pytest.raises(UnreadableFact, match="4 nodes and 2 ranks"):
        gather(Sources(world_size=2, nodes=4))
