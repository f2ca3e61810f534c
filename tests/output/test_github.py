"""Workflow commands; tests/clients/test_reports.py holds the escaping against GitHub's own."""

from __future__ import annotations

import pytest

from ds_lint.diagnostics.report import Complaint
from ds_lint.output.github import command, render
from ds_lint.output.terminal import Terminal
from ds_lint.source.tree import Span

CONFIG = '{\n  "gradient_cliping": {\n  }\n}\n'


@pytest.fixture
def lines(report, file, finding, span):
    """The lines for one finding about a part of the text."""

    def lines(part='"gradient_cliping"', path="config.json", **changes):
        found = finding(span(CONFIG, part), **changes)
        return render(report(file(CONFIG, found, path=path)), Terminal()).splitlines()

    return lines


def test_a_finding_is_a_command_and_the_summary_follows(lines):
    annotation, *log = lines(help="Write it right.\nOr delete it.")
    assert annotation == (
        "::error title=DS101 unknown-key,file=config.json,line=2,endLine=2,col=3,endColumn=21::config.json:2:3: "
        "DS101 [error] DeepSpeed knows no such key (ignored)%0AWrite it right.%0AOr delete it."
    )
    assert log == [
        "1 error in config.json",
        "Checked against deepspeed 0.18.9, transformers 5.12.0, accelerate 1.12.0; stack trainer",
        "For details: ds-lint explain DS101",
    ]


@pytest.mark.parametrize(("severity", "name"), [("error", "error"), ("warning", "warning"), ("info", "notice")])
def test_severities(lines, severity, name):
    assert lines(severity=severity)[0].startswith(f"::{name} title=")


def test_several_lines_have_no_columns(lines):
    assert ",line=2,endLine=3::" in lines('"gradient_cliping": {\n  }')[0]


def test_the_path_is_from_the_root_of_the_repository(lines, tmp_path, monkeypatch):
    (tmp_path / "train").mkdir()
    monkeypatch.chdir(tmp_path / "train")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert ",file=train/a%3A%2C%25b.json,line=" in lines(path="a:,%b.json")[0]
    assert ",file=ds.json,line=" in lines(path="../ds.json")[0]


def test_what_would_end_a_command_is_escaped():
    assert command("error", "100%\r\n::warning::x", {"title": "a:b,c%\n", "file": ""}) == (
        "::error title=a%3Ab%2Cc%25%0A::100%25%0D%0A::warning::x"
    )


@pytest.mark.parametrize("path", ["::error::a.json", "##[error]a.json"])
def test_nothing_but_findings_is_a_command(report, file, path):
    (line,) = render(report(file("{}", path=path)), Terminal()).splitlines()
    assert not line.startswith("::")
    assert "##[" not in line
    assert "a.json: no findings." in line


def test_a_narrow_terminal_makes_no_command(report, file):
    path = "a " * 20 + "::error::a.json"
    assert "\n::" not in render(report(file("{}", path=path)), Terminal(width=41))


def test_what_could_not_be_read_is_an_error(report, file):
    first, second, last = render(
        report(file("{}"), unreadable=[Complaint("a\nb.json", "gone")]), Terminal()
    ).splitlines()
    assert first == "::error title=ds-lint,file=a%0Ab.json::a<U+000A>b.json: gone"
    assert second.startswith("config.json: no findings.")
    assert last == "Exit status 2: a<U+000A>b.json: gone"


@pytest.mark.parametrize(("number", "is_said"), [(10, False), (11, True)])
def test_it_says_that_github_shows_ten_of_a_kind(report, file, finding, number, is_said):
    told = render(report(file("{}", *(finding(Span(0, 1)) for _ in range(number)))), Terminal())
    assert told.count("::error ") == number
    assert ("note: GitHub annotates only the first 10 findings of each kind" in told) == is_said
