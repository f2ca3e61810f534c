"""Several reports of one run, and the summary of a step in a GitHub workflow."""

from __future__ import annotations

import json

import pytest

from ds_lint import cli
from ds_lint.linter import lint
from ds_lint.output import FORMATS

TYPO = {"train_micro_batch_size_per_gpu": 4, "gradient_cliping": 0.5, "hub_token": "hf_" + "a1" * 16}
CLEAN = {"train_micro_batch_size_per_gpu": 4}


@pytest.fixture(autouse=True)
def project(tmp_path):
    (tmp_path / "typo.json").write_text(json.dumps(TYPO), encoding="utf-8")
    (tmp_path / "clean.json").write_text(json.dumps(CLEAN), encoding="utf-8")


@pytest.mark.parametrize("first", ["full", "json"])
def test_each_report_is_what_the_format_alone_writes(run, tmp_path, first):
    reports = [f"--report={name}=all.{name}" for name in FORMATS]
    done = run("check", "--output-format", first, *reports)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == run("check", "--output-format", first).stdout
    for name in ("concise", "gitlab", "rdjson", "sarif"):
        run("check", "--output-format", name, "--output-file", "alone")
        assert (tmp_path / f"all.{name}").read_bytes() == (tmp_path / "alone").read_bytes()


def test_all_come_of_one_lint(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    linted = []
    checked = lint.lint

    def counting(*arguments, **named):
        linted.append(arguments)
        return checked(*arguments, **named)

    monkeypatch.setattr(lint, "lint", counting)
    assert cli.run(["check", "clean.json", "--output-format", "json"]) == 0
    once = len(linted)
    assert cli.run(["check", "clean.json", "--output-format=json", "--report=sarif=a", "--report=junit=b"]) == 0
    assert len(linted) == 2 * once > 0


def test_one_may_go_to_standard_output(run, tmp_path):
    done = run("check", "--output-file", "full.txt", "--report", "Pylint=-")
    assert done.stdout == run("check", "--output-format", "pylint").stdout
    assert "error[DS101]" in (tmp_path / "full.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--report sarf=a", "--report: unknown value sarf; did you mean sarif? (see ds-lint check --help)"),
        ("--report sarif", "--report: sarif is not FORMAT=FILE (see ds-lint check --help)"),
        ("--report sarif=-", "standard output takes one report; write the other one to a file, with --output-file or"),
        ("-o a --report sarif=./a", "a can hold one report, and two would be written to it"),
        ("--report html=a", "--report html=FILE is a page about training runs and needs --smoke or --smoke-launches"),
        ("--report sarif=a --fix-only", "--fix-only prints no report and cannot be combined with --report"),
        ("--report sarif=a --show-files", "--show-files checks nothing and cannot be combined with --report"),
    ],
)
def test_what_cannot_be_written_is_wrong_usage(run, tmp_path, options, said):
    done = run("check", *options.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ds-lint: {said}")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("options", [["-o", "./typo.json"], ["--report", "sarif=typo.json"]])
def test_a_report_does_not_replace_what_is_checked(run, tmp_path, options):
    done = run("check", "--fix", "typo.json", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert "typo.json is checked, and the report would replace it" in done.stderr
    assert json.loads((tmp_path / "typo.json").read_text(encoding="utf-8")) == TYPO


def test_one_that_cannot_be_written_does_not_keep_the_others_from_it(run, tmp_path):
    done = run("check", "clean.json", "--report", "sarif=nowhere/a", "--report", "junit=b")
    assert (done.returncode, done.stderr) == (2, "ds-lint: nowhere/a: No such file or directory\n")
    assert "clean.json: no findings." in done.stdout
    assert (tmp_path / "b").exists()


def test_an_upgrade_has_them_too(run, tmp_path):
    run("upgrade", "--from", "0.14.4", "clean.json", "--report", "sarif=a.sarif")
    assert json.loads((tmp_path / "a.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"


# The summary of a step


def test_a_step_of_a_workflow_has_a_summary(run, tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("of another program\n")
    done = run("check", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert (done.returncode, done.stderr) == (1, "")
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("of another program\n### ds-lint: 1 error, 1 warning\n\n| severity |")
    assert TYPO["hub_token"] not in text


@pytest.mark.parametrize("options", [["--output-format", "full"], ["--output-format", "github", "--output-file", "a"]])
def test_only_the_log_of_a_workflow_has_one(run, tmp_path, options):
    run("check", *options, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    assert not (tmp_path / "summary.md").exists()


def test_a_quiet_run_without_findings_has_none(run, tmp_path):
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    run("check", "clean.json", "--quiet", **variables)
    assert not (tmp_path / "summary.md").exists()
    run("check", "clean.json", **variables)
    assert (tmp_path / "summary.md").read_text().startswith("### ds-lint: no findings\n")


def test_a_summary_that_cannot_be_written_is_a_note(run):
    done = run("check", "clean.json", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY="nowhere/summary.md")
    note = "note: the summary of the step is not written: nowhere/summary.md: No such file or directory\n"
    assert (done.returncode, done.stderr) == (0, note)


def test_a_summary_stays_within_what_github_shows(run, tmp_path):
    keys = {f"key {number} {'x' * 2000}": number for number in range(700)}
    (tmp_path / "typo.json").write_text(json.dumps(CLEAN | keys), encoding="utf-8")
    summary = tmp_path / "summary.md"
    summary.write_text("x" * 1000)
    run("check", "typo.json", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert 900_000 < summary.stat().st_size <= 1 << 20
    assert "findings more, for which there is no room here." in summary.read_text(encoding="utf-8")
    summary.write_text("x" * (1 << 20))
    done = run("check", "typo.json", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert done.stderr == "note: the summary of the step has no room for this report\n"
    assert summary.stat().st_size == 1 << 20
