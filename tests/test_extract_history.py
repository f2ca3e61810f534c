"""A store gives back every release as it was put in, and shows what changed and when."""

from __future__ import annotations

import pytest

from tools.extract.history import at, changes, merged

EMPTY = {"library": "made", "releases": []}


def store_of(releases):
    store = EMPTY
    for release, facts in releases.items():
        store = merged(store, release, facts)
    return store


RELEASES = {
    "1.9.0": {"fills": {"lr": {"from": "learning_rate"}, "eps": {"from": "adam_epsilon"}}},
    "1.10.0": {"fills": {"lr": {"from": "learning_rate"}, "steps": {"from": "warmup_steps"}}},
    "2.0.0": {"fills": {"lr": {"from": "learning_rate"}, "steps": {"from": "max(1, warmup_steps)"}}},
}


def test_what_never_changed_stands_there_itself_and_the_rest_in_runs():
    assert store_of(RELEASES) == {
        "library": "made",
        "releases": ["1.9.0", "1.10.0", "2.0.0"],
        "fills": {
            "eps": {"runs": [{"since": "1.9.0", "until": "1.9.0", "from": "adam_epsilon"}]},
            "lr": {"from": "learning_rate"},
            "steps": {
                "runs": [
                    {"since": "1.10.0", "until": "1.10.0", "from": "warmup_steps"},
                    {"since": "2.0.0", "from": "max(1, warmup_steps)"},
                ]
            },
        },
    }


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_is_given_back(release):
    assert at(store_of(RELEASES), release) == RELEASES[release]


def test_the_order_in_which_releases_are_put_in_does_not_matter():
    assert store_of(dict(reversed(RELEASES.items()))) == store_of(RELEASES)


def test_a_release_that_is_put_in_again_takes_the_place_of_what_was_there():
    store = merged(store_of(RELEASES), "1.9.0", RELEASES["1.10.0"])
    assert at(store, "1.9.0") == at(store, "1.10.0") == RELEASES["1.10.0"]
    assert at(store, "2.0.0") == RELEASES["2.0.0"]


def test_a_table_that_only_some_releases_have_is_empty_in_the_others():
    store = merged(store_of(RELEASES), "3.0.0", {"fills": {}, "inserts": {"fp16": {"with": "on"}}})
    assert at(store, "2.0.0") == {**RELEASES["2.0.0"], "inserts": {}}
    assert at(store, "3.0.0") == {"fills": {}, "inserts": {"fp16": {"with": "on"}}}


def test_a_record_that_comes_back_has_two_runs():
    store = store_of({"1.0": {"yaml": {"debug": {}}}, "1.1": {"yaml": {}}, "1.2": {"yaml": {"debug": {}}}})
    assert store["yaml"]["debug"] == {"runs": [{"since": "1.0", "until": "1.0"}, {"since": "1.2"}]}


def test_changes_between_two_releases():
    assert changes(RELEASES["1.9.0"], RELEASES["1.10.0"]) == [
        "fills: `eps` is gone",
        'fills: `steps` is new: from "warmup_steps"',
    ]
    assert changes(RELEASES["1.10.0"], RELEASES["2.0.0"]) == [
        'fills: `steps`: from "warmup_steps" became "max(1, warmup_steps)"'
    ]
    assert changes(RELEASES["2.0.0"], RELEASES["2.0.0"]) == []


def test_a_fact_that_appears_or_vanishes_is_named():
    before, after = {"fields": {"debug": {"default": None}}}, {"fields": {"debug": {"type": "bool"}}}
    assert changes(before, after) == ['fields: `debug`: default null became nothing, type nothing became "bool"']
