from __future__ import annotations

import subprocess
import sys

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
    assert done.stderr == "ds-lint: ds-lint lsp needs pygls 2 or newer: pip install 'ds-lint[lsp]'\n"
    assert done.stdout == ""
