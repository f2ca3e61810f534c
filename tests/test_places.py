"""What people paste into MegaLinter, a JetBrains IDE or Zed runs ds-lint, though none of these programs is here."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ds_lint import __version__
from ds_lint.addresses import DISTRIBUTION
from tools import json_rpc

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PLUGIN = ROOT / "editors" / "mega-linter-plugin-ds-lint" / "ds-lint.megalinter-descriptor.yml"
LINTER = yaml.safe_load(PLUGIN.read_text(encoding="utf-8"))["linters"][0]
JETBRAINS = json.loads((ROOT / "editors" / "jetbrains" / "template.json").read_text(encoding="utf-8"))


@pytest.fixture
def on_path(tmp_path):
    """An environment in which ``ds-lint`` is this checkout."""
    program = tmp_path / "bin" / "ds-lint"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ds_lint "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    found_first = os.pathsep.join((str(program.parent), os.environ["PATH"]))
    return os.environ | {"PATH": found_first, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    text = '{"train_micro_batch_size_per_gpu": 1, "gradient_cliping": 1.0, "wall_clok": true}'
    (folder / "ds_config.json").write_text(text, encoding="utf-8")
    return folder


def megalinter(repository, on_path, *more):
    """What MegaLinter runs for a linter of a whole project: the program, its words, then those of what it is to do."""
    command = [LINTER["cli_executable"], *LINTER["cli_lint_extra_args"], *more]
    return subprocess.run(command, cwd=repository, env=on_path, capture_output=True, text=True, check=False)


def test_megalinter_counts_the_findings(repository, on_path):
    assert LINTER["cli_lint_mode"] == "project"
    done = megalinter(repository, on_path)
    assert done.returncode == 1
    assert [line.split(" ")[1] for line in done.stdout.splitlines()[:2]] == ["DS101", "DS101"]
    assert len(re.findall(LINTER["cli_lint_errors_regex"], done.stdout)) == 2


def test_megalinter_gets_sarif(repository, on_path, tmp_path):
    report = tmp_path / "megalinter.sarif"
    named = [word.replace("{{SARIF_OUTPUT_FILE}}", str(report)) for word in LINTER["cli_sarif_args"]]
    megalinter(repository, on_path, *named)
    (run,) = json.loads(report.read_text(encoding="utf-8"))["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["DS101", "DS101"]


def test_megalinter_fixes(repository, on_path):
    megalinter(repository, on_path, LINTER["cli_lint_fix_arg_name"])
    assert '"gradient_clipping": 1.0' in (repository / "ds_config.json").read_text(encoding="utf-8")


def test_megalinter_reads_the_version(repository, on_path):
    command = [LINTER["cli_executable"], LINTER["cli_version_arg_name"]]
    printed = subprocess.run(command, env=on_path, capture_output=True, text=True, check=True).stdout
    assert re.search(LINTER["version_extract_regex"], printed)


def test_megalinter_installs_the_release_of_the_descriptor():
    (step,) = LINTER["install"]["dockerfile"]
    assert f" {DISTRIBUTION}=={__version__} " in step


def test_the_page_of_megalinter_names_the_plugin_and_the_linter():
    (shown,) = re.findall(r"```yaml.*?\n(.*?)```", (DOCS / "megalinter.md").read_text(encoding="utf-8"), re.DOTALL)
    settings = yaml.safe_load(shown)
    assert settings["PLUGINS"][0].endswith(PLUGIN.relative_to(ROOT).as_posix())
    assert "/mega-linter-plugin-" in settings["PLUGINS"][0]  # else MegaLinter takes it for no plugin
    assert settings["ENABLE_LINTERS"] == [LINTER["name"]]


# ------------------------------------------------------------------------------------------------------- the server


def zed():
    (shown,) = re.findall(r"```json.*?\n(.*?)```", (DOCS / "zed.md").read_text(encoding="utf-8"), re.DOTALL)
    binary = json.loads(shown)["lsp"]["json-language-server"]["binary"]
    return [binary["path"], *binary["arguments"]]


@pytest.mark.parametrize(
    "command",
    [pytest.param(shlex.split(JETBRAINS["programArgs"]["default"]), id="jetbrains"), pytest.param(zed(), id="zed")],
)
def test_the_command_of_an_editor_starts_the_server(command, on_path):
    pytest.importorskip("pygls")
    server = subprocess.Popen(command, env=on_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with server:
        json_rpc.send(
            server.stdin,
            {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        )
        answer = json_rpc.receive(server.stdout)
        json_rpc.send(server.stdin, {"id": 2, "method": "shutdown"})
        json_rpc.receive(server.stdout)
        json_rpc.send(server.stdin, {"method": "exit"})
    assert answer["result"]["capabilities"]["hoverProvider"]
    assert server.returncode == 0


def test_jetbrains_starts_it_for_every_json_file():
    (mapped, _) = JETBRAINS["fileTypeMappings"]
    assert (mapped["fileType"]["patterns"], mapped["languageId"]) == (["*.json"], "json")
