"""What answers the page of the playground: the command line of ds-lint, on files that are nowhere else."""

from __future__ import annotations

import json
import os

import pytest

from ds_lint import cli
from tools.site.playground.browser import answers
from tools.site.playground.browser.tree_sitter import _root

WRONG = '{"train_micro_batch_size_per_gpu": 4, "gradient_cliping": 0.5}\n'


def ask(command, files=None, options=None, **more):
    asked = {"command": command, "files": files or {}, "options": options or {}, **more}
    return json.loads(answers.answer(json.dumps(asked)))


def codes(given):
    return [finding["code"] for finding in json.loads(given["output"])["findings"]]


def test_a_check_has_the_report_and_leaves_nothing():
    before = os.getcwd()
    given = ask("check", {"ds_config.json": WRONG}, {"stack": "deepspeed"})
    assert (given["status"], codes(given), given["changed"]) == (1, ["DS101"], {})
    assert os.getcwd() == before


def test_options_of_other_commands_are_left_out():
    options = {"micro-batch": "4", "extend-select": "ALL", "preview": "true", "stack": "deepspeed"}
    files = {"c.json": WRONG}
    checked = answers.arguments({"command": "check", "files": files, "options": options})
    assert checked[2:] == ["--extend-select=ALL", "--preview", "--stack=deepspeed", "--", "c.json"]
    memory = answers.arguments({"command": "memory", "files": files, "options": options, "path": "c.json"})
    assert memory[1:] == ["--micro-batch=4", "--stack=deepspeed", "--", "c.json"]


def test_files_that_an_option_names_are_no_configs():
    files = {"c.json": "{}", "model/config.json": "{}", "args.yaml": "bf16: true"}
    words = answers.arguments(
        {"command": "check", "files": files, "options": {"model": "model", "trainer-args": "args.yaml"}}
    )
    assert words[words.index("--") + 1 :] == ["c.json"]


def test_fixes_change_files_and_effective_values_have_texts():
    assert ask("fix", {"c.json": WRONG})["changed"] == {"c.json": WRONG.replace("cliping", "clipping")}
    values = json.loads(ask("effective", {"c.json": WRONG}, path="c.json")["output"])["values"]
    assert {value["key"]: value["shown"] for value in values}["gradient_predivide_factor"] == "1.0"


def test_rules_are_explained():
    assert ask("explain", path="DS101")["output"].startswith("# DS101: unknown-key")


@pytest.mark.parametrize("name", ["/etc/passwd", "../a.json", "a/../../b.json", "", ".", "a//b"])
def test_names_of_other_places_are_refused(name):
    given = ask("check", {name: "{}"})
    assert (given["status"], given["errors"]) == (2, f"{name}: not the name of a file in this folder\n")


def test_a_file_that_is_also_a_folder_is_refused():
    assert ask("check", {"a": "{}", "a/b.json": "{}"})["status"] == 2


@pytest.mark.parametrize("text", ["\ufeff{}\r\n", "\ud800", ""])
def test_every_text_is_answered(text):
    given = ask("check", {"c.json": text})
    assert given["status"] == 1
    assert given["changed"] == {}


def test_what_ds_lint_refuses_is_in_the_answer():
    given = ask("check", {"c.json": "{}"}, {"deepspeed-version": "x"})
    assert (given["status"], given["output"]) == (2, "")
    assert "not a valid version" in given["errors"]
    assert "unknown value x" in ask("check", {"c.json": "{}"}, {"stack": "x"})["errors"]


def test_an_error_of_ds_lint_itself_ends_no_more_than_the_answer(monkeypatch):
    monkeypatch.setattr(cli, "run", lambda words: 1 / 0)
    assert "ZeroDivisionError" in ask("check", {"c.json": "{}"})["output"]


def test_nodes_of_the_page_are_those_of_tree_sitter():
    words = ["program", "command", "command_name", "name", "word"]
    records = [
        [0, -1, 1, 0, 7, 0, 0, 0, 7, 1],  # of "echo hi": what its kind and field are among the words, flags, places
        [1, -1, 1, 0, 7, 0, 0, 0, 7, 2],
        [2, 3, 1, 0, 4, 0, 0, 0, 4, 0],
        [4, -1, 0, 5, 7, 0, 5, 0, 7, 0],
    ]
    root = _root(records, words)
    (command,) = root.children
    assert (root.type, command.type, command.parent) == ("program", "command", root)
    assert command.child_by_field_name("name") is command.children[0]
    assert [child.type for child in command.named_children] == ["command_name"]
    assert (command.children[1].start_byte, command.children[1].end_point.column) == (5, 7)
