"""What the server finds is what ``ds-lint check`` finds in the same text, with the settings of the same project."""

from __future__ import annotations

import json
import re

import pytest

from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import pages

SETTINGS = """
[tool.ds-lint]
deepspeed-version = ">=0.19"
extend-select = ["DS84"]
ignore = ["batch-size-missing"]
baseline = "ds-lint-baseline.json"

[tool.ds-lint.severity]
unknown-key = "warning"

[tool.ds-lint.per-file-ignores]
"1*" = ["misplaced-key"]

[[tool.ds-lint.configs]]
path = "ds_config.json"
world-size = 8

[[tool.ds-lint.configs]]
path = "2*"
stack = "trainer"
trainer-args = "--bf16 --learning_rate 5e-5"
"""


def offset_of(text, position):
    """The place in a text of a position in UTF-16, by another way than the server goes."""
    ends = [0, *(found.end() for found in re.finditer("\r\n|\r|\n", text))]
    line = text[ends[position["line"]] :].encode("utf-16-le", "surrogatepass")
    return ends[position["line"]] + len(line[: 2 * position["character"]].decode("utf-16-le", "surrogatepass"))


@pytest.fixture(scope="module")
def examples():
    """The configs of the rule pages, which between them have something of everything."""
    found = [example for rule in every_rule() for example in pages.examples(pages.page(rule))]
    texts = dict.fromkeys(example.config for example in found if example.language != "yaml")
    return [text for text in texts if len(text) < 50_000]


@pytest.mark.parametrize("settings", ["", SETTINGS], ids=["no settings", "settings"])
def test_server_and_command_line_find_the_same(start, run, tmp_path, examples, settings):
    paths = []
    for number, text in enumerate(examples):
        path = tmp_path / str(number) / "ds_config.json"
        path.parent.mkdir()
        path.write_bytes(text.encode())
        paths.append(f"{number}/ds_config.json")
    named = '[[tool.ds-lint.configs]]\npath = "ds_config.json"\n'
    (tmp_path / "pyproject.toml").write_text(settings or named)
    if settings:
        assert run("check", "12/ds_config.json", "21/ds_config.json", "--write-baseline").returncode in (0, 1)
    report = json.loads(run("check", *paths, "--output-format", "json").stdout)
    client = start().initialize()
    compared = 0
    for path, text in zip(paths, examples, strict=True):
        expected = [one for one in report["findings"] if one["path"] == path]
        client.open(path, text)
        found = client.diagnostics(path)
        assert [(one["code"], one["data"]["key"]) for one in found] == [(one["code"], one["key"]) for one in expected]
        for one, finding in zip(found, expected, strict=True):
            assert one["message"].startswith(finding["message"])
            assert one["codeDescription"]["href"] == finding["url"]
            assert ["error", "warning", "info"][one["severity"] - 1] == finding["severity"]
            places = [offset_of(text, one["range"][end]) for end in ("start", "end")]
            assert places == [finding["span"][end]["offset"] for end in ("start", "end")]
            compared += 1
    assert compared > len(examples) / 2
    assert not client.shown()
    assert not client.logged()
