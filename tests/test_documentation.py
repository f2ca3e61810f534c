"""The key reference: one entry for every key of the newest target, and for nothing else."""

from __future__ import annotations

import json
import re

import pytest

from ds_lint.knowledge import resources
from ds_lint.knowledge.keys import Knowledge

# Parameters without a default exist in their constructor only.
PARAMETERS = ("optimizer.params", "scheduler.params")


def dotted(path) -> str:
    return ".".join(path)


def paths(key):
    """Every path below a key; `0` is an element of an array, `*` a name of the user's own."""
    below = [child for name in key.names() if (child := key.child(name)) is not None and "removed" not in child.facts]
    if (item := key.item()) is not None:
        below.append(item)
    if (free := key.child("*")) is not None:
        below.append(free)
    for child in below:
        yield dotted(child.path)
        yield from paths(child)


def constructor_parameters(knowledge):
    """Every parameter that a constructor of DeepSpeed takes, as a path."""
    for section in PARAMETERS:
        for kind in knowledge.types(section):
            for constructor in knowledge.constructors(section, kind):
                for name in constructor.get("parameters", ()):
                    yield f"{section}.{name}"


@pytest.fixture(scope="module")
def knowledge():
    return Knowledge()


@pytest.fixture(scope="module")
def entries():
    with open(resources.path("schemas", "documentation.json"), encoding="utf-8") as file:
        return json.load(file)["keys"]


def test_every_key_has_an_entry(knowledge, entries):
    wanted = {*paths(knowledge.root), *constructor_parameters(knowledge)}
    assert wanted - entries.keys() == set()


def test_every_entry_is_for_a_key(knowledge, entries):
    known = {*paths(knowledge.root), *constructor_parameters(knowledge)}
    assert entries.keys() - known == set()


def test_entries_stand_in_the_order_of_the_keys(knowledge, entries):
    order = [dotted(key.path) for key in knowledge.everywhere()]
    documented = set(order)
    assert [path for path in entries if path in documented] == order


def test_an_entry_is_one_or_two_sentences(entries):
    for path, entry in entries.items():
        text = entry["text"]
        assert text == " ".join(text.split()), path
        assert text.endswith("."), path
        assert len(re.findall(r"\.(?= [A-Z]|$)", text)) <= 2, path


def test_an_entry_has_text_and_link_and_nothing_else(entries):
    for path, entry in entries.items():
        assert list(entry) == ["text", "url"], path
        url = entry["url"]
        assert url is None or re.fullmatch(r"https://\S+", url), path


def test_keys_that_an_entry_points_to_exist(knowledge, entries):
    """A dotted path in a text is a key, as it is written or below the entry's own section."""
    for path, entry in entries.items():
        section = path.rpartition(".")[0]
        for mention in re.findall(r"\b[a-z]\w*(?:\.[a-z]\w+)+\b", entry["text"]):
            if mention.split(".")[0] in {"deepspeed", "torch", "engine", "model"}:
                continue
            assert any(
                knowledge.find(tuple(candidate.split("."))) for candidate in (mention, f"{section}.{mention}")
            ), (path, mention)
