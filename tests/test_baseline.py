"""The baseline: how many findings of each rule there are in each file, so that an old repository can start clean."""

from __future__ import annotations

import json

import pytest
from command_line import write_into
from jsonschema import Draft7Validator

from ds_lint.knowledge import resources

with open(resources.path("schemas", "report.schema.json"), encoding="utf-8") as file:
    REPORT = Draft7Validator(json.load(file))

CLEAN = {"train_micro_batch_size_per_gpu": 4}
OLD = {**CLEAN, "zzz": 1, "yyy": 2, "www": 3}
ONE_FEWER = {**CLEAN, "zzz": 1, "www": 3}
ONE_MORE = {**CLEAN, "zzz": 1, "yyy": 2, "xxx": 4, "www": 3}


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def said(result):
    """What standard output says before it comes to what was linted."""
    lines = result.stdout.splitlines()
    return [line for line in lines if not line.startswith(("Judged for", "For the page"))]


def test_an_old_repository_starts_clean_and_only_new_findings_count(run, write, tmp_path):
    write({"pyproject.toml": '[tool.ds-lint]\nbaseline = "ds-lint-baseline.json"\n', "configs/old.json": OLD})
    result = run("check", "--write-baseline", "--output-format", "concise")
    assert result.returncode == 0
    assert said(result)[:2] == [
        "note: wrote ds-lint-baseline.json: 3 findings in 1 file",
        "Held back: 3 findings by the baseline",
    ]
    assert (tmp_path / "ds-lint-baseline.json").read_text(encoding="utf-8") == (
        '{\n  "files": {\n    "configs/old.json": {\n      "unknown-key": 3\n    }\n  },\n  "version": 1\n}\n'
    )
    assert run("check").returncode == 0

    write({"configs/old.json": ONE_MORE})
    result = run("check", "--output-format", "concise")
    assert result.returncode == 1
    assert [line.partition(": ")[0] for line in said(result)] == [
        "./configs/old.json:1:69",
        "Held back",
        "1 warning in ./configs/old.json",
        "1 fixable with --fix --unsafe-fixes",
    ]


def test_a_baseline_that_is_too_large_is_worth_a_note(run, write):
    write({"old.json": OLD})
    run("check", "--write-baseline")
    write({"old.json": ONE_FEWER})
    result = run("check", "--baseline", "ds-lint-baseline.json")
    assert result.returncode == 0
    assert (
        said(result)[0] == "note: ds-lint-baseline.json has 1 finding that is gone; --write-baseline makes it smaller"
    )
    asked_less = run("check", "--baseline", "ds-lint-baseline.json", "--select", "DS2")
    assert "gone" not in asked_less.stdout


def test_without_a_setting_it_is_said_how_to_use_the_baseline(run, write):
    write({"old.json": OLD})
    assert said(run("check", "--write-baseline"))[0] == (
        "note: wrote ds-lint-baseline.json: 3 findings in 1 file; use it with --baseline ds-lint-baseline.json"
    )


def test_paths_are_relative_to_the_baseline_whatever_the_working_directory(run, write, tmp_path):
    write({"deep/ds-lint.toml": 'baseline = "known/base.json"', "deep/known/.keep": "", "deep/old.json": OLD})
    assert run("check", "deep", "--write-baseline").returncode == 0
    assert list(json.loads((tmp_path / "deep/known/base.json").read_text(encoding="utf-8"))["files"]) == ["../old.json"]
    assert run("check", str(tmp_path / "deep/old.json")).returncode == 0
    assert run("check", "deep/old.json").returncode == 0


def test_to_write_it_for_some_files_keeps_the_others_that_are_still_there(run, write, tmp_path):
    write({"a.json": OLD, "b.json": OLD, "c.json": OLD})
    run("check", "--write-baseline")
    (tmp_path / "c.json").unlink()
    write({"a.json": CLEAN})
    run("check", "a.json", "--write-baseline")
    assert json.loads((tmp_path / "ds-lint-baseline.json").read_text(encoding="utf-8"))["files"] == {
        "b.json": {"unknown-key": 3}
    }


def test_to_write_it_by_some_rules_keeps_the_findings_of_the_others(run, write, tmp_path):
    write({"a.json": {**OLD, "optimizer": {"type": "Ada"}}})
    run("check", "--write-baseline")
    before = (tmp_path / "ds-lint-baseline.json").read_text(encoding="utf-8")
    assert before.count(": 1") > 1
    run("check", "--write-baseline", "--select", "unknown-key")
    assert (tmp_path / "ds-lint-baseline.json").read_text(encoding="utf-8") == before


def test_the_report_counts_what_is_held_back(run, write):
    write({"old.json": OLD})
    run("check", "--write-baseline")
    result = run("check", "--baseline", "ds-lint-baseline.json", "--output-format", "json")
    report = json.loads(result.stdout)
    assert list(REPORT.iter_errors(report)) == []
    assert report["findings"] == []
    assert [file.get("held_back") for file in report["files"]] == [{"baseline": 3}]


def test_a_baseline_that_is_not_there_is_2(run, write):
    write({"old.json": OLD})
    result = run("check", "--baseline", "nowhere.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert (
        result.stderr == "ds-lint: nowhere.json: No such file or directory; ds-lint check --write-baseline writes one\n"
    )


def test_a_baseline_that_the_settings_name_and_that_is_not_there_says_where_it_is_named(run, write):
    write({"old.json": OLD, "pyproject.toml": '[tool.ds-lint]\nbaseline = "nope.json"\n'})
    result = run("check", "old.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("ds-lint: pyproject.toml: baseline: nope.json: No such file or directory; ")


@pytest.mark.parametrize(
    "content", [OLD, "{", "[]", {"version": 2, "files": {}}, {"version": 1, "files": {"a.json": {"unknown-key": "3"}}}]
)
def test_what_is_no_baseline_is_neither_used_nor_overwritten(run, write, tmp_path, content):
    write({"old.json": OLD, "other.json": content})
    before = (tmp_path / "other.json").read_bytes()
    for arguments in ([], ["--write-baseline"]):
        result = run("check", "old.json", "--baseline", "other.json", *arguments)
        assert result.returncode == 2
        assert result.stderr == (
            "ds-lint: other.json: this is no baseline; ds-lint check --write-baseline writes one\n"
        )
    assert (tmp_path / "other.json").read_bytes() == before


def test_what_a_comment_holds_back_is_not_written_down(run, write, tmp_path):
    write({"old.json": '{"train_micro_batch_size_per_gpu": 4,\n"zzz": 1 // ds-lint: ignore[unknown-key]\n}'})
    run("check", "--stack", "deepspeed", "--write-baseline")
    assert json.loads((tmp_path / "ds-lint-baseline.json").read_text(encoding="utf-8"))["files"] == {}
