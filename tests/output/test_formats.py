"""The registry of formats, and what they may import."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from ds_lint import output
from ds_lint.output import FORMATS, renderer

FOLDER = os.path.dirname(output.__file__)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_renders(name, report, file):
    from ds_lint.output.terminal import Terminal

    rendered = renderer(name)(report(file("{}")), Terminal())
    assert rendered.endswith("\n") or (name, rendered) == ("pylint", "")


OF_EVERY_MODULE = ("addresses", "diagnostics", "source", "output", "record", "rule_pages.pages", "targets.text")
# What prints the answer of another command than `check` knows its records, too.
ANSWERS = {
    "bug_report": ("facts.machine", "knowledge", "launches", "logs", "project", "semantics"),
    "checkpoint": ("checkpoints",),
    "diagnosis": ("logs",),
    "effective_values": ("knowledge.unknown", "semantics.effective"),
    "launches": ("launches", "project.launches"),
    "memory": ("footprint", "frameworks.record"),
    "osv": ("knowledge",),
    "private": ("knowledge.keys",),
}


@pytest.mark.parametrize("module", sorted(name for name in os.listdir(FOLDER) if name.endswith(".py")))
def test_formats_know_nothing_of_checks_and_engine(module):
    with open(os.path.join(FOLDER, module), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    answers = [rooms for name, rooms in ANSWERS.items() if module.startswith(name)]
    allowed = tuple(f"ds_lint.{room}" for rooms in (OF_EVERY_MODULE, *answers) for room in rooms)
    assert [name for name in imported if name.startswith("ds_lint.") and not name.startswith(allowed)] == []


def test_a_clean_run_imports_little():
    program = """
import sys
before = set(sys.modules)
from ds_lint.output import renderer
from ds_lint.diagnostics.report import FileReport, Report
from ds_lint.output.terminal import terminal_of
from ds_lint.source.document import Document

file = FileReport("a", Document("a", "{}", None, []), stack=None, target={"deepspeed": "1"}, missing=[], findings=[])
renderer("full")(Report([file], "1"), terminal_of(sys.stdout))
print(*set(sys.modules) - before)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(run.stdout.split())
    late = {"json", "textwrap", "unicodedata", "dataclasses", "typing", "pathlib", "logging", "re", "shutil"}
    assert not imported & late
    assert not imported & {"ds_lint.output.story", "ds_lint.output.frame", "ds_lint.output.json"}


@pytest.mark.parametrize("name", sorted({*FORMATS} - {"json"}))
def test_every_format_for_people_says_which_stacks_are_affected(name, report, file, finding):
    from ds_lint.output.terminal import Terminal
    from ds_lint.source.tree import Span

    effects = {"deepspeed": "none", "trainer": "rejected", "accelerate": "no-effect"}
    found = finding(Span(0, 1), effect="rejected", stage="parse", effects=effects)
    told = renderer(name)(report(file("{}", found, stack=None)), Terminal())
    assert "rejected at parse with trainer, no-effect with accelerate, fine with deepspeed" in told
