"""The formats for CI systems with everything else that the command line can do."""

from __future__ import annotations

import json
import os
import re
from xml.etree import ElementTree as ET

import pytest

TYPO = '{"train_micro_batch_size_per_gpu": 4, "gradient_cliping": 0.5}'
CLEAN = '{"train_micro_batch_size_per_gpu": 4}'
FORMATS = ("azure", "github", "gitlab", "junit", "pylint", "rdjson", "sarif")


def files_of(name, text, folder):
    """The file of each finding that a report tells, from the folder of the run."""
    if name == "gitlab":
        return [issue["location"]["path"] for issue in json.loads(text)]
    if name == "rdjson":
        places = [diagnostic["location"]["path"] for diagnostic in json.loads(text)["diagnostics"]]
        return [os.path.relpath(place, folder) for place in places]
    if name == "pylint":
        return [line.partition(":")[0] for line in text.splitlines()]
    if name == "azure":
        places = re.findall(r"^##vso\[task\.logissue .*;sourcepath=([^;]*);.*code=", text, re.MULTILINE)
        return [os.path.relpath(place, folder) for place in places]
    if name == "sarif":
        places = [result["locations"][0]["physicalLocation"] for result in json.loads(text)["runs"][0]["results"]]
        return [place["artifactLocation"]["uri"] for place in places]
    if name == "junit":
        suites = ET.fromstring(text)  # noqa: S314 - our own
        return [suite.get("name") for suite in suites for _ in suite.iter("failure")]
    commands = (line for line in text.splitlines() if line.startswith(("::error title=DS", "::warning title=DS")))
    return [command.partition(",file=")[2].partition(",")[0] for command in commands]


@pytest.fixture
def findings_of(tmp_path):
    return lambda name, text: files_of(name, text, tmp_path)


@pytest.fixture
def project(tmp_path):
    """One file with a finding and one without."""
    (tmp_path / "typo.json").write_text(TYPO, encoding="utf-8")
    (tmp_path / "clean.json").write_text(CLEAN, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", FORMATS)
def test_a_report_into_a_file(project, run, name, findings_of):
    done = run("check", ".", "--output-format", name, "--output-file", "report")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert findings_of(name, (project / "report").read_text(encoding="utf-8")) == ["typo.json"]


@pytest.mark.parametrize("name", FORMATS)
def test_standard_input(run, name, findings_of):
    done = run("check", "-", "--stdin-filename", "conf/ds.json", "--output-format", name, stdin=TYPO)
    assert done.returncode == 1
    assert findings_of(name, done.stdout) == ["conf/ds.json"]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_left_after_fixes(project, run, name, findings_of):
    (project / "typo.json").write_text(TYPO.replace("0.5", '0.5, "no_such_key": 1'), encoding="utf-8")
    done = run("check", "--fix", "typo.json", "--output-format", name)
    assert findings_of(name, done.stdout) == ["typo.json"]
    assert "gradient_clipping" in (project / "typo.json").read_text(encoding="utf-8")
    on_input = run("check", "--fix", "-", "--output-format", name, stdin=TYPO)
    assert (on_input.returncode, on_input.stdout) == (0, TYPO.replace("cliping", "clipping"))
    assert findings_of(name, on_input.stderr) == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_baseline(project, run, name, findings_of):
    run("check", "--write-baseline")
    (project / "typo.json").write_text(TYPO.replace("0.5", '0.5, "no_such_key": 1'), encoding="utf-8")
    done = run("check", "--baseline", "ds-lint-baseline.json", "--output-format", name)
    assert done.returncode == 1
    assert findings_of(name, done.stdout) == ["typo.json"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_cannot_be_read(project, run, name, findings_of):
    done = run("check", "typo.json", "nowhere.json", "--output-format", name)
    assert (done.returncode, done.stderr) == (2, "ds-lint: nowhere.json: No such file or directory\n")
    assert findings_of(name, done.stdout) == ["typo.json"]
    if name not in ("gitlab", "pylint", "rdjson"):  # have no place for it
        assert "nowhere.json: No such file or directory" in done.stdout


@pytest.mark.parametrize("name", ["gitlab", "junit", "pylint", "rdjson", "sarif"])
def test_no_file_that_can_be_read_is_a_report_all_the_same(run, name, findings_of):
    done = run("check", "nowhere.json", "--output-format", name)
    assert done.returncode == 2
    assert findings_of(name, done.stdout) == []


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_name_that_is_no_utf8(tmp_path, run, name, encoding, findings_of):
    with open(os.fsencode(tmp_path) + b"/\xff.json", "w", encoding="utf-8") as file:
        file.write(TYPO)
    done = run("check", ".", "--output-format", name, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (1, "")
    (path,) = findings_of(name, done.stdout)
    assert path in {"\udcff.json", "%FF.json", "\\udcff.json", "<U+DCFF>.json"}


def test_a_workflow_of_github_gets_its_format(project, run, findings_of):
    done = run("check", GITHUB_ACTIONS="true")
    assert findings_of("github", done.stdout) == ["typo.json"]
    assert "1 error in 1 of 2 files" in done.stdout
    one = run("check", "typo.json", GITHUB_ACTIONS="true")  # without the parser
    assert findings_of("github", one.stdout) == ["typo.json"]


@pytest.mark.parametrize("options", [["--output-format", "full"], ["--output-file", "/dev/stdout"]])
def test_unless_another_is_asked_for_or_it_goes_into_a_file(project, run, options):
    done = run("check", *options, GITHUB_ACTIONS="true")
    assert "error[DS101] unknown-key" in done.stdout
    assert "::error" not in done.stdout


@pytest.mark.parametrize("value", ["", "false"])
def test_another_machine_is_no_workflow(project, run, value):
    assert "::error" not in run("check", GITHUB_ACTIONS=value).stdout


@pytest.mark.parametrize("name", FORMATS)
def test_an_upgrade(project, run, name):
    (project / "typo.json").write_text('{"train_batch_size": 8, "amp": {"enabled": false}}', encoding="utf-8")
    done = run("upgrade", "--from", "0.14.4", "typo.json", "--output-format", name, "--fail-on", "error")
    assert done.returncode in (0, 1)
    assert "DS1" in done.stdout
