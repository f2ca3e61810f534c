"""The reports for CI systems, read by those who know the formats."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from ds_lint.output.github import command

pytestmark = pytest.mark.client

HUGE = {"train_micro_batch_size_per_gpu": 4, **{f"梯度😀 {number}": number for number in range(300)}}
PROJECT = {
    "train/zero 3,a:b%20#c.json": '{\r\n  "train_micro_batch_size_per_gpu": 4,\r\n  "gradient_cliping": 0.5\r\n}\r\n',
    "train/byte order mark.json": '\ufeff{"train_batch_size": 8, "bf16": {"enabled": true}, "fp16": {"enabled": true}}',
    "comments.json": '{\n  // ours\n  "train_batch_size": 8,\n  "[x](1)": "</a>]]>\\u0000\\ud800",\n  "stag": 1,\n}',
    "clean.json": '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}',
    "broken.json": '{"train_batch_size": 8, "zero_optimization": {"stage": 3',
    "huge.json": json.dumps(HUGE, ensure_ascii=False),
}

# What multitool notes, and why it is left so.
NOTES = {
    "SARIF2002": "a message is a text: the sentences of a rule have no template",
    "SARIF2003": "which commit it was, the CI system knows",
    "SARIF2006": "the address of a page cannot be reached from here",
    "SARIF2011": "the lines around a place stand in the repository, as the files do",
    "SARIF2012": "a rule is told with what it found, and a clean report has none",
    "SARIF2013": "see SARIF2011",
}


@pytest.fixture
def project(tmp_path):
    """A repository with configs of all kinds."""
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    with open(os.fsencode(tmp_path) + b"/\xff.json", "wb") as file:
        file.write(b'{"train_batch_size": 8, "launcher": "\xff"}')
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.fixture(params=["check", "unreadable", "upgrade", "nothing"])
def written(request, project, run):
    """Writes a report in a format, by several command lines."""
    command, status = {
        "check": (["check"], 1),
        "unreadable": (["check", "nowhere.json", "clean.json"], 2),
        "upgrade": (["upgrade", "--from", "0.14.4", "train"], 1),
        "nothing": (["check", ".git"], 0),
    }[request.param]

    def written(name):
        done = run(*command, "--output-format", name, "--output-file", f"report.{name}")
        assert done.returncode == status, done.stderr
        return project / f"report.{name}"

    return written


def test_the_standard_has_no_objection(written, program):
    with open(program("schemastore/schemas/json/sarif-2.1.0.json"), encoding="utf-8") as file:
        schema = json.load(file)
    log = json.loads(written("sarif").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(log)] == []


def test_multitool_has_no_objection(written, program, tmp_path):
    multitool = program("@microsoft/sarif-multitool-linux/Sarif.Multitool")
    report = written("sarif")

    def objections(path):
        options = ["--level", "Error;Warning;Note", "--rule-kind", "Sarif;Ghas", "--max-file-size-in-kb", "100000"]
        environment = os.environ | {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "HOME": str(tmp_path)}
        command = [multitool, "validate", path, *options]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        assert "1 files scanned" in said
        return re.findall(r"^.*?\): (error|warning|note) ([A-Z]+\d+): .*", said, re.MULTILINE)

    assert {(level, rule) for level, rule in objections(report)} <= {("note", rule) for rule in NOTES}
    report.write_text(report.read_text().replace('"ruleIndex": 0', '"ruleIndex": 99').replace('"2.1.0"', '"2.0"'))
    assert ("error", "JSON1019") in objections(report)  # it does object to what is wrong


def test_sarif_tools_counts_the_findings(project, program, run):
    run("check", "--output-format", "sarif", "--output-file", "report.sarif")
    run("check", "--output-format", "json", "--output-file", "report.json")
    severities = [finding["severity"] for finding in json.loads((project / "report.json").read_text())["findings"]]
    summary = [program("bin/sarif"), "summary", project / "report.sarif"]
    told = subprocess.run(summary, capture_output=True, text=True, check=True)
    for severity, level in (("error", "error"), ("warning", "warning"), ("info", "note")):
        assert f"\n{level}: {severities.count(severity)}\n" in told.stdout


def test_gitlab_is_told_what_sarif_tools_would_tell_it(project, program, run):
    for name in ("gitlab", "sarif"):
        run("check", "--output-format", name, "--output-file", f"report.{name}")
    ours = json.loads((project / "report.gitlab").read_text())
    convert = [program("bin/sarif"), "codeclimate", "--output", project / "theirs.json", project / "report.sarif"]
    subprocess.run(convert, capture_output=True, check=True)
    theirs = json.loads((project / "theirs.json").read_text())

    def told(issues):
        return sorted((issue["check_name"], issue["severity"], issue["location"]["lines"]["begin"]) for issue in issues)

    assert all(set(issue) == set(theirs[0]) for issue in ours)
    assert told(ours) == told(theirs)
    assert len({issue["fingerprint"] for issue in ours}) == len(ours)


def test_jenkins_has_no_objection(written, program):
    validator = [program("bin/xmlschema-validate"), "--schema", program("junit-10.xsd")]
    report = written("junit")
    done = subprocess.run([*validator, report], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    report.write_text(report.read_text().replace("<testsuite ", "<testsuite file2='x' "), encoding="utf-8")
    assert subprocess.run([*validator, report], capture_output=True, check=False).returncode != 0


ISSUE_COMMANDS = """
import * as core from "@actions/core";
import { readFileSync } from "node:fs";
for (const [name, message, properties] of JSON.parse(readFileSync(0, "utf-8"))) core[name](message, properties);
"""
NASTY = st.text(st.characters(codec="utf-8") | st.sampled_from("%:,=\r\n;#[]\0\x1b"), min_size=1, max_size=40)


@given(st.lists(st.tuples(st.sampled_from(["error", "warning", "notice"]), NASTY, NASTY, NASTY), min_size=100))
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_github_escapes_as_we_do(program, cases):
    core = program("@actions/core")
    theirs = [
        (name, message, {"title": title, "file": file, "startLine": 3, "endLine": 3, "startColumn": 1, "endColumn": 9})
        for name, message, title, file in cases
    ]
    done = subprocess.run(
        ["node", "--input-type=module", "-e", ISSUE_COMMANDS],
        input=json.dumps(theirs).encode(),
        cwd=os.path.dirname(os.path.dirname(os.path.dirname(core))),
        capture_output=True,
        check=True,
    )
    place = {"line": "3", "endLine": "3", "col": "1", "endColumn": "9"}
    ours = [command(name, message, {"title": title, "file": file, **place}) for name, message, title, file in cases]
    assert done.stdout.decode().split("\n") == [*ours, ""]
