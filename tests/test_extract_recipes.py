"""What is read off the sources of training frameworks, on source made for it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import made_sources
import pytest

from ds_lint.facts import training_recipe
from tools.extract import framework_stores, reading, recipes
from tools.extract.frameworks import is_of
from tools.extract.releases import UnavailableError, number


@pytest.fixture
def extracted(tmp_path):
    def extract(name, files):
        return recipes.extract(recipes.FRAMEWORKS[name], made_sources.write(tmp_path, files))

    return extract


def test_a_framework_that_computes_arguments(extracted):
    assert extracted("axolotl", made_sources.AXOLOTL) == {
        "fields": ["micro_batch_size", "optimizer"],
        "defaults": {"micro_batch_size": 1},
        "unknown": ["learning_rate", "optimizer"],  # required; not a constant
        "arguments": {
            "learning_rate": [{"value": "cfg.learning_rate", "only_if": ["cfg.learning_rate is not None"]}],
            "optim": [{"value": "cfg.optimizer", "only_if": ["cfg.optimizer not in ['muon', 'dion']"]}],
            "per_device_train_batch_size": [{"value": "cfg.micro_batch_size", "only_if": []}],
            "weight_decay": [{"value": "cfg.weight_decay", "only_if": ["cfg.weight_decay is not None"]}],
        },
        "behaviours": [],
    }


def test_a_framework_with_the_fields_of_training_arguments(extracted):
    assert extracted("LLaMA-Factory", made_sources.LLAMA_FACTORY) == {
        "fields": ["fp8", "quantization_bit"],
        "defaults": {"weight_decay": 0.5},
        "unknown": ["seed"],
        "sets": ["remove_unused_columns"],
        "behaviours": ["muon-takes-matrices"],
    }


def test_releases_with_the_same_facts_are_one_state():
    one, other = {"fields": ["a"], "defaults": {"seed": 1}}, {"fields": ["b"], "defaults": {"seed": 2}}
    assert recipes.merged("TRL", [("1.0", one), ("1.1", {**one, "fields": ["c"]}), ("2.0", other)]) == {
        "package": "trl",
        "fields": ["a", "b", "c"],
        "states": [
            {"releases": ["1.0", "1.1"], "defaults": {"seed": 1}},
            {"releases": ["2.0"], "defaults": {"seed": 2}},
        ],
    }


ONE, OTHER = ({"fields": [name], "defaults": {"seed": place}} for place, name in enumerate(("a", "b")))


def test_the_state_with_the_newest_release_is_the_last():
    record = recipes.merged("TRL", [("1.9", ONE), ("1.10", OTHER), ("1.11", ONE)])
    assert [state["releases"] for state in record["states"]] == [["1.10"], ["1.9", "1.11"]]
    older = recipes.joined(record, "1.8", OTHER)
    assert [state["releases"] for state in older["states"]] == [["1.8", "1.10"], ["1.9", "1.11"]]


def test_the_order_in_which_releases_are_read_changes_nothing():
    releases = [("1.9", ONE), ("1.10", OTHER), ("1.11", ONE)]
    assert recipes.merged("TRL", releases) == recipes.merged("TRL", reversed(releases))


def test_a_release_that_is_read_again_moves_to_the_state_that_it_is_in():
    record = recipes.merged("TRL", [("1.9", ONE), ("1.10", OTHER)])
    again = recipes.joined(record, "1.10", ONE)
    assert [state["releases"] for state in again["states"]] == [["1.9", "1.10"]]


@pytest.mark.parametrize("newest", [["muon-takes-matrices"], []])
def test_what_a_framework_does_is_what_its_newest_release_does(monkeypatch, newest):
    older = [] if newest else ["muon-takes-matrices"]
    says = {name: {"fields": [], "behaviours": does} for name, does in (("newest", newest), ("older", older))}
    record = recipes.merged("TRL", [("1.0", says["newest"]), ("1.1", says["older"]), ("1.2", says["newest"])])
    monkeypatch.setattr(training_recipe.tables, "load", lambda _: {"frameworks": {"TRL": record}})
    of_trl = SimpleNamespace(framework="TRL")
    assert training_recipe.TrainingRecipe.does(of_trl, "muon-takes-matrices") is bool(newest)


@pytest.mark.parametrize("name", recipes.FRAMEWORKS)
def test_the_store_has_its_states_in_the_order_of_their_newest_releases(name):
    states = json.loads(recipes.STORE.path.read_text(encoding="utf-8"))["frameworks"][name]["states"]
    newest = [number(state["releases"][-1]) for state in states]
    assert newest == sorted(newest)
    assert all(sorted(state["releases"], key=number) == state["releases"] for state in states)
    assert recipes.STORE.known(name)[-1] == states[-1]["releases"][-1]


def test_of_a_class_variable_there_is_no_field(extracted):
    files = dict(made_sources.AXOLOTL)
    fields = files["axolotl/utils/schemas/config.py"]
    files["axolotl/utils/schemas/config.py"] = fields.replace(
        "    weight_decay", "    MOST: ClassVar[int] = 8\n    weight_decay"
    )
    assert "MOST" not in extracted("axolotl", files)["fields"]


def test_what_a_release_must_have_depends_on_how_old_it_is():
    part = recipes.FRAMEWORKS["axolotl"].source.builders[0]
    assert [is_of(part, release) for release in ("0.8.0", "0.9.2", "0.10.0", None)] == [True, True, False, False]


# The command


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store in which axolotl has no release yet."""
    path = tmp_path / "recipes.json"
    path.write_text(json.dumps({"read_on": "2020-01-01", "frameworks": {}}), encoding="utf-8")
    monkeypatch.setattr(framework_stores, "SCHEMAS", tmp_path)
    return path


@pytest.fixture
def releases(tmp_path, monkeypatch):
    """The folder to which "downloads" go: a function that puts a release of axolotl there, with a text changed."""

    def fetch(package, release, into):
        folder = tmp_path / "index" / f"{package}-{release}"
        if not folder.is_dir():
            raise UnavailableError(f"pip: No matching distribution found for {package}=={release}")
        return folder

    def make(release, before="", after=""):
        files = {name: text.replace(before, after) if before else text for name, text in made_sources.AXOLOTL.items()}
        return made_sources.write(tmp_path / "index" / f"axolotl-{release}", files)

    monkeypatch.setattr(reading, "fetch", fetch)
    return make


def states_of(store):
    return [state["releases"] for state in json.loads(store.read_text())["frameworks"]["axolotl"]["states"]]


FIELD, ITS_DEFAULT = "    micro_batch_size: int", "Field(default=1, json"


def test_releases_are_added_one_after_the_other(store, releases, capsys):
    releases("0.12.0")
    releases("0.13.0", FIELD, "    batch_size: int = 2\n    micro_batch_size: int")
    assert recipes.main(["axolotl", "0.12.0", "0.13.0"]) == 0
    assert capsys.readouterr().out == (
        "axolotl 0.12.0: the oldest in the store\n"
        "axolotl 0.13.0 (after 0.12.0)\n* fields: `batch_size` is new\n* defaults: `batch_size` is new: default 2\n"
    )
    assert states_of(store) == [["0.12.0"], ["0.13.0"]]
    assert recipes.STORE.known("axolotl") == ["0.12.0", "0.13.0"]
    assert json.loads(store.read_text())["read_on"] != "2020-01-01"


def test_a_field_that_is_gone_is_told(store, releases, capsys):
    releases("0.12.0", FIELD, "    batch_size: int\n    micro_batch_size: int")
    releases("0.13.0")
    recipes.main(["axolotl", "0.12.0"])
    capsys.readouterr()
    assert recipes.main(["AXOLOTL", "0.13.0"]) == 0
    assert "* fields: `batch_size` is gone\n" in capsys.readouterr().out
    assert "batch_size" in json.loads(store.read_text())["frameworks"]["axolotl"]["fields"]


def test_of_an_unpacked_release_only_new_fields_are_told(store, releases, capsys):
    releases("0.12.0", FIELD, "    batch_size: int\n    micro_batch_size: int")
    recipes.main(["axolotl", "0.12.0"])
    capsys.readouterr()
    tree = releases("0.13.0", "Field(default=1, json", "Field(default=3, json")
    assert recipes.main(["axolotl", "0.13.0", "--tree", str(tree)]) == 0
    assert capsys.readouterr().out == (
        "axolotl 0.13.0 (after 0.12.0)\n"
        "* defaults: `micro_batch_size`: default 1 became 3\n"
        "* unknown: `batch_size` is gone\n"
    )


def test_a_release_that_says_the_same_joins_the_state(store, releases, capsys):
    for release in ("0.12.0", "0.13.0"):
        releases(release)
    recipes.main(["axolotl", "0.12.0", "0.13.0"])
    assert capsys.readouterr().out.endswith("axolotl 0.13.0 (after 0.12.0)\n* nothing changed\n")
    assert states_of(store) == [["0.12.0", "0.13.0"]]


def test_check_writes_no_recipes(store, releases, capsys):
    releases("0.12.0")
    before = store.read_bytes()
    assert recipes.main(["axolotl", "0.12.0", "--check"]) == 1
    assert capsys.readouterr().err == "recipes.json differs in axolotl\n"
    assert store.read_bytes() == before
    recipes.main(["axolotl", "0.12.0"])
    written = store.read_bytes()
    assert recipes.main(["axolotl", "0.12.0", "--check"]) == 0
    assert recipes.main(["--check"]) == 0
    assert store.read_bytes() == written


def test_all_releases_are_read_again_where_the_store_says_something_else(store, releases, capsys):
    for release in ("0.12.0", "0.13.0", "0.14.0"):
        releases(release)
    recipes.main(["axolotl", "0.12.0", "0.13.0"])
    releases("0.12.0", ITS_DEFAULT, "Field(default=5, json")
    releases("0.13.0", ITS_DEFAULT, "Field(default=5, json")
    assert recipes.main(["--check"]) == 1
    assert recipes.main(["axolotl", "0.14.0"]) == 0
    assert "the store says something else of axolotl 0.13.0: all are read again" in capsys.readouterr().err
    assert states_of(store) == [["0.12.0", "0.13.0"], ["0.14.0"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["other", "1.0"], "other is none of the frameworks: LLaMA-Factory, axolotl, ms-swift, TRL"),
        (["axolotl"], "name a release of the framework"),
        (["axolotl", "latest"], "latest is not the number of a final release"),
        (["axolotl", "9.9"], "pip: No matching distribution found for axolotl==9.9"),
        (["axolotl", "1.0", "1.1", "--tree", "."], "--tree holds one release, so name one"),
        (["--tree", "."], "--tree holds one release, so name a framework and a release"),
    ],
)
def test_what_cannot_be_read_is_one_line(store, releases, capsys, arguments, message):
    before = store.read_bytes()
    assert recipes.main(arguments) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert store.read_bytes() == before
