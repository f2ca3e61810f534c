"""Makers of findings and reports, so that a test shows only what it is about."""

from __future__ import annotations

import pytest

from ds_lint.diagnostics.finding import Finding
from ds_lint.diagnostics.report import FileReport, Report
from ds_lint.source.document import Document
from ds_lint.source.tree import Span

TARGET = {"deepspeed": "0.18.9", "transformers": "5.12.0", "accelerate": "1.12.0"}


def make_span(text: str, part: str) -> Span:
    """Where ``part`` stands in ``text`` for the first time."""
    start = text.index(part)
    return Span(start, start + len(part))


def make_finding(span: Span, **changes: object) -> Finding:
    """An unknown key, or what the changes make of it."""
    usual = {
        "code": "DS101",
        "name": "unknown-key",
        "severity": "error",
        "effect": "ignored",
        "stage": None,
        "effects": None,
        "key": "gradient_cliping",
        "message": "DeepSpeed knows no such key",
        "help": "",
        "path": "config.json",
        "span": span,
    }
    return Finding(**(usual | changes))  # type: ignore[arg-type]


def make_file(text: str, *findings: Finding, path: str = "config.json", **changes: object) -> FileReport:
    """A file linted for the Trainer with every fact known, or what the changes make of it."""
    usual = {"stack": "trainer", "target": TARGET, "missing": [], "findings": list(findings)}
    return FileReport(path, Document(path, text, None, []), **(usual | changes))  # type: ignore[arg-type]


def make_report(*files: FileReport, **changes: object) -> Report:
    """A report of these files by ds-lint 0.1.0."""
    return Report(list(files), "0.1.0", **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def span():
    return make_span


@pytest.fixture(scope="session")
def finding():
    return make_finding


@pytest.fixture(scope="session")
def file():
    return make_file


@pytest.fixture(scope="session")
def report():
    return make_report
