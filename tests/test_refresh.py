"""``tools/refresh`` with a made-up index, extractors and environment: what is done, in which order, and when."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tools.extract import __main__ as extract
from tools.extract import framework_stores
from tools.extract.releases import UnavailableError
from tools.fidelity import environments
from tools.refreshing import __main__ as command
from tools.refreshing import changelog, pins, readings, refresh, steps, words
from tools.refreshing.refresh import Done
from tools.refreshing.releases import known

ROOT = Path(__file__).parent.parent
USED = (
    "CHANGELOG.md",
    "examples/requirements.txt",
    "requirements/fidelity.txt",
    "schemas",
    "tools/raises/releases.json",
)
NEXT = "99.0.0"


class World:
    """A copy of the files that are brought up to date, and everything that would be run, as a stand-in.

    A stand-in does to the files what the command does to those of the repository: it names the release.
    """

    def __init__(self, root):
        self.root = root
        self.index = {library: [release] for library, release in known().items()}
        self.ran = []
        self.fails = {}  # by the beginning of a command, what it ends with

    def releases(self, chosen):
        """The package index."""
        return {name: found for name, found in self.index.items() if not chosen or name in chosen}

    def run(self, _title, arguments):
        """Run a command."""
        words = " ".join(str(word) for word in arguments if word not in (sys.executable, "-m"))
        words = words.replace(f"{self.root}/", "").partition(" --cache")[0]
        self.ran.append(words)
        for beginning, ended in self.fails.items():
            if words.startswith(beginning):
                return ended
        name, *rest = words.split()
        return Done(0, getattr(self, name.replace(".", "_").replace("/", "_"), lambda *_: "")(*rest) or "", "")

    def edit(self, path, **facts):
        path = self.root / path
        path.write_text(json.dumps(json.loads(path.read_text()) | facts))

    def tools_extract(self, name, *releases):
        store = f"schemas/{name}.json"
        before = json.loads((self.root / store).read_text())["releases"]
        self.edit(store, releases=[*before, *releases])
        library = extract.LIBRARIES[name].LIBRARY
        return f'{library} {releases[-1]} (after {before[-1]})\n* training_arguments: `made_up` is new: type "int"\n'

    def of_framework(self, store, package, release):
        """Name a release of a framework in one of the stores of frameworks."""
        found = json.loads(self.text(f"schemas/{store}.json"))["frameworks"]
        record = next(one for one in found.values() if package in (one.get("library"), one.get("package")))
        before = [*record["releases"]] if "releases" in record else record["states"][-1]["releases"]
        (record if "releases" in record else record["states"][-1])["releases"] = [*before, release]
        self.edit(f"schemas/{store}.json", frameworks=found)
        return f"{package} {release} (after {before[-1]})\n* presets: `zero4` is new: is {{}}\n"

    def tools_extract_recipe_fields(self, *arguments):
        return self.of_framework("recipe_fields", *arguments)

    def tools_extract_presets(self, *arguments):
        return self.of_framework("presets", *arguments)

    def tools_extract_refusals(self, *arguments):
        return self.of_framework("refusals", *arguments)

    def tools_model_classes(self, *_):
        self.edit("schemas/model_classes.json", release=self.pin("transformers"))

    def tools_layer_classes(self, *_):
        self.edit("schemas/layer_classes.json", release=self.pin("transformers"))

    def tools_lora_targets(self, *_):
        self.edit("schemas/peft.json", release=self.pin("peft"), transformers=self.pin("transformers"))

    def tools_extract_recipes(self, *arguments):
        if arguments:
            return self.of_framework("recipes", *arguments)
        self.edit("schemas/recipes.json", transformers=known()["transformers"])
        return ""

    def tools_extract_environment(self, *_):
        libraries = json.loads(self.text("schemas/environment.json"))["libraries"]
        for name in known().keys() & libraries.keys():
            libraries[name]["releases"].append(known()[name])
        self.edit("schemas/environment.json", libraries=libraries)

    def tools_launcher_options(self, *_):
        launchers = json.loads(self.text("schemas/launchers.json"))
        self.edit("schemas/launchers.json", **{
            name: one | {"releases": [known()[one["library"]]]} for name, one in launchers.items()
        })  # fmt: skip

    def tools_model_shapes(self, *_):
        self.edit("schemas/shapes.json", transformers=self.pin("transformers"))

    def tools_activations(self, *_):
        libraries = ("transformers", "torch", "peft")
        self.edit("schemas/activations.json", **{library: self.pin(library) for library in libraries})

    def tools_activations_forward(self, *_):
        libraries = ("transformers", "torch")
        self.edit("schemas/forward_activations.json", **{library: self.pin(library) for library in libraries})

    def tools_tensor_parallel(self, *_):
        libraries = ("deepspeed", "transformers")
        self.edit("schemas/tensor_parallel.json", **{library: self.pin(library) for library in libraries})

    def tools_raises(self, *_):
        libraries = ("deepspeed", "transformers", "accelerate")
        self.edit("tools/raises/releases.json", **{library: self.pin(library) for library in libraries})

    def tools_pairs(self, *_):
        before = json.loads(self.text("schemas/pairs.json"))
        compared = {library: known()[library] for library in before["compared"]}
        releases = {library: [*found, self.index[library][-1]] for library, found in before["releases"].items()}
        self.edit("schemas/pairs.json", compared=compared, releases=releases)

    def tools_exceptions(self, *_):
        read = json.loads(self.text("schemas/exceptions.json"))["releases"]
        self.edit("schemas/exceptions.json", releases={
            library: found | {"until": self.pin(library)} for library, found in read.items()
        })  # fmt: skip

    def tools_test(self, *_):
        return "1 passed\n"

    def pin(self, library):
        """What requirements/fidelity.txt has."""
        return environments.pins()[library]

    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8")

    def files(self):
        return {path: path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file()}


@pytest.fixture
def world(tmp_path, monkeypatch):
    for path in USED:
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / path).is_dir() else shutil.copy)(ROOT / path, target)
    made = World(tmp_path)
    monkeypatch.setattr(steps, "ROOT", tmp_path)
    monkeypatch.setattr(refresh, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "PINS", tmp_path / "requirements/fidelity.txt")
    monkeypatch.setattr(pins, "PINS", tmp_path / "requirements/fidelity.txt")
    monkeypatch.setattr(pins, "EXAMPLES", tmp_path / "examples/requirements.txt")
    monkeypatch.setattr(changelog, "CHANGELOG", tmp_path / "CHANGELOG.md")
    monkeypatch.setattr(framework_stores, "SCHEMAS", tmp_path / "schemas")
    stored = readings._stored
    monkeypatch.setattr(readings, "_stored", lambda store: stored(tmp_path / "schemas" / store.name))
    monkeypatch.setattr(refresh, "on_the_index", made.releases)
    monkeypatch.setattr(refresh, "_run", made.run)
    monkeypatch.setattr(refresh, "fetch", lambda _library, release, _cache: tmp_path / "trees" / release)
    monkeypatch.setattr(refresh, "has_pins", lambda: True)
    return made


def test_nothing_new_changes_nothing(world, capsys):
    before = world.files()
    assert command.main([]) == 0
    assert (world.files(), world.ran) == (before, [])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("nothing is new: deepspeed ")


def test_a_new_release_is_read_installed_measured_shown_and_tested(world, capsys):
    world.index["transformers"].append(NEXT)
    for release in (known()["transformers"], NEXT):
        (world.root / "trees" / release / "transformers/models/llama").mkdir(parents=True)
        (world.root / "trees" / release / "transformers/models/llama/modeling_llama.py").touch()
    (world.root / "trees" / NEXT / "transformers/models/alpaca").mkdir()
    (world.root / "trees" / NEXT / "transformers/models/alpaca/modeling_alpaca.py").touch()
    assert command.main([]) == 0
    assert world.ran == [
        f"tools.extract transformers {NEXT}",
        f"tools.extract models {NEXT}",
        f"tools.extract trainer {NEXT}",
        "tools/environment",
        "tools.model_classes --write",
        "tools.layer_classes --write",
        "tools.lora_targets --write",
        "tools.raises --write",
        "tools.model_shapes --changed",
        "tools.activations --changed",
        "tools.activations.forward",
        "tools.tensor_parallel",
        "tools.extract.recipes",
        "tools.extract.environment",
        "tools.pairs",
        "tools.exceptions",
        "tools.publish_schemas",
        "tools.rule_pages --write",
        "tools.published --write",
        "tools.documents --write",
        "tools.picture --write",
        "tools/test",
    ]
    assert f"\ntransformers=={NEXT}\n" in world.text("requirements/fidelity.txt")
    assert f"\ntransformers=={NEXT}\n" in world.text("examples/requirements.txt")
    assert f"\n* Knows transformers {NEXT}: new training argument `made_up`; new model `alpaca`." in world.text(
        "CHANGELOG.md"
    )
    report = capsys.readouterr().out
    assert "\n### New\n\n* training_arguments: `made_up` is new" in report
    assert "\n* model `alpaca` is new\n" in report
    assert report.endswith("Tests: 1 passed\n")


def test_the_second_run_finds_nothing(world):
    world.index["deepspeed"].append(NEXT)
    command.main([])
    before, world.ran = world.files(), []
    assert command.main([]) == 0
    assert (world.files(), world.ran) == (before, [])


def test_what_was_interrupted_goes_on(world):
    world.index["deepspeed"].append(NEXT)
    world.fails["tools.raises"] = Done(2, "", "error: killed")
    assert command.main([]) == 1
    world.ran, world.fails = [], {}
    assert command.main([]) == 0
    assert world.ran[0] == "tools.raises --write"


def test_a_release_that_cannot_be_read_keeps_its_pin_and_holds_up_no_other(world, capsys):
    world.index["accelerate"].append(NEXT)
    world.index["deepspeed"].append(NEXT)
    reason = f"error: the extractor does not know how accelerate {NEXT} is laid out: no DeepSpeedPlugin"
    world.fails["tools.extract accelerate"] = Done(2, "", reason)
    before = world.pin("accelerate")
    assert command.main([]) == 1
    assert (world.pin("accelerate"), world.pin("deepspeed")) == (before, NEXT)
    report = capsys.readouterr().out
    assert f"## Not done\n\n* accelerate {NEXT} cannot be read: the extractor does not know" in report
    assert f"Knows accelerate {NEXT}" not in world.text("CHANGELOG.md")


def test_releases_that_cannot_be_installed_are_not_pinned_and_hold_up_no_other(world, capsys):
    world.index["peft"].append(NEXT)
    world.index["lightning"].append(NEXT)
    world.fails["tools/environment"] = Done(1, "", f"ERROR: No matching distribution found for torch>={NEXT}")
    pinned = environments.pins()
    assert command.main([]) == 1
    assert environments.pins() == pinned
    assert f"Knows lightning {NEXT}" in world.text("CHANGELOG.md")
    assert " cannot be installed together: ERROR: No matching distribution" in capsys.readouterr().out


def test_an_interrupted_installation_is_done_again(world, monkeypatch):
    def interrupt(_title, _arguments):
        raise KeyboardInterrupt

    world.index["peft"].append(NEXT)
    before = environments.pins()
    monkeypatch.setattr(refresh, "_run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        command.main([])
    assert environments.pins() == before
    monkeypatch.setattr(refresh, "_run", world.run)
    assert command.main([]) == 0
    assert world.ran[:2] == ["tools/environment", "tools.lora_targets --write"]


def test_what_an_interrupted_run_has_read_is_told_by_the_next_one(world, monkeypatch, capsys):
    def stop(_title, arguments):
        if "tools.launcher_options" in arguments:
            raise KeyboardInterrupt
        return world.run(_title, arguments)

    world.index["lightning"].append(NEXT)
    world.index["torch"].append(NEXT)
    monkeypatch.setattr(refresh, "_run", stop)
    with pytest.raises(KeyboardInterrupt):
        command.main([])
    monkeypatch.setattr(refresh, "_run", world.run)
    assert command.main([]) == 0
    assert f"* lightning {NEXT} (after" in capsys.readouterr().out
    assert f"Knows torch {NEXT}: new training argument `made_up`." in world.text("CHANGELOG.md")


def test_a_page_that_is_not_written_is_due_again(world):
    world.index["lightning"].append(NEXT)
    world.fails["tools.publish_schemas"] = Done(1, "", "Traceback (most recent call last):\nKeyError: 'x'")
    assert command.main([]) == 1
    world.ran, world.fails = [], {}
    assert command.main([]) == 0
    assert world.ran[0] == "tools.publish_schemas"
    world.ran = []
    assert command.main([]) == 0
    assert world.ran == []


def test_a_step_that_crashes_is_not_taken_for_one_that_leaves_something_open(world, capsys):
    world.index["deepspeed"].append(NEXT)
    world.fails["tools.raises"] = Done(1, "", "Traceback (most recent call last):\nKeyError: 'x'")
    assert command.main([]) == 1
    assert "* `python -m tools.raises --write`: KeyError: 'x'\n" in capsys.readouterr().out


def test_a_release_that_one_extractor_cannot_read_is_not_pinned(world):
    (world.root / "trees").mkdir()
    world.index["transformers"].append(NEXT)
    world.fails["tools.extract models"] = Done(2, "", "error: the extractor does not know how it is laid out")
    before = world.pin("transformers")
    assert command.main([]) == 1
    assert world.pin("transformers") == before


def test_an_index_that_lags_behind_takes_nothing_back(world):
    world.index["transformers"] = world.index["accelerate"] = ["0.1.0"]
    before = world.files()
    assert command.main(["--check"]) == 0
    assert command.main([]) == 0
    assert world.files() == before


def test_torch_is_read_and_keeps_its_pin(world, capsys):
    world.index["torch"].append(NEXT)
    before = world.pin("torch")
    assert command.main([]) == 0
    assert world.pin("torch") == before
    assert f"* The tests run with torch {before}; {NEXT} is only read" in capsys.readouterr().out
    world.ran = []
    assert command.main([]) == 0
    assert world.ran == []


def test_of_a_framework_every_store_is_brought_up_to_a_new_release(world):
    world.index["axolotl"].append(NEXT)
    assert command.main(["axolotl", "--no-tests"]) == 0
    stores = ("recipes", "recipe_fields", "presets", "refusals")
    assert world.ran[:4] == [f"tools.extract.{store} axolotl {NEXT}" for store in stores]
    assert f"* Knows axolotl {NEXT}: new shipped config `zero4`." in world.text("CHANGELOG.md")
    assert known()["axolotl"] == NEXT


@pytest.mark.parametrize(("store", "library"), [("trl", "trl"), ("trainer", "transformers"), ("fsdp", "torch")])
def test_stores_of_one_library_are_brought_up_to_a_new_release(world, store, library):
    (world.root / "trees" / NEXT).mkdir(parents=True)
    (world.root / "trees" / known()[library]).mkdir()
    world.index[library].append(NEXT)
    command.main([library, "--no-tests"])
    assert f"tools.extract {store} {NEXT}" in world.ran
    assert json.loads(world.text(f"schemas/{store}.json"))["releases"][-1] == NEXT


def test_only_the_named_library(world):
    world.index["deepspeed"].append(NEXT)
    world.index["lightning"].append(NEXT)
    command.main(["lightning", "--no-tests"])
    assert world.ran[0] == f"tools.extract lightning {NEXT}"
    assert not any("deepspeed" in one or one == "tools/test" for one in world.ran)


def test_an_older_line_that_is_still_patched_is_read_too(world):
    world.index["transformers"].insert(0, "4.99.0")
    for release in ("4.99.0", "4.57.6"):
        (world.root / "trees" / release).mkdir(parents=True)
    before = world.pin("transformers")
    command.main([])
    assert world.ran[:2] == ["tools.extract transformers 4.99.0", "tools.extract models 4.99.0"]
    assert world.pin("transformers") == before


def test_failing_tests_and_open_questions_need_a_person(world, capsys):
    world.index["deepspeed"].append(NEXT)
    world.fails["tools/test"] = Done(1, "FAILED tests/fidelity/test_knowledge.py::test_x - assert\n1 failed\n", "")
    world.fails["tools.raises"] = Done(1, "new: deepspeed/runtime/config.py:7 f: raise\n", "")
    assert command.main([]) == 1
    report = capsys.readouterr().out
    assert "## What raises\n\n* new: deepspeed/runtime/config.py:7" in report
    assert "## Tests\n\n* FAILED tests/fidelity/test_knowledge.py::test_x" in report


def test_check_says_what_is_new_and_writes_nothing(world, capsys):
    assert command.main(["--check"]) == 0
    world.index["numpy"].append(NEXT)
    world.index["axolotl"] += ["98.0.0", NEXT]
    before = world.files()
    assert command.main(["--check"]) == 1
    assert (world.files(), world.ran) == (before, [])
    out = capsys.readouterr().out
    assert f"axolotl: 98.0.0, {NEXT} (known: {known()['axolotl']})\n" in out
    assert f"numpy: {NEXT} (known: " in out


def test_what_a_framework_makes_of_recipes_is_read_of_the_newest_release_only(world):
    world.index["axolotl"] += ["98.0.0", NEXT]
    missing = {one.module: releases for one, releases in readings.behind(world.index)}
    assert missing["tools.extract.recipes"] == [NEXT]
    assert missing["tools.extract.recipe_fields"] == ["98.0.0", NEXT]


def test_check_lists_every_release_that_any_store_lacks(world, capsys):
    world.index["trl"] += ["98.0.0", NEXT]
    assert command.main(["--check"]) == 1
    assert f"trl: 98.0.0, {NEXT} (known: " in capsys.readouterr().out


def test_an_index_that_cannot_be_reached_is_one_line(world, monkeypatch, capsys):
    def unreachable(_chosen):
        raise UnavailableError("pip cannot reach the package index")

    monkeypatch.setattr(refresh, "on_the_index", unreachable)
    before = world.files()
    assert command.main([]) == 2
    assert (capsys.readouterr().err, world.files()) == ("error: pip cannot reach the package index\n", before)


@pytest.mark.parametrize(
    "text",
    [
        "# Changelog\n\n## 0.2.0, unreleased\n\n* One.\n\n## 0.1.0, 2026-12-01\n\n* Old.\n",
        "# Changelog\n\n## 0.2.0, unreleased\n\n* One.\n",
    ],
)
def test_a_line_goes_below_what_is_not_released(text):
    assert changelog._with(text, ["* Two."]) == text.replace("* One.\n", "* One.\n* Two.\n")


def test_after_a_release_the_changelog_begins_a_section():
    text = "# Changelog\n\n## 0.1.0, 2026-12-01\n\n* Old.\n"
    assert changelog._with(text, ["* Two."]) == text.replace("## 0.1", "## Unreleased\n\n* Two.\n\n## 0.1")


def test_a_change_log_is_told_in_a_sentence():
    (entry,) = words.entries(
        "deepspeed 9.0.0 (after 8.9.0)\n* refused `amp`\n* new `compile.x`, default false\n* new `compile.y`\n"
        '* default of `zero_optimization`: nothing -> null\n* type of `a.b`: "integer" -> "number"\n'
    )
    assert words.sentence(entry) == (
        "new keys `compile.x`, `compile.y`; removed key `amp`; other defaults of `zero_optimization`; changes of `a.b`"
    )


def test_of_many_names_a_sentence_has_a_few_and_of_messages_their_number():
    refusals = "".join(f"* refusals: `{n}, {'a long message ' * 4}` is new\n" for n in range(2))
    fields = "".join(f'* training_arguments: `field_{n}` is gone: type "int"\n' for n in range(8))
    (entry,) = words.entries(f"transformers 9.0.0 (after 8.9.0)\n{refusals}{fields}")
    shown = ", ".join(f"`field_{n}`" for n in range(6))
    assert words.sentence(entry) == f"2 new error messages; removed training arguments {shown} and 2 more"


def test_every_table_has_a_word_in_the_changelog():
    names = [reading.name for reading in readings.readings() if reading.module == "tools.extract"]
    stores = [json.loads((ROOT / "schemas" / f"{name}.json").read_text(encoding="utf-8")) for name in names]
    tables = {table for store in stores for table, records in store.items() if isinstance(records, dict)}
    tables |= {table for one in recipe_states() for table in one if table != "releases"} | {"fields", "taken"}
    records = (one for store in readings.OF_FRAMEWORKS for one in store.read()["frameworks"].values())
    tables |= {table for record in records for table, known in record.items() if isinstance(known, dict)}
    assert tables - {"root", "constructors"} <= set(words.NOUNS)  # the lines of DeepSpeed name keys


def recipe_states():
    store = json.loads((ROOT / "schemas" / "recipes.json").read_text(encoding="utf-8"))
    return [state for framework in store["frameworks"].values() for state in framework["states"]]


def test_every_store_that_a_program_writes_is_brought_up_to_date():
    """The table of ``schemas/README.md`` says who writes what."""
    written = {
        line.split("|")[1].strip(" `"): line.split("|")[3]
        for line in (ROOT / "schemas/README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `") and "`python -m tools." in line.split("|")[-2]
    }
    modules = {step.command[0] for step in (*steps.INSTALLED, *steps.READ, *steps.PAGES)}
    modules |= {reading.module for reading in readings.readings()}
    # measured on a GPU; read off a repository; counted with bitsandbytes and TRL, which the pinned packages lack
    by_hand = {"allowances.json", "megatron.json", "quantization.json", "preference_losses.json"}
    writes = {name: set(re.findall(r"-m ([\w.]+)", writer)) for name, writer in written.items()}
    assert {name for name, writers in writes.items() if not writers & modules} == by_hand
