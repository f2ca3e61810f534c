"""The JSON report and the schema that describes it."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft7Validator

from ds_lint.diagnostics.finding import EFFECTS, SEVERITIES, STACKS, STAGES, Edit, Fix, Related
from ds_lint.knowledge import resources
from ds_lint.output.json import render
from ds_lint.output.terminal import Terminal
from ds_lint.source.document import Document
from ds_lint.source.tree import Span

TEXT = '{\n  "train_batch_size": 8,\n  "gradient_cliping": 1.0\n}\n'


@pytest.fixture(scope="session")
def schema():
    with open(resources.path("schemas", "report.schema.json"), encoding="utf-8") as file:
        return json.load(file)


@pytest.fixture(scope="session")
def rendered(schema):
    """The rendered report as an object, after the schema has accepted it."""

    def read(report):
        written = json.loads(render(report, Terminal()))
        Draft7Validator(schema).validate(written)
        return written

    return read


def test_the_whole_contract(rendered, report, file, finding, span):
    key = span(TEXT, '"gradient_cliping"')
    found = finding(
        key,
        help='did you mean "gradient_clipping"?',
        related=[
            Related(span(TEXT, '"train_batch_size"'), "beside this"),
            Related(Span(4, 9), "asked for here", "train.sh"),
            Related(Span(4, 9), "written here", "make.py"),
        ],
        fix=Fix("rename it", "safe", [Edit(Span(key.start + 1, key.end - 1), "gradient_clipping")]),
    )
    script = Document("train.sh", "#\n\n--fp16", None, [])
    target = {"deepspeed": "0.18.9", "transformers": "5.12.0", "accelerate": "1.12.0"}
    assert rendered(report(file(TEXT, found), file("", path="empty.json", stack=None), material=[script])) == {
        "version": 1,
        "tool": {"name": "ds-lint", "version": "0.1.0"},
        "files": [
            {"path": "config.json", "stack": "trainer", "target": target},
            {"path": "empty.json", "stack": None, "target": target},
        ],
        "findings": [
            {
                "code": "DS101",
                "name": "unknown-key",
                "severity": "error",
                "effect": "ignored",
                "stage": None,
                "key": "gradient_cliping",
                "message": "DeepSpeed knows no such key",
                "help": 'did you mean "gradient_clipping"?',
                "url": "https://ds-lint.readthedocs.io/en/latest/rules/DS101-unknown-key/",
                "path": "config.json",
                "span": {
                    "start": {"line": 3, "column": 3, "offset": 29},
                    "end": {"line": 3, "column": 21, "offset": 47},
                },
                "related": [
                    {
                        "path": "config.json",
                        "span": {
                            "start": {"line": 2, "column": 3, "offset": 4},
                            "end": {"line": 2, "column": 21, "offset": 22},
                        },
                        "label": "beside this",
                    },
                    {
                        "path": "train.sh",
                        "span": {
                            "start": {"line": 3, "column": 2, "offset": 4},
                            "end": {"line": 3, "column": 7, "offset": 9},
                        },
                        "label": "asked for here",
                    },
                    {"path": "make.py", "span": None, "label": "written here"},
                ],
                "fix": {
                    "title": "rename it",
                    "safety": "safe",
                    "edits": [{"start": 30, "end": 46, "text": "gradient_clipping"}],
                },
            }
        ],
    }


def test_effects_stand_only_where_the_stacks_differ(rendered, report, file, finding):
    effects = {"deepspeed": "no-effect", "trainer": "rejected", "accelerate": "rejected"}
    findings = [
        finding(Span(0, 1), effect="rejected", stage="parse", effects=effects),
        finding(Span(1, 2), effect="risk", stage="train", key=None),
    ]
    differing, same = rendered(report(file("{}", *findings, stack=None)))["findings"]
    assert (differing["effect"], differing["stage"], differing["effects"]) == ("rejected", "parse", effects)
    assert (same["effect"], same["stage"], same["key"]) == ("risk", None, None)
    assert "effects" not in same


def test_columns_and_offsets_count_code_points(rendered, report, file, finding, span):
    text = "\ufeff{\r\n'梯😀': 1}"
    (found,) = rendered(report(file(text, finding(span(text, "1")))))["findings"]
    assert found["span"]["start"] == {"line": 2, "column": 7, "offset": 10}


def test_lone_surrogates_can_be_written_anywhere(report, file, finding):
    found = finding(Span(0, 1), message="\ud800", key="\udfff")
    text = render(report(file("\ud800", found, path="\udc80.json")), Terminal())
    assert text.isascii()
    assert json.loads(text)["findings"][0]["message"] == "\ud800"


def test_schema_is_a_schema_and_refuses_what_the_contract_does_not_have(schema, rendered, report, file, finding):
    Draft7Validator.check_schema(schema)
    accepts = Draft7Validator(schema).is_valid
    written = rendered(report(file("{}", finding(Span(0, 1)))))
    (found,) = written["findings"]
    assert not accepts(written | {"more": []})
    for change in ({"more": 1}, {"stage": "parse"}, {"effect": "rejected"}, {"span": None}, {"code": "DS1"}):
        assert not accepts(written | {"findings": [found | change]}), change
    for field in found:
        assert not accepts(written | {"findings": [{name: found[name] for name in found if name != field}]}), field


def test_schema_knows_the_words_of_the_code(schema):
    definitions = schema["definitions"]
    finding = definitions["finding"]["properties"]
    assert tuple(definitions["effect"]["enum"]) == EFFECTS
    assert tuple(definitions["stack"]["enum"]) == STACKS
    assert tuple(finding["severity"]["enum"]) == SEVERITIES
    assert tuple(finding["stage"]["enum"]) == (*STAGES, None)
