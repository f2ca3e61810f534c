"""``ds-lint check --show-settings``: what counts, and its source."""

from __future__ import annotations

import json

import pytest
from command_line import write_into
from jsonschema import Draft7Validator

from ds_lint.knowledge import resources
from ds_lint.linter.engine import every_rule
from ds_lint.session.options import Options
from ds_lint.session.session import Session
from ds_lint.settings.lines import lines_of

SETTINGS = """\
[project]
dependencies = ["deepspeed==0.16.9"]

[tool.ds-lint]
stack = "trainer"  # who loads them
world-size = 8
ignore = [
  "unknown-key",
]
accelerate-version = "1.12.0"

[tool.ds-lint.per-file-ignores]
"zero3/*" = ["DS3"]

[[tool.ds-lint.configs]]
path = "zero3/*"
world-size = 64

[[tool.ds-lint.configs]]
path = "old/*"
stack = "deepspeed"
"""
VERSIONS = ("--transformers-version", "5.12.0")


@pytest.fixture
def project(tmp_path):
    write_into(tmp_path)({"pyproject.toml": SETTINGS, "zero3/a.json": {}, "old/a.json": {}})


def shown(run, *arguments):
    result = run("check", "--show-settings", "--output-format", "json", *VERSIONS, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    described = json.loads(result.stdout)
    with open(resources.path("schemas", "shown_settings.schema.json"), encoding="utf-8") as schema:
        Draft7Validator(json.load(schema)).validate(described)
    return described["settings"]


def values(one):
    return {value["name"]: (value["value"], value["source"]) for value in one["values"]}


def test_every_value_says_who_gave_it(project, run):
    of_config, of_folder = shown(run, "zero3/a.json", ".", "--ignore", "DS7", "--gpu", "T4")
    said = values(of_config)
    assert of_config["file"] == "pyproject.toml"
    assert said["stack"] == ("trainer", "pyproject.toml:5")
    assert said["world-size"] == (64, "pyproject.toml:17")
    assert said["gpu"] == ("T4", "--gpu")
    assert said["nodes"] == (None, "not set")
    assert said["ignore"] == (["unknown-key", "DS7"], "pyproject.toml:7 and --ignore")
    assert said["deepspeed-version"] == ("0.16.9", "pyproject.toml [project]")
    assert said["transformers-version"] == ("5.12.0", "--transformers-version")
    assert said["accelerate-version"] == ("1.12.0", "pyproject.toml:10")
    assert said["fail-on"] == ("warning", "default")
    assert values(of_folder)["world-size"] == (8, "pyproject.toml:6")
    assert values(of_folder)['configs."old/*".stack'] == ("deepspeed", "pyproject.toml:21")


def test_a_baseline_of_the_command_line_counts(project, run):
    (one,) = shown(run, "b.json", "--baseline", "old.json")
    assert values(one)["baseline"] == ("old.json", "--baseline")


@pytest.mark.parametrize(
    "options", ["--fix", "--diff", "--smoke", "--statistics", "--output-file out", "--output-format sarif"]
)
def test_what_it_does_not_do_is_refused(run, options):
    result = run("check", "--show-settings", *options.split())
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("ds-lint: --show-settings ")


def test_rules_that_are_off_say_why(project, run):
    (one,) = shown(run, "zero3/a.json", "--ignore", "DS7")
    why = {rule["code"]: rule["why"] for rule in one["rules"]["off"]}
    assert why["DS301"] == "ignored for this path, pyproject.toml:12"
    assert why["DS101"] == "ignored, pyproject.toml:7"
    assert why["DS701"] == "--ignore"
    assert why["DS842"] == "off by default"
    assert "DS201" in one["rules"]["on"]


@pytest.mark.parametrize("path", ["zero3/a.json", "old/a.json", "b.json"])
@pytest.mark.parametrize(
    "given",
    [{}, {"stack": "accelerate"}, {"select": ["DS1"]}, {"ignore": ["DS1"]}, {"select": ["DS3"], "ignore": ["DS30"]}],
)
def test_it_is_what_a_config_is_linted_with(project, run, tmp_path, monkeypatch, path, given):
    flags = [f"--{name}={value if isinstance(value, str) else value[0]}" for name, value in given.items()]
    (one,) = shown(run, path, *flags)
    monkeypatch.chdir(tmp_path)
    context = Session(Options([path], transformers_version="5.12.0", **given)).context(path)
    said = values(one)
    assert said["stack"][0] == context.basis.stack
    assert said["world-size"][0] == context.basis.facts.world_size
    assert said["fail-on"][0] == context.fail_on
    assert one["rules"]["on"] == [rule.code for rule in context.rules]
    off = [rule["code"] for rule in one["rules"]["off"]]
    assert sorted(one["rules"]["on"] + off) == [rule.code for rule in every_rule()]


def test_as_text(project, run):
    result = run("check", "--show-settings", "zero3/a.json", *VERSIONS, COLUMNS="80")
    lines = result.stdout.splitlines()
    assert lines[:2] == ["zero3/a.json", "settings: pyproject.toml"]
    sources = {line[2:].split(" = ")[0]: line[line.index(" = ") + 3 :].split() for line in lines if " = " in line}
    assert sources["world-size"] == ["64", "pyproject.toml:17"]
    assert sources["gpu"] == ["?", "not", "set"]
    assert any(line.startswith("rules: ") for line in lines)
    assert [line for line in lines if len(line) > 80] == []


def test_without_a_file_everything_is_as_usual(run):
    assert "settings: no file" in run("check", "--show-settings").stdout


@pytest.mark.parametrize(
    ("text", "path", "place", "line"),
    [
        ("\nstack = 'trainer'\n", "ds-lint.toml", ("stack",), 2),
        ("[tool]\nds-lint.stack = 'trainer'\n", "pyproject.toml", ("stack",), 2),
        ("tool.'ds-lint' . stack = 'trainer'\n", "pyproject.toml", ("stack",), 1),
        ("[tool.ds-lint.severity]\nDS101 = 'info'\n", "pyproject.toml", ("severity",), 1),
        ("[tool.other]\nstack = 'x'\n[tool.ds-lint]\nstack = 'trainer'\n", "pyproject.toml", ("stack",), 4),
        ("[[configs]]\npath='a'\n[[configs]]\ngpu='T4'\n", "ds-lint.toml", ("configs", "1", "gpu"), 4),
    ],
)
def test_the_line_of_a_setting(text, path, place, line):
    assert lines_of(text, path)[place] == line
