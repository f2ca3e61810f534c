"""Which open texts are linted."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_lint.lsp.recognition import NAME_OF_A_CONFIG
from tools.publish_schemas import FILE_MATCH

MARKS = Path(__file__).parent.parent.parent / "editors" / "vscode" / "src" / "marks.ts"
KEY = '{"zero_optimization": {"stage": 9}}'


def is_linted(client, name, text, language="json"):
    client.open(name, text, language)
    return client.request("ds-lint/target", uri=client.uri(name))["config"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("anything.json", KEY),
        ("anything.txt", KEY.replace("json", "")),
        ("untitled:Untitled-1", KEY),
        ("ds_config.json", ""),
        ("ds_config_zero3.json", "{}"),
        ("my-deepspeed.json", '{"gr'),
        ("zero2_offload.json", '{"optimizer": {"type": "AdamW"}}'),
        ("ds_config.json", '{"gradient_cliping": 1.0}'),
    ],
)
def test_configs_are_known_by_content_or_by_name(client, name, text):
    assert is_linted(client, name, text)


@pytest.mark.parametrize("pattern", FILE_MATCH)
@pytest.mark.parametrize("anything", ["", "1_offload"])
def test_every_name_that_the_published_schema_is_for_has_a_config_name(pattern, anything):
    assert NAME_OF_A_CONFIG.search(pattern.replace("*", anything))


def test_visual_studio_code_marks_the_names_of_configs():
    assert f"const NAME = /{NAME_OF_A_CONFIG.pattern}/i;\n" in MARKS.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("package.json", '{"name": "deepspeed", "optimizer": 1}', "json"),
        ("package.json", "{}", "json"),
        ("deepspeed.json", '{"name": "x", "dependencies": {}}', "json"),
        ("deepspeed_accelerate.json", '{"compute_environment": "LOCAL_MACHINE"}', "json"),
        ("ds_config.json", "[1, 2]", "json"),
        ("zero3.py", "print(" + repr(KEY) + ")", "python"),
        ("zero3.rb", "config = " + KEY, "ruby"),
        ("README.md", KEY, "markdown"),
        ("tokenizer.json", '{"zero": 0}', "json"),
    ],
)
def test_other_texts_are_left_alone(client, name, text, language):
    assert not is_linted(client, name, text, language)
    assert client.at("textDocument/completion", name, 0, 1) is None


def test_what_was_recognised_stays_a_config_while_it_is_open(client):
    assert is_linted(client, "a.json", KEY)
    client.diagnostics("a.json")
    client.change("a.json", '{"ze')
    assert client.diagnostics("a.json")
    client.close("a.json")
    assert not is_linted(client, "a.json", '{"ze')


def test_the_settings_may_name_a_config(client, tmp_path):
    one, many = '[[configs]]\npath = "runs/big"\n', '[[configs]]\npath = "**/*.json"\nstack = "trainer"\n'
    (tmp_path / "ds-lint.toml").write_text(one + many)
    assert is_linted(client, "runs/big", '{"name": 1}', "plaintext")
    assert not is_linted(client, "runs/other.json", '{"name": 1}')  # a pattern says how, not what


def test_excluded_files_are_left_alone(client, tmp_path):
    (tmp_path / "ds-lint.toml").write_text('exclude = ["third_party"]\n')
    assert not is_linted(client, "third_party/zero/ds_config.json", KEY)
    assert is_linted(client, "ours/ds_config.json", KEY)


def test_files_that_are_not_included_are_left_alone(client, tmp_path):
    (tmp_path / "ds-lint.toml").write_text('include = ["ours/*.json"]\n')
    assert not is_linted(client, "other/ds_config.json", KEY)
    assert is_linted(client, "ours/ds_config.json", KEY)
