"""Configs in notebooks through the whole of ds-lint: places with their cells, reports about the file, and fixes."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft7Validator

from ds_lint.knowledge import resources

PYTHON = """\
import deepspeed

config = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_cliping": 1.0,
}
"""
FILE = """\
%%writefile ds_config.json
{
  "zero_optimization": {
    "stage": 2,
    "overlap_com": true
  }
}"""


@pytest.fixture
def written(tmp_path):
    """A notebook with two configs, as Jupyter writes it."""
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# größer"]},
        *(
            {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [{"data": "☃"}], "source": source}
            for source in (
                PYTHON.splitlines(keepends=True),
                FILE.splitlines(keepends=True),
                ["engine = deepspeed.initialize(model=model, config=config)"],
            )
        ),
    ]
    path = tmp_path / "train.ipynb"
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def fixed(text):
    return text.replace("gradient_cliping", "gradient_clipping").replace("overlap_com\\", "overlap_comm\\")


def test_texts_name_the_cell_and_the_line_in_it(run, written):
    result = run("check", "--output-format", "concise", "--select", "DS101", "train.ipynb")
    assert "train.ipynb:cell 2:5:5: DS101" in result.stdout
    assert "train.ipynb:cell 3:5:5: DS101" in result.stdout
    full = run("check", "--select", "DS101", "train.ipynb").stdout
    assert ' --> train.ipynb:cell 2:5:5\n5 |     "gradient_cliping": 1.0,\n' in full


def test_reports_are_about_the_file(run, written):
    text = written.read_text(encoding="utf-8")
    report = json.loads(run("check", "--output-format", "json", "--select", "DS101", "train.ipynb").stdout)
    with open(resources.path("schemas", "report.schema.json"), encoding="utf-8") as schema:
        Draft7Validator(json.load(schema)).validate(report)
    assert [(one["cell"], one["cell_line"]) for one in report["findings"]] == [(2, 5), (3, 5)]
    for finding, key in zip(report["findings"], ["gradient_cliping", "overlap_com"], strict=True):
        start, end = finding["span"]["start"], finding["span"]["end"]
        assert text[start["offset"] : end["offset"]] == f'\\"{key}\\"'
        assert text.split("\n")[start["line"] - 1][start["column"] - 1 :].startswith(f'\\"{key}')
    for edit in sorted(
        (edit for one in report["findings"] for edit in one["fix"]["edits"]), key=lambda edit: -edit["start"]
    ):
        text = text[: edit["start"]] + edit["text"] + text[edit["end"] :]
    assert text == fixed(written.read_text(encoding="utf-8"))


def test_annotations_are_in_lines_of_the_file(run, written):
    lines = written.read_text(encoding="utf-8").split("\n")
    output = run("check", "--output-format", "github", "--select", "DS101", "train.ipynb").stdout
    wanted = [number for number, line in enumerate(lines, start=1) if "cliping" in line or "overlap_com" in line]
    for number in wanted:
        assert f"line={number},endLine={number}" in output


def test_both_configs_are_fixed_in_their_lines(run, written):
    before = written.read_text(encoding="utf-8")
    result = run("check", "--fix", "--select", "DS101", "train.ipynb")
    assert "Fixed 2 findings" in result.stdout
    assert written.read_text(encoding="utf-8") == fixed(before)


def test_standard_input_and_a_diff_are_of_the_file(run, written):
    before = written.read_text(encoding="utf-8")
    arguments = ("check", "--fix", "--select", "DS101", "-", "--stdin-filename", "a.ipynb")
    assert run(*arguments, stdin=before).stdout.startswith(fixed(before))
    diff = run("check", "--diff", "--select", "DS101", "train.ipynb").stdout
    assert '-    "    \\"gradient_cliping\\": 1.0,\\n",\n+    "    \\"gradient_clipping\\": 1.0,\\n",\n' in diff


def test_a_folder_is_searched_for_notebooks(run, written, tmp_path):
    (tmp_path / "broken.ipynb").write_text('{"zero_optimization": ')
    files = json.loads(run("check", "--show-files", "--output-format", "json").stdout)["files"]
    assert [(file["path"], file["kind"]) for file in files] == [("./train.ipynb", "notebook")]
    lines = written.read_text(encoding="utf-8").split("\n")
    assert [lines[config["line"] - 1][config["column"] - 1] for config in files[0]["configs"]] == ["{", "{"]
    assert run("check", "broken.ipynb").returncode == 2
