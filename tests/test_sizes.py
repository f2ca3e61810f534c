"""Ten times the input takes about ten times the time: counted, so that no other work on the machine matters.

``python -m tools.bench.sizes`` measures it.
"""

from __future__ import annotations

import json

import pytest
from linted import lint_document

from ds_lint.fixes.application import ALL
from ds_lint.fixes.together import fix_all, try_all
from ds_lint.source import documents, python

DICT = 'd# = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "gradient_cliping": 1.0}\n'


def each(count, text):
    return "".join(text.replace("#", str(number)) for number in range(count))


class Counted:
    """A function, and how often it is called."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)


@pytest.mark.parametrize("count", [2, 60])
def test_a_module_is_read_a_few_times_however_many_configs_it_has(monkeypatch, count):
    configs = python.read(each(count, DICT), "t.py")
    assert len(configs) == count
    reports = [lint_document(config) for config in configs]
    monkeypatch.setattr(python, "read", Counted(python.read))
    try_all(reports, lint_document)
    assert all(finding.fix.applied_with == "safe" for report in reports for finding in report.findings if finding.fix)
    fixed = fix_all(configs, lint_document, ALL)
    assert [len(report.fixed) for report in fixed] == [1] * count
    assert fixed[-1].document.text == each(count, DICT).replace("cliping", "clipping")
    assert python.read.calls <= 12


def test_a_fix_that_is_refused_does_not_hold_up_the_others():
    def lint(document):
        report = lint_document(document)
        if document.index == 5 and document.root.get("gradient_clipping") is not None:
            report.findings.append(lint_document(documents.from_dict({"gradient_clipp": 1})).findings[0])
        return report

    fixed = fix_all(python.read(each(11, DICT), "t.py"), lint, ALL)
    assert [len(report.fixed) for report in fixed] == [1] * 5 + [0] + [1] * 5
    assert [len(report.unfixed) for report in fixed] == [0] * 5 + [1] + [0] * 5
    assert fixed[-1].document.text.count("cliping") == 1


def test_many_duplicates_are_deleted_together():
    text = "{" + each(300, '"steps_per_print": #,\n') + '"train_batch_size": 8}'
    lint = Counted(lint_document)
    (report,) = fix_all([documents.from_bytes(text.encode(), "ds.json")], lint, ALL)
    assert json.loads(report.document.text) == {"steps_per_print": 299, "train_batch_size": 8}
    assert "DS003" not in {finding.code for finding in report.findings}
    assert lint.calls <= 20


def test_a_duplicate_in_objects_without_keys_is_one_finding():
    document = documents.from_bytes(b'{"a": 1, ' * 3 + b'{"opt": 1,' * 100, "ds.json")
    assert sum(issue.kind == "duplicate-key" for issue in document.issues) <= 102
