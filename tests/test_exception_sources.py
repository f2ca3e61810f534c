"""From the sources of releases, and from runs, to records of what exceptions mean."""

from __future__ import annotations

import json

import pytest

from tools.exceptions import answers, history, others, runs, store
from tools.exceptions.answers import Answer, Answered
from tools.exceptions.history import Key, Past, Worded

SOURCE = """
KNOWN = {"a": "The key a was removed.", "b": f"The key b was removed{1}."}
LIMIT = "at most 3"


def told(name):
    if name:
        return f"Two groups of {name}"
    return None


class Engine:
    def check(self, stage, names):
        assert stage, f"no {stage}   in "\\
            f"{names}"
        assert names
        if stage > 3:
            message = "stage {} is "
            message += "not %s" % names
            raise ValueError(message.format(stage))
        if stage > 2:
            error = KeyError("stage")
            raise error
        if stage > 1:
            raise RuntimeError("got %d of %s%%" % (stage, names) + LIMIT)
        for key, text in KNOWN.items():
            raise ConfigError(text)
        raise TypeError(told(names)) from None
"""


def test_the_pieces_of_a_message():
    found = [(site.key.raises, site.key.message) for site in history.worded(SOURCE.encode(), "engine.py")]
    assert found == [
        ("AssertionError", ("no ", None, " in ", None)),
        ("AssertionError", None),
        ("ValueError", ("stage ", None, " is not ", None)),
        ("KeyError", (None, "stage", None)),
        ("RuntimeError", ("got ", None, " of ", None, "%at most 3")),
        ("ConfigError", ("The key a was removed.",)),
        ("ConfigError", ("The key b was removed", None, ".")),
        ("TypeError", ("Two groups of ", None)),
    ]


def site(message, *, function="Engine.check", when=("a > b",), module="deepspeed/engine.py"):
    return Worded(Key(module, function, "ValueError", message), when, str(message))


@pytest.mark.parametrize(
    ("older", "is_found"),
    [
        (site(("other words",)), True),  # the same condition in the same function
        (site(("this text has enough words of its own ", None), module="deepspeed/old.py", when=()), True),
        (site(("this text had enough words of its own ", None), when=()), True),
        (site(("this text had enough words of its own ", None), when=(), function="Engine.later"), True),
        (site(("short ", None), when=()), False),
        (site(("something about a key that is not at all like it",), when=()), False),
    ],
)
def test_a_site_of_an_older_release_has_the_answer_of_its_successor(older, is_found):
    known = [Answered(site(("this text has enough words of its own ", None)), Answer(("DS201",)))]
    assert answers.successors(older, known) == ([Answer(("DS201",))] if is_found else [])


def test_a_span_is_the_first_release_and_the_first_without():
    one, two = site(("one",)), site(("two",))
    past = Past("deepspeed", ["1.0", "1.1", "1.2"], [{one}, {one, two}, {two}])
    assert past.spans() == {one.key: (None, "1.2"), two.key: ("1.1", None)}


def line(message, **more):
    return {
        "raises": "TypeError",
        "message": message,
        "frames": [["deepspeed/runtime/engine.py", "_configure"], ["torch/optim/adam.py", "__init__"]],
        "rules": ["DS503"],
        "keys": ["optimizer.params.bta"],
        "words": ["bta", "AdamW"],
        "release": "1.0",
        **more,
    }


def test_what_comes_from_the_example_is_left_open():
    (record,) = runs.together([], [line("AdamW.__init__() got 2 unexpected keyword arguments, 'bta'")], [])
    assert record == {
        "module": "torch/optim/adam.py",
        "function": "__init__",
        "raises": "TypeError",
        "message": [None, "__init__() got ", None, " unexpected keyword arguments, '", None, "'"],
        "through": "deepspeed/runtime/engine.py:_configure",
        "keys": ["optimizer.params.bta"],
        "releases": ["1.0"],
        "rules": ["DS503"],
        "proof": "run",
    }


def test_runs_that_end_alike_are_one_record_and_a_rule_that_is_alone_is_the_cause():
    lines = [
        line("got 'bta'"),
        line("got 'gamma'", keys=["optimizer.params.gamma"]),
        line("got 'x'", rules=["DS101", "DS503"]),
        line("got 'y'", rules=["DS504"]),
    ]
    (record,) = runs.together([], lines, [])
    assert record["rules"] == ["DS503", "DS504"]
    assert "keys" not in record


def test_a_run_that_ends_at_a_known_site_adds_nothing():
    known = {
        "module": "torch/optim/adam.py",
        "function": "Adam.__init__",
        "raises": "TypeError",
        "message": ["got ", None],
    }
    assert runs.together([], [line("got 1")], [known | {"rules": ["DS503"]}]) == []
    (record,) = runs.together([], [line("got 1")], [known | {"reason": "script", "because": "It is so."}])
    assert (record["message"], record["rules"]) == (["got ", None], ["DS503"])
    ((_, other),) = runs.unexplained([line("got 1")], [known | {"rules": ["DS101"]}])
    assert other["rules"] == ["DS101"]


def test_another_release_adds_its_rules_and_its_number():
    stored = runs.together([], [line("got 'bta'")], [])
    (record,) = runs.together(stored, [line("got 'bta'", rules=["DS109"], release="0.9")], [])
    assert (record["rules"], record["releases"]) == (["DS503", "DS109"], ["0.9", "1.0"])


def test_the_records_that_were_stored_stay():
    stored = store.records(store.load(), "run")
    assert stored
    assert runs.together(stored, [], []) == sorted(stored, key=runs._place)


def test_a_record_is_a_line():
    content = store.load()
    entries = [{"module": module, **entry} for module, found in content["modules"].items() for entry in found]
    text = store.STORE.read_text(encoding="utf-8")
    assert text == store.text(content["releases"], entries)
    assert sum(json.loads(one.strip().rstrip(",")) != {} for one in text.splitlines() if one.startswith("   {")) == len(
        entries
    )


@pytest.mark.parametrize("library", ["deepspeed", "transformers", "accelerate"])
def test_every_reviewed_row_has_one_answer_with_a_known_reason(library):
    for row in answers.Rows(library).rows:
        given = [name for name in ("rules", "reason", "also", "first") if name in row]
        assert len(given) == 1, row
        assert row.get("reason", "script") in answers.REASONS, row
        assert ("reason" in row) == ("because" in row), row


def test_what_is_by_hand_is_in_the_store():
    stored = store.records(store.load(), "source")
    assert [one for one in others.of_others() if one not in stored] == []


def test_the_words_of_reasons_are_known():
    stored = store.records(store.load(), "source")
    assert {one["reason"] for one in stored if "reason" in one} <= answers.REASONS.keys()
