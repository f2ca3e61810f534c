"""``python -m tools.extract`` on trees made for it: what it prints, writes and refuses."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from tools.extract import __main__ as command
from tools.extract import history, reading
from tools.extract.losses import losses
from tools.extract.releases import UnavailableError


def extract(tree):
    """The facts of a made release: one fill for each line of a file."""
    text = (tree / "made" / "fills.txt").read_text(encoding="utf-8")
    if not text:
        raise LookupError("there is no fill")
    return {"fills": {name: {"from": value} for name, value in (line.split("=") for line in text.splitlines())}}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The store of a library that the command knows; every release lies in a folder of its own."""
    path = tmp_path / "made.json"
    library = SimpleNamespace(
        LIBRARY="made", STORE=path, extract=extract, at=history.at, merged=history.merged, changes=history.changes
    )
    monkeypatch.setattr(command, "LIBRARIES", {"made": library})
    monkeypatch.setattr(reading, "fetch", fetch)
    return path


def fetch(library, release, into):
    raise UnavailableError(f"pip: No matching distribution found for {library}=={release}")


@pytest.fixture
def tree(tmp_path):
    """A function that makes the tree of a release and returns the arguments that name it."""

    def make(release, text, *, installed=None):
        folder = tmp_path / release
        os.makedirs(folder / "made", exist_ok=True)
        (folder / "made" / "fills.txt").write_text(text, encoding="utf-8")
        if installed:
            (folder / f"made-{installed}.dist-info").mkdir()
        return ["made", release, "--tree", str(folder)]

    return make


def test_the_first_release_makes_the_store(store, tree, capsys):
    assert command.main(tree("1.0", "lr=learning_rate")) == 0
    assert capsys.readouterr().out == "made 1.0: the oldest in the store\n"
    assert json.loads(store.read_text()) == {
        "library": "made",
        "releases": ["1.0"],
        "fills": {"lr": {"from": "learning_rate"}},
    }


def test_the_next_release_is_told_as_what_changed(store, tree, capsys):
    command.main(tree("1.9", "lr=learning_rate"))
    command.main(tree("1.10", "lr=lr"))
    assert capsys.readouterr().out.endswith('made 1.10 (after 1.9)\n* fills: `lr`: from "learning_rate" became "lr"\n')
    assert command.main(tree("1.11", "lr=lr")) == 0
    assert capsys.readouterr().out == "made 1.11 (after 1.10)\n* nothing changed\n"


def test_the_store_is_written_as_it_stands_in_the_repository(store, tree):
    command.main(tree("1.0", "lr=β"))
    assert (
        store.read_text(encoding="utf-8")
        == json.dumps(json.loads(store.read_text()), indent=1, ensure_ascii=False) + "\n"
    )


def test_check_writes_nothing(store, tree, capsys):
    command.main(tree("1.0", "lr=learning_rate"))
    before = store.read_bytes()
    assert command.main([*tree("1.0", "lr=learning_rate"), "--check"]) == 0
    assert command.main([*tree("1.0", "lr=lr"), "--check"]) == 1
    assert store.read_bytes() == before
    assert capsys.readouterr().err.endswith("made.json differs from 1.0\n")


def test_a_merge_that_loses_something_is_not_written(store, tree, monkeypatch, capsys):
    command.main(tree("1.0", "lr=learning_rate"))
    before = store.read_bytes()
    broken = SimpleNamespace(**{**vars(command.LIBRARIES["made"]), "merged": lambda store, release, facts: store})
    monkeypatch.setattr(command, "LIBRARIES", {"made": broken})
    monkeypatch.setattr(broken, "at", lambda store, release: {"fills": store["fills"]})
    assert command.main(tree("1.1", "lr=lr")) == 2
    assert "says something else of made 1.1" in capsys.readouterr().err
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["other", "1.0"], "other is none of the libraries: made"),
        (["made", "latest"], "latest is not the number of a final release"),
        (["made", "9.9"], "pip: No matching distribution found for made==9.9"),
        (["made", "1.0", "1.1", "--tree", "."], "--tree holds one release, so name one"),
        (["made", "1.0", "--tree", "nowhere"], "there is no package made in nowhere"),
        (["made"], "the following arguments are required: release"),
    ],
)
def test_what_cannot_be_done_is_one_line(store, capsys, arguments, message):
    try:
        status = command.main(arguments)
    except SystemExit as stopped:
        status = stopped.code
    assert (status, capsys.readouterr().err) == (2, f"error: {message}\n")
    assert not store.exists()


def test_a_tree_of_another_release_is_refused(store, tree, capsys):
    assert command.main(tree("1.0", "lr=lr", installed="1.1")) == 2
    assert "holds made 1.1, not 1.0" in capsys.readouterr().err
    assert command.main(tree("1.2", "lr=lr", installed="1.2+local")) == 0


def test_a_release_that_is_laid_out_differently_is_refused(store, tree, capsys):
    assert command.main(tree("2.0", "")) == 2
    assert capsys.readouterr().err == (
        "error: the extractor does not know how made 2.0 is laid out: there is no fill\n"
    )


def test_an_extractor_that_stumbles_says_where(store, tree, capsys):
    assert command.main(tree("2.0", "lr")) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: the extractor does not know how made 2.0 is laid out: ValueError in ")
    assert error.count("\n") == 1


# A release that seems to do much less than the one before it

MANY = "\n".join(f"key{place}=value" for place in range(8))
FEW, HALF = ("\n".join(MANY.splitlines()[:count]) for count in (3, 4))


@pytest.fixture
def flags(store, monkeypatch):
    """The flags that the next release has beside its fills."""
    library, found = command.LIBRARIES["made"], {"--bf16": {"type": "bool"}}
    monkeypatch.setattr(library, "extract", lambda folder: {**extract(folder), "flags": dict(found)})
    return found


def test_a_release_that_loses_a_table_is_refused_unless_that_is_allowed(store, tree, flags, capsys):
    command.main(tree("1.0", "lr=lr"))
    before = store.read_bytes()
    flags.clear()
    assert command.main(tree("1.1", "lr=lr")) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: the extractor finds no flags in made 1.1; 1.0 has 1 (--allow-loss flags accepts that)"
    )
    assert store.read_bytes() == before
    assert command.main([*tree("1.1", "lr=lr"), "--allow-loss", "fills"]) == 2
    assert command.main([*tree("1.1", "lr=lr"), "--allow-loss", "fills", "--allow-loss", "flags"]) == 0


@pytest.mark.parametrize(("left", "status"), [(FEW, 2), (HALF, 0)])
def test_a_release_that_loses_more_than_half_of_many_records_is_refused(store, tree, capsys, left, status):
    command.main(tree("1.0", MANY))
    assert command.main(tree("1.1", left)) == status
    told = "the extractor finds 3 fills in made 1.1; 1.0 has 8" in capsys.readouterr().err
    assert told is (status == 2)


def test_a_few_records_may_go(store, tree):
    command.main(tree("1.0", FEW))
    assert command.main(tree("1.1", "key0=value")) == 0


def test_a_new_release_is_compared_with_the_one_before_it_by_number(store, tree):
    command.main(tree("1.0", FEW))
    command.main(tree("2.0", MANY))
    assert command.main(tree("1.1", FEW)) == 0


def test_a_release_that_the_store_has_may_have_less(store, tree):
    command.main(tree("1.0", MANY))
    command.main([*tree("1.1", FEW), "--allow-loss", "fills"])
    assert command.main([*tree("1.1", FEW), "--check"]) == 0


def test_a_fact_that_most_records_lose_is_a_loss_too():
    before = {"plugin": {f"field{place}": {"type": "int", "environment": "X"} for place in range(8)}}
    after = {"plugin": {name: {"type": "int"} for name in before["plugin"]}}
    assert losses(before, after) == [("plugin.environment", 8, 0)]
    assert losses(after, before) == []


def test_what_deepspeed_loses_shows_in_its_sections():
    section = {"type": "object", "keys": {f"key{place}": {} for place in range(8)}}
    small = {"type": "object", "keys": {"key0": {}}}
    others = {f"other{place}": {} for place in range(30)}

    def facts(**sections):
        constructors = {"optimizer.params": {f"kind{place}": [] for place in range(9)}}
        return {
            "reader": "hjson",
            "pydantic": 2,
            "root": {"keys": {**others, **sections}},
            "constructors": constructors,
        }

    before = facts(zero=section, aio=small)
    assert losses(before, facts(zero=small)) == [("root.zero", 8, 1)]
    assert losses(before, facts(zero={"removed": True}, aio=small)) == []
    without = {"reader": "json", "root": {"keys": others}, "constructors": {}}
    assert [one.table for one in losses(before, without)] == ["pydantic", "root.zero", "constructors"]
    assert [one.table for one in losses(before, {**before, "root": {"keys": {}}})] == ["root"]


def test_a_table_that_the_extractor_learns_to_read_is_empty_in_older_releases(store, tree, monkeypatch):
    assert command.main(tree("1.0", "lr=learning_rate")) == 0
    library = command.LIBRARIES["made"]
    monkeypatch.setattr(library, "extract", lambda folder: {**extract(folder), "flags": {"--bf16": {"type": "bool"}}})
    assert command.main(tree("1.1", "lr=learning_rate")) == 0
    read = json.loads(store.read_text())
    assert read["flags"] == {"--bf16": {"runs": [{"since": "1.1", "type": "bool"}]}}
    assert history.at(read, "1.0") == {"fills": {"lr": {"from": "learning_rate"}}, "flags": {}}
