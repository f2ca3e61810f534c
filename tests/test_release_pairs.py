"""Releases that do not work together: the store, and what is told from the pins of a project."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from command_line import clean_environment
from linted import lint_with

from ds_lint.knowledge import tables
from ds_lint.knowledge.pairs import clashes, working
from ds_lint.linter.choice import choose
from ds_lint.source import documents
from ds_lint.targets.pin import COMPANIONS, LIBRARIES, Pin, PinPlace
from ds_lint.targets.pin_location import place_of

STORE = tables.load("pairs")
AUTO = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
PLAIN = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
EVERY_STACK = {"deepspeed", "trainer", "accelerate"}


def pinned(**specifiers):
    return {library: Pin(library, specifier, "here") for library, specifier in specifiers.items()}


def clashing(**specifiers):
    return [
        (clash.pin.library, clash.named[0], clash.other_pin.library, clash.named[1], clash.conflict["kind"])
        for clash in clashes(pinned(**specifiers))
    ]


def findings(directory, config, stack=None):
    report = lint_with(choose(str(directory), {}), documents.from_dict(config), stack=stack)
    return [finding for finding in report.findings if finding.code == "DS846"]


def releases(library):
    return tables.load(library)["releases"] if library in LIBRARIES else STORE["releases"][library]


def test_the_bounds_of_the_store_are_releases_in_their_order():
    assert set(STORE["releases"]) == set(COMPANIONS)
    for conflict in STORE["conflicts"]:
        for library, since, until in (
            (conflict["library"], "since", "until"),
            (conflict["other"], "other_since", "other_until"),
        ):
            known = releases(library)
            first, last = conflict.get(since, known[0]), conflict.get(until, known[-1])
            assert known.index(first) <= known.index(last)
        assert {"since", "until", "other_since", "other_until"} & set(conflict), "not every pair is in conflict"


def test_the_newest_releases_work_together():
    assert clashing(**{library: f"=={releases(library)[-1]}" for library in (*LIBRARIES, *COMPANIONS)}) == []


@pytest.mark.parametrize(
    ("specifiers", "expected"),
    [
        # what the Trainer demands; 4.46.0 was withdrawn, and those around it demand the same
        (
            {"transformers": "==4.46.0", "accelerate": "==0.25.0"},
            [("transformers", "4.46.0", "accelerate", "0.25.0", "minimum")],
        ),
        ({"transformers": "==4.46.0", "accelerate": "==0.26.0"}, []),
        ({"transformers": "==4.31.0", "deepspeed": "==0.9.2"},
         [("transformers", "4.31.0", "deepspeed", "0.9.2", "minimum")]),
        ({"transformers": "==4.30.2", "deepspeed": "==0.9.2"}, []),
        # what Accelerate demands
        ({"accelerate": "==0.21.0", "deepspeed": "==0.9.2"},
         [("accelerate", "0.21.0", "deepspeed", "0.9.2", "minimum")]),
        # what Accelerate no longer has
        ({"transformers": "==4.39.3", "accelerate": "==1.0.0"},
         [("transformers", "4.39.3", "accelerate", "1.0.0", "keyword")]),
        ({"transformers": "==4.40.0", "accelerate": "==1.0.0"}, []),
        ({"transformers": "==4.39.3", "accelerate": "==0.34.2"}, []),
        # and what it does not have yet
        ({"transformers": "==4.53.0", "accelerate": "==1.3.0"},
         [("transformers", "4.53.0", "accelerate", "1.3.0", "missing")]),
        ({"transformers": "==4.53.1", "accelerate": "==1.3.0"}, []),
        # what DeepSpeed imports
        ({"deepspeed": "==0.14.3", "torch": "==2.4.0+cu121"}, [("deepspeed", "0.14.3", "torch", "2.4.0", "missing")]),
        ({"deepspeed": "==0.14.4", "torch": "==2.4.0"}, []),
        ({"deepspeed": "==0.14.3", "torch": "==2.3.1"}, []),
        ({"deepspeed": "==0.8.0", "torch": "==2.0.1"}, [("deepspeed", "0.8.0", "torch", "2.0.1", "missing")]),
        ({"deepspeed": "==0.14.2", "numpy": "==2.1.0"}, [("deepspeed", "0.14.2", "numpy", "2.1.0", "missing")]),
        ({"deepspeed": "==0.14.2", "numpy": "==1.26.4"}, []),
        ({"deepspeed": "==0.9.0", "pydantic": "==2.7.1"}, [("deepspeed", "0.9.0", "pydantic", "2.7.1", "measured")]),
        ({"deepspeed": "==0.11.2", "pydantic": "==2.7.1"}, []),
        ({"deepspeed": "==0.15.0", "pydantic": "<2"}, [("deepspeed", "0.15.0", "pydantic", "1.10.27", "missing")]),
        # ranges: silent if any release of one works with any of the other
        ({"transformers": ">=4.30", "accelerate": "==0.20.3"}, []),
        ({"transformers": ">=4.45,<4.50", "accelerate": "<0.26"},
         [("transformers", "4.49.0", "accelerate", "0.25.0", "minimum")]),
        ({"transformers": "~=4.46.0", "accelerate": "~=0.25.0"},
         [("transformers", "4.46.3", "accelerate", "0.25.0", "minimum")]),
        ({"transformers": "==4.36.0 || ==4.46.0", "accelerate": "==0.21.0"}, []),
        ({"deepspeed": "<0.15", "torch": ">=2.4"}, []),  # 0.14.4 and 0.14.5 work
        # nothing is known of these releases
        ({"transformers": "==4.19.0", "accelerate": "==1.0.0"}, []),
        ({"transformers": "==9.0.0", "accelerate": "==0.10.0"}, []),
    ],
)  # fmt: skip
def test_pins_that_leave_nothing_that_works(specifiers, expected):
    assert clashing(**specifiers) == expected


def test_what_works_is_a_release_that_does():
    for conflict in STORE["conflicts"]:
        first = conflict.get("until", releases(conflict["library"])[-1])
        second = conflict.get("other_until", releases(conflict["other"])[-1])
        (clash,) = clashes(pinned(**{conflict["library"]: f"=={first}", conflict["other"]: f"=={second}"}))
        one, other = working(clash)
        assert one or other
        if one:
            assert clashing(**{conflict["library"]: f"=={one}", conflict["other"]: f"=={second}"}) == []
        if other:
            assert clashing(**{conflict["library"]: f"=={first}", conflict["other"]: f"=={other}"}) == []


@pytest.mark.parametrize(
    ("name", "text", "places"),
    [
        (
            "requirements.txt",
            "# both\ntransformers[deepspeed,sklearn] == 4.46.0 # newest\naccelerate==0.25.0 --hash=sha256:1\n",
            ["transformers[deepspeed,sklearn] == 4.46.0 # newest", "accelerate==0.25.0 --hash=sha256:1"],
        ),
        (
            "pyproject.toml",
            "[project]\nname = 'x'\ndependencies = [\n  'transformers>=4.46,<4.47',\n  'accelerate<0.26',\n]\n",
            ["'transformers>=4.46,<4.47',", "'accelerate<0.26',"],
        ),
        (
            "setup.py",
            "from setuptools import setup\nsetup(install_requires=[\n'transformers~=4.46.0',\n'accelerate<0.26'])\n",
            ["'transformers~=4.46.0',", "'accelerate<0.26'])"],
        ),
        (
            "environment.yml",
            "dependencies:\n- accelerate=0.25\n- pip:\n  - transformers==4.46.1\n",
            ["- transformers==4.46.1", "- accelerate=0.25"],
        ),
        (
            "uv.lock",
            "".join(
                f'[[package]]\nname = "{name}"\nversion = "{version}"\n\n'
                for name, version in (("accelerate", "0.25.0"), ("transformers", "4.46.0"))
            ),
            ['name = "transformers"', 'name = "accelerate"'],
        ),
    ],
)
def test_the_finding_shows_both_pins(tmp_path, monkeypatch, name, text, places):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    (finding,) = findings("", AUTO, "trainer")
    assert (finding.severity, finding.effect, finding.stage) == ("error", "rejected", "load")
    assert [text[one.span.start : one.span.end] for one in finding.related] == places
    assert {one.path for one in finding.related} == {name}


@pytest.mark.parametrize(
    "text",
    [
        "transformers==4.46.0\naccelerate\n",
        "transformers==4.46.0\n",
        "transformers==4.46.0\naccelerate @ git+https://github.com/huggingface/accelerate\n",
        "transformers @ git+https://github.com/huggingface/transformers@abc1234\naccelerate==0.25.0\n",
        "transformers==4.46.0\naccelerate==0.25.0; python_version<'3.9'\naccelerate==1.0.0; python_version>='3.9'\n",
    ],
)
def test_what_is_not_pinned_is_not_compared(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text(text)
    assert findings("", AUTO, "trainer") == []


def test_conda_calls_torch_pytorch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "environment.yml").write_text(
        "dependencies:\n- pytorch::pytorch=2.5.1\n- pip:\n  - deepspeed==0.14.0\n"
    )
    (finding,) = findings("", PLAIN)
    assert "DeepSpeed 0.14.0" in finding.message
    assert "torch 2.5.1" in finding.message


@pytest.mark.parametrize(
    ("config", "stack", "severity"),
    [(PLAIN, None, None), (PLAIN, "deepspeed", None), (AUTO, None, "warning"), (AUTO, "accelerate", None),
     (AUTO, "trainer", "error")],
)  # fmt: skip
def test_what_only_the_trainer_runs_into_needs_a_config_of_it(tmp_path, monkeypatch, config, stack, severity):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("transformers==4.46.0\naccelerate==0.25.0\n")
    assert [finding.severity for finding in findings("", config, stack)] == ([severity] if severity else [])


def environment(folder, *names):
    for name in names:
        (folder / ".venv/lib/python3.12/site-packages" / f"{name}.dist-info").mkdir(parents=True)


def test_what_is_installed_together_is_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [])
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / ".git").mkdir()
    environment(tmp_path, "deepspeed-0.14.0", "torch-2.6.0", "transformers-4.46.0", "accelerate-1.0.0")
    (finding,) = findings("", PLAIN)
    assert "torch 2.6.0" in finding.message
    assert finding.related == []
    # a pin of a file is for another environment, if it is not the one that is installed
    (tmp_path / "requirements.txt").write_text("deepspeed==0.14.4\n")
    assert findings("", PLAIN) == []


def test_a_project_with_several_configs_has_one_finding(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("deepspeed==0.14.0\ntorch==2.6.0\n")
    for name in ("ds_one.json", "ds_two.json"):
        (tmp_path / name).write_text(json.dumps(PLAIN))
    done = subprocess.run(
        [sys.executable, "-m", "ds_lint", "check", ".", "--output-format", "json"],
        env=clean_environment(),
        capture_output=True,
        check=False,
    )
    found = json.loads(done.stdout)["findings"]
    assert [(one["code"], one["path"]) for one in found if one["code"] == "DS846"] == [("DS846", "./ds_one.json")]


def test_flags_are_pins():
    versions = {"transformers": "4.46.1", "accelerate": "0.25.0"}
    report = lint_with(choose("", versions, {}), documents.from_dict(AUTO), stack="trainer")
    (finding,) = [finding for finding in report.findings if finding.code == "DS846"]
    assert finding.help == "Pin `accelerate>=0.26.0`, or `transformers<=4.37.2`."


def test_a_pin_without_a_place_has_none(tmp_path):
    assert place_of(Pin("deepspeed", "==0.9.0", "--deepspeed-version")) is None
    path = tmp_path / "requirements.txt"
    assert place_of(Pin("deepspeed", "==0.9.0", PinPlace(str(path), 3))) is None
    path.write_text("deepspeed==0.9.0")
    assert place_of(Pin("deepspeed", "==0.9.0", PinPlace(str(path), 3))) is None


@pytest.mark.parametrize("folder", ["pin and two", "a:3", "b [project]"])
def test_the_name_of_a_folder_does_not_hide_the_place_of_a_pin(tmp_path, monkeypatch, folder):
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder / "requirements.txt").write_text("deepspeed==0.19.7\naccelerate==0.25.0\ntransformers==4.46.1\n")
    choice = choose(folder, {})
    report = lint_with(choice, documents.from_dict(AUTO), stack="trainer")
    (finding,) = [finding for finding in report.findings if finding.code == "DS846"]
    path = os.path.join(folder, "requirements.txt")
    assert [(one.path, one.label) for one in finding.related] == [
        (path, "pins transformers"),
        (path, "pins accelerate"),
    ]


def test_a_tree_is_the_python_files_of_what_was_fetched(tmp_path, monkeypatch):
    from tools.pairs import trees

    def fetch(library, release, into):
        package = into / "unpacked" / library
        for name in ("__init__.py", "lib/compiled.so", "models/auto/__init__.py", "models/llama/__init__.py"):
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).touch()
        return into / "unpacked"

    monkeypatch.setattr(trees, "fetch", fetch)

    def kept(library):
        tree = trees.tree(library, "2.0", tmp_path)
        return {str(path.relative_to(tree / library)) for path in tree.rglob("*") if path.is_file()}

    assert kept("torch") == {"__init__.py", "models/auto/__init__.py", "models/llama/__init__.py"}
    assert kept("transformers") == {"__init__.py", "models/auto/__init__.py"}
    monkeypatch.delattr(trees, "fetch")  # what is kept is not fetched again
    assert trees.tree("torch", "2.0", tmp_path) == tmp_path / "torch-2.0"


def test_what_was_measured_is_in_the_store():
    from tools.pairs.__main__ import MEASURED

    sources = {one["source"] for one in json.loads(MEASURED.read_text(encoding="utf-8"))}
    assert sources == {one["source"] for one in STORE["conflicts"] if "source" in one}
