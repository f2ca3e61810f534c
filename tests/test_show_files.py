"""``ds-lint check --show-files``: which files would be checked, and why."""

from __future__ import annotations

import json

import pytest
from command_line import write_into
from jsonschema import Draft7Validator

from ds_lint.knowledge import resources

CLEAN = {"train_micro_batch_size_per_gpu": 4}
OF_TRAINER = {"zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"betas": "auto"}}}


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def shown(run, *arguments, stdin=""):
    result = run("check", "--show-files", "--output-format", "json", *arguments, stdin=stdin)
    assert (result.returncode, result.stderr) == (0, "")
    described = json.loads(result.stdout)
    with open(resources.path("schemas", "shown_files.schema.json"), encoding="utf-8") as schema:
        Draft7Validator(json.load(schema)).validate(described)
    return described["files"]


def test_every_file_that_would_be_checked_is_listed_with_the_reason(run, write):
    write(
        {
            "a.json": CLEAN,
            "package.json": {"name": "x"},
            "sub/b.json": f"\n  {json.dumps(OF_TRAINER)}",
            "sub/c.json": {"fp16": {}, "optimizer": {}, "scheduler": {}, "gradient_clipping": 1},
            "build/d.json": CLEAN,
        }
    )
    files = shown(run)
    assert [(file["path"], file["kind"], file["why"]) for file in files] == [
        ("./a.json", "deepspeed", "has `train_micro_batch_size_per_gpu`"),
        ("./sub/b.json", "deepspeed", "has `zero_optimization`"),
        ("./sub/c.json", "deepspeed", "has `fp16`, `optimizer`, `scheduler`"),
    ]
    assert [file["configs"] for file in files[:2]] == [
        [{"line": 1, "column": 1, "stack": None}],
        [{"line": 2, "column": 3, "stack": "trainer"}],
    ]
    assert shown(run, "--stack", "deepspeed")[0]["configs"][0]["stack"] == "deepspeed"
    checked = json.loads(run("check", "--output-format", "json").stdout)["files"]
    assert [file["path"] for file in checked] == [file["path"] for file in files]


def test_a_file_with_a_config_inside_is_listed_by_its_language(run, write):
    write({"a.yaml": "deepspeed:\n  zero_optimization:\n    stage: 3\n"})
    write({"b.toml": "[deepspeed.zero_optimization]\nstage = 3\n"})
    assert [(file["path"], file["kind"]) for file in shown(run)] == [("./a.yaml", "yaml"), ("./b.toml", "toml")]


def test_a_named_file_is_listed_whatever_it_is(run, write):
    write({"package.json": {"name": "x"}, "a.json": CLEAN, "broken.json": "{"})
    files = shown(run, "package.json", "a.json", "broken.json", "-", "--stdin-filename", "in.json", stdin="{}")
    assert [(file["path"], file["why"]) for file in files] == [
        ("package.json", "named on the command line"),
        ("a.json", "named on the command line; has `train_micro_batch_size_per_gpu`"),
        ("broken.json", "named on the command line"),
        ("in.json", "named on the command line"),
    ]
    assert [file["path"] for file in shown(run, "package.json", "a.json", "--detect")] == ["a.json"]


def test_people_read_a_line_for_each_file(run, write):
    write({"a.json": CLEAN, "sub/b.json": CLEAN})
    result = run("check", "--show-files", "--stack", "trainer")
    assert result.stdout.splitlines() == [
        "./a.json      deepspeed: has `train_micro_batch_size_per_gpu`; stack trainer",
        "./sub/b.json  deepspeed: has `train_micro_batch_size_per_gpu`; stack trainer",
    ]
    assert (result.returncode, result.stderr) == (0, "")


def test_nothing_to_list_is_said_and_what_cannot_be_read_is_2(run, write):
    write({"package.json": {"name": "x"}})
    nothing = run("check", "--show-files")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "note: no DeepSpeed configs found\n")
    quiet = run("check", "--show-files", "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert shown(run) == []
    missing = run("check", "--show-files", "missing.json")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == "ds-lint: missing.json: No such file or directory\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--fix"], "--show-files checks nothing and cannot be combined with --fix"),
        (["--write-baseline"], "--show-files checks nothing and cannot be combined with --write-baseline"),
        (["--output-format", "sarif"], "--show-files has the formats full, json, not sarif"),
        (["--show-settings"], "--show-settings prints settings, and --show-files prints files; use one of them"),
    ],
)
def test_what_does_not_go_with_it_is_refused(run, more, said):
    result = run("check", "--show-files", *more)
    assert (result.returncode, result.stderr) == (2, f"ds-lint: {said}\n")
