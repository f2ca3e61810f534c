from __future__ import annotations

import subprocess
import sys

import pytest
from command_line import clean_environment

BROKEN = '{\n  "zero_optimization": {"stage": 3},\n  "gradient_cliping": 1.0\n}\n'


def test_an_open_config_gets_diagnostics(client):
    client.open("ds_config.json", BROKEN)
    (found,) = [one for one in client.diagnostics("ds_config.json") if one["code"] == "DS101"]
    assert found["range"] == {"start": {"line": 2, "character": 2}, "end": {"line": 2, "character": 20}}
    assert found["severity"] == 1
    assert found["source"] == "ds-lint"
    assert found["codeDescription"]["href"].endswith("rules/DS101-unknown-key/")
    assert found["tags"] == [1]
    client.change("ds_config.json", BROKEN.replace("cliping", "clipping"))
    assert not [one for one in client.diagnostics("ds_config.json") if one["code"] == "DS101"]


@pytest.mark.parametrize(("encoding", "columns"), [("utf-8", (14, 32)), ("utf-16", (10, 28)), ("utf-32", (9, 27))])
def test_columns_are_those_that_client_and_server_agreed_on(start, encoding, columns):
    client = start().initialize(encodings=[encoding])
    assert client.capabilities["positionEncoding"] == encoding
    client.open("ds_config.json", '{"_😋中":1,"gradient_cliping": 1.0, "zero_optimization": {}}')
    (found,) = [one for one in client.diagnostics("ds_config.json") if one["data"]["key"] == "gradient_cliping"]
    assert (found["range"]["start"]["character"], found["range"]["end"]["character"]) == columns


def test_the_server_ends_when_it_is_told_to(start):
    assert start().initialize().end() == 0


def test_the_server_ends_with_its_client(start):
    client = start().initialize()
    client.process.stdin.close()
    assert client.process.wait(10) == 1


def test_without_pygls_one_line_says_what_to_install(tmp_path):
    (tmp_path / "pygls.py").write_text("raise ImportError")
    environment = clean_environment()
    environment["PYTHONPATH"] = f"{tmp_path}:{environment['PYTHONPATH']}"
    command = [sys.executable, "-m", "ds_lint", "lsp"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "ds-lint: ds-lint lsp needs pygls 2 or newer: pip install 'deepspeed-lint[lsp]'\n"
    assert done.stdout == ""


def test_a_byte_order_mark_that_the_editor_hides_is_a_finding_until_the_file_is_saved_without(client, tmp_path):
    text = BROKEN.replace("cliping", "clipping")
    (tmp_path / "ds_config.json").write_text(text, encoding="utf-8-sig")
    client.open("ds_config.json", text)
    marked = [one for one in client.diagnostics("ds_config.json") if "byte order mark" in one["message"]]
    assert [one["range"]["start"] for one in marked] == [{"line": 0, "character": 0}]
    found = client.request("textDocument/codeAction", textDocument={"uri": client.uri("ds_config.json")},
                           range=marked[0]["range"], context={"diagnostics": []})  # fmt: skip
    assert not [one for one in found if marked[0] in one.get("diagnostics", ())]  # nothing that the editor could edit
    (tmp_path / "ds_config.json").write_text(text, encoding="utf-8")
    client.save("ds_config.json")
    assert not [one for one in client.diagnostics("ds_config.json") if "byte order mark" in one["message"]]


CRASHES = """
from ds_lint.lsp import hover
from ds_lint.lsp import lint

def crash(*_, **__):
    raise ZeroDivisionError("on purpose")

hover.hover = crash
right = lint.lint_text
lint.lint_text = lambda configs, *rest: crash() if "crash" in configs[0].text else right(configs, *rest)
"""


def test_what_goes_wrong_in_here_is_answered_and_logged_and_the_server_goes_on(start, tmp_path):
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "sitecustomize.py").write_text(CRASHES)
    client = start(PYTHONPATH=f"{tmp_path / 'hooks'}:{clean_environment()['PYTHONPATH']}").initialize()
    client.open("ds_config.json", BROKEN)
    assert client.diagnostics("ds_config.json")
    number = client.start_request("textDocument/hover", {"textDocument": {"uri": client.uri("ds_config.json")},
                                                         "position": {"line": 0, "character": 0}})  # fmt: skip
    assert client.error(number)["message"] == "ZeroDivisionError: on purpose"
    client.change("ds_config.json", BROKEN.replace("1.0", '"crash"'))
    client.change("ds_config.json", BROKEN)
    assert client.diagnostics("ds_config.json")
    assert client.end() == 0
    assert all("on purpose" in one and "please report it" in one for one in client.logged())
    assert "in crash" in client.logged()[0]
