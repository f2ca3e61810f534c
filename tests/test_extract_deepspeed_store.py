"""The store of DeepSpeed's facts: what goes in comes out, for every release, and in which shape it lies there."""

from __future__ import annotations

import copy
import json

import pytest

from tools.extract import deepspeed
from tools.extract.deepspeed import at, changes, merged

EMPTY = {"library": "deepspeed", "releases": []}


def release(keys, reader="json", **constructors):
    root = {"type": "object", "unknown": "ignored", "keys": keys}
    return {"reader": reader, "root": root, "constructors": {"optimizer.params": constructors} if constructors else {}}


def store_of(**releases):
    store = EMPTY
    for name, facts in releases.items():
        store = merged(store, name.strip("v").replace("_", "."), facts)
    return store


ADAM = [{"callee": "Adam", "closed": True, "parameters": {"lr": 0.001}}]
FIRST = release({"steps": {"type": "integer", "default": 10}, "amp": {"type": "object"}}, adam=ADAM)
SECOND = release({"steps": {"type": "integer", "default": None}, "amp": {"removed": True}}, "hjson", adam=ADAM)


def test_a_key_that_never_changed_carries_its_facts_itself():
    store = store_of(v0_9_0=FIRST, v0_10_0=FIRST)
    assert store["root"] == FIRST["root"]


def test_runs_end_and_begin_where_something_changed():
    store = store_of(v0_9_0=FIRST, v0_10_0=SECOND)
    assert store["root"]["keys"]["steps"] == {
        "runs": [
            {"until": "0.9.0", "type": "integer", "default": 10},
            {"since": "0.10.0", "type": "integer", "default": None},
        ]
    }
    assert store["reader"] == [{"until": "0.9.0", "is": "json"}, {"since": "0.10.0", "is": "hjson"}]
    assert store["constructors"]["optimizer.params"]["adam"] == [
        {"since": "0.9.0", "until": "0.10.0", "callables": ADAM}
    ]


def test_a_release_in_the_middle_is_ordered_by_its_number():
    store = store_of(v0_9_0=FIRST, v0_10_0=FIRST, v0_9_5=SECOND)
    assert store["releases"] == ["0.9.0", "0.9.5", "0.10.0"]
    assert store["root"]["keys"]["amp"]["runs"] == [
        {"until": "0.9.0", "type": "object"},
        {"since": "0.9.5", "until": "0.9.5", "removed": True},
        {"since": "0.10.0", "type": "object"},
    ]
    assert [at(store, name) for name in store["releases"]] == [FIRST, SECOND, FIRST]


def test_a_release_is_replaced():
    store = store_of(v0_9_0=FIRST, v0_10_0=SECOND)
    assert merged(store, "0.10.0", FIRST) == store_of(v0_9_0=FIRST, v0_10_0=FIRST)


def test_false_is_not_zero():
    store = store_of(v1_0_0=release({"key": {"default": 0}}), v1_0_1=release({"key": {"default": False}}))
    assert len(store["root"]["keys"]["key"]["runs"]) == 2


def test_a_node_that_only_holds_others_has_no_facts():
    group = {"group": True, "keys": {"bits": {"type": "integer"}}}
    facts = release({"groups": {"type": "object", "any_key": group}})
    store = store_of(v1_0_0=facts, v1_0_1=release({}))
    assert store["root"]["keys"]["groups"]["any_key"]["group"]
    assert at(store, "1.0.0") == facts
    assert "groups" not in at(store, "1.0.1")["root"].get("keys", {})


def test_a_section_may_go_while_keys_below_it_stay():
    section = {"type": "object", "keys": {"key": {"type": "integer"}}}
    later = {"group": True, "keys": {"key": {"type": "integer"}}}
    store = store_of(v1_0_0=release({"section": section}), v1_0_1=release({"section": later}))
    assert at(store, "1.0.0")["root"]["keys"]["section"] == section
    assert at(store, "1.0.1")["root"]["keys"]["section"] == later


def test_nothing_changed():
    assert changes(FIRST, FIRST) == []


def test_what_changed_is_said_in_lines():
    before = release(
        {
            "amp": {"type": "object"},
            "hideen_size": {"type": "integer"},
            "steps": {"type": "integer", "default": 10},
            "old": {"keys": {"a": {}, "b": {}}},
            "zero": {"unknown": "ignored"},
        },
        adam=ADAM,
        lamb=[],
    )
    after = release(
        {
            "amp": {"removed": True},
            "hidden_size": {"type": "integer"},
            "steps": {"type": "integer", "minimum": 0, "default": None},
            "new": {"default": 1},
            "zero": {"unknown": "rejected"},
        },
        reader="hjson",
        adam=[{"callee": "Adam", "closed": True, "parameters": {"lr": 0.001, "foreach": None}}],
        muon=[],
    )
    assert changes(before, after) == [
        "reader: json -> hjson",
        "refused `amp`",
        "renamed `hideen_size` to `hidden_size`",
        "new `new`, default 1",
        "no longer read `old` and 2 keys below",
        "default of `steps`: 10 -> null",
        "minimum of `steps`: nothing -> 0",
        'unknown keys of `zero`: "ignored" -> "rejected"',
        "`optimizer.params`: new type muon",
        "`optimizer.params`: type lamb is gone",
        "`optimizer.params` of adam: Adam(foreach): nothing -> null",
    ]


@pytest.fixture(scope="module")
def store():
    return json.loads(deepspeed.STORE.read_text(encoding="utf-8"))


def test_the_store_is_what_its_releases_make_it(store):
    newest = store["releases"][-1]
    assert json.dumps(merged(store, newest, at(store, newest))) == json.dumps(store)


def test_a_change_of_the_newest_release_leaves_the_others_alone(store):
    newest = store["releases"][-1]
    facts = copy.deepcopy(at(store, newest))
    facts["root"]["keys"]["steps_per_print"]["default"] = 7
    longer = merged(store, "999.0.0", facts)
    assert at(longer, "999.0.0") == facts
    assert all(at(longer, one) == at(store, one) for one in (store["releases"][0], "0.9.5", newest))
