"""The extension in a real VS Code: code-server in Debian's Chromium, with a virtual environment that has ds-lint."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from ds_lint.addresses import RAW, REPOSITORY
from ds_lint.source import recognition

pytestmark = pytest.mark.client

ROOT = Path(__file__).parent.parent.parent
EXTENSION = ROOT / "editors" / "vscode"
PYTHON_EXTENSION = Path(__file__).parent / "vscode" / "python-extension"

WRONG = """{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_cliping": 0.5,
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 2,
    "overlap_com": true
  }
}
"""
UNFINISHED = """{
  "train_micro_batch_size_per_gpu": 4,
  "zero_optimization": {
HERE
  }
}
"""
COMMENTED = """{
  // for a run on one machine
  "train_micro_batch_size_per_gpu": 4,
  "gradient_cliping": 0.5
}
"""
GOOD = """{
  "train_micro_batch_size_per_gpu": 1,
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}
}
"""
PYTHON = """import deepspeed

config = {
    "gradient_cliping": 0.5,
    "train_batch_size": 8,
}
deepspeed.initialize(config=config)
"""
ACCELERATE = """distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 2
num_processes: 8
mixed_precision: no
"""
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [PYTHON]},
        {"cell_type": "markdown", "metadata": {}, "source": ["zero_optimization"]},
    ],
    "metadata": {"language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
# Not one of DeepSpeed's, though it has two words that a config has.
PACKAGE = '{"name": "demo", "version": "1.0.0", "optimizer": "none", "scheduler": "none"}\n'

FILES = {
    "ds_config.json": WRONG,
    "one_wrong.json": WRONG,
    "all_wrong.json": WRONG,
    "on_save.jsonc": COMMENTED,
    "zero3.json": UNFINISHED.replace("HERE", "    "),
    "it's $HOME.json": GOOD,
    "package.json": PACKAGE,
    "train.py": PYTHON,
    "accelerate.yaml": ACCELERATE,
    "train.ipynb": json.dumps(NOTEBOOK),
}


@pytest.fixture(scope="module")
def extensions(program, tmp_path_factory):
    """The extension as it is shipped, and a stand-in for that of Python."""
    program("playwright-core")  # tools/clients was run
    folder = tmp_path_factory.mktemp("extensions")
    _npm("run", "build")
    return [_packaged(EXTENSION, folder / "ds-lint.vsix"), _packaged(PYTHON_EXTENSION, folder / "python.vsix")]


class Played:
    """What was seen in each scene of ``vscode/scenes.mjs``, or how it failed, which ends the play.

    When a test is tried again, that scene and those after it are played again, once, in another VS Code.
    """

    def __init__(self, play):
        self._play = play
        self._scenes = play()
        self._failed = set()  # the tests of these scenes have failed
        self._is_repeated = False

    def saw(self, name):
        if name in self._failed and not self._is_repeated:
            self._is_repeated = True
            first = next(one for one, scene in self._scenes.items() if "error" in scene)
            self._scenes |= self._play(first)
        scene = self._scenes.get(name, {"error": f"not played, because of {self._scenes}"})
        if "error" in scene:
            self._failed.add(name)
            pytest.fail(scene["error"])
        return scene["saw"]


@pytest.fixture(scope="module")
def played(program, extensions, tmp_path_factory):
    program("code-server")
    program("chromium")

    def play(*first):
        return _play(program("node"), extensions, tmp_path_factory, *first)

    return Played(play)


@pytest.fixture(scope="module")
def seen(played):
    """What was seen in a scene."""
    return played.saw


def test_the_page_of_the_extension_shows_its_pictures_and_links(extensions):
    """VS Code and the marketplaces load them from the network alone, whatever lies in the package."""
    with zipfile.ZipFile(extensions[0]) as package:
        text = package.read("extension/readme.md").decode() + package.read("extension/changelog.md").decode()
    home = rf"(?:{re.escape(REPOSITORY)}/blob|{re.escape(RAW)})/main/([^#]+)"
    links = re.findall(r"\]\(([^)\s]+)", text)
    assert any(link.endswith(".png") for link in links)
    for link in links:
        assert (ROOT / re.match(home, link)[1]).is_file(), link


def test_nothing_in_a_folder_is_run_before_it_is_trusted(seen):
    saw = seen("untrusted")
    assert "this folder is not trusted" in saw["message"]
    assert "Manage Trust" in saw["message"]
    assert saw["running"] == []


def test_a_finding_has_a_squiggle_and_the_status_bar_says_what_it_is_linted_by(seen):
    saw = seen("finding")
    assert saw["squiggles"] == 2
    assert re.fullmatch(r"deepspeed [\d.]+ · transformers [\d.]+ · any stack", saw["status"])


def test_one_hover_says_what_a_key_means(seen):
    rows = seen("hover")
    assert len(rows) == 1
    assert rows[0].startswith("zero_optimization")
    assert "type: " in rows[0]


def test_a_quick_fix_is_in_the_saved_file(seen):
    saw = seen("quickFix")
    entries = saw["entries"]
    assert entries[0] == "Rename `gradient_cliping` to `gradient_clipping`"
    assert "Explain DS101" in entries
    assert saw["saved"] == WRONG.replace("gradient_cliping", "gradient_clipping")


def test_the_command_fix_all_fixes_all_even_if_the_cursor_moves_before_the_server_answers(seen):
    fixed = WRONG.replace("gradient_cliping", "gradient_clipping").replace("overlap_com", "overlap_comm")
    assert seen("fixAll") == fixed


def test_all_is_fixed_on_save_where_the_settings_ask_for_it(seen):
    assert seen("fixedOnSave") == COMMENTED.replace("cliping", "clipping")


def test_what_is_completed_is_in_the_saved_file(seen):
    saw = seen("completion")
    assert len(saw["keys"]) == len(set(saw["keys"])), "offered twice"
    completed = UNFINISHED.replace("HERE", '    "overlap_comm": false')
    assert saw["saved"] == completed


def test_a_dict_in_python_is_fixed(seen):
    assert seen("python") == PYTHON.replace("cliping", "clipping")


def test_the_yaml_of_accelerate_is_explained_and_fixed(seen):
    saw = seen("accelerate")
    assert saw["status"].endswith("accelerate")
    assert any("becomes zero_optimization.stage of the DeepSpeed config" in row for row in saw["hover"])
    assert saw["saved"] == ACCELERATE.replace(": no", ": 'no'")


def test_a_cell_of_a_notebook_has_a_squiggle(seen):
    seen("notebook")


def test_nothing_is_said_of_other_files(seen):
    saw = seen("otherFiles")
    assert [problem for problem in saw["problems"] if "ds-lint" in problem] == []
    assert saw["status"] is None
    assert any("Restart Server" in command for command in saw["commands"])
    assert not any("Run Smoke" in command for command in saw["commands"])


def test_the_page_of_a_rule_opens(seen):
    page = seen("explained")
    assert page.startswith("DS101: unknown-key")
    assert "What each stack does" in page


def test_a_click_on_the_status_shows_the_sources(seen):
    rows = seen("target")
    assert rows[0].startswith("deepspeed 0.")
    assert any(row.startswith("stack not known") for row in rows)


def test_pins_of_the_project_and_settings_of_the_editor_are_taken_up(seen):
    saw = seen("pinned")
    assert saw["byProject"].startswith("deepspeed 0.15.4")
    assert saw["byEditor"].startswith("deepspeed 0.16.9")
    assert saw["byEditor"].endswith("trainer")


def test_smoke_runs_in_a_terminal_whatever_the_file_is_called(seen):
    assert "in it's $HOME.json" in seen("smoke") or "it's $HOME.json: no findings" in seen("smoke")


def test_a_server_that_crashed_is_started_again(seen):
    assert any("zero_optimization.stage" in row for row in seen("crashed"))


def test_the_environment_that_is_selected_in_the_python_extension_counts_at_once(seen):
    saw = seen("selected")
    assert saw["servers"] == [f"{saw['python']} -m ds_lint lsp"]


def test_a_server_that_does_not_start_has_its_last_words_shown_and_is_left_alone(seen):
    saw = seen("dying")
    assert "ended. out of luck" in saw["message"]
    assert saw["tries"] == "tried\n"


def test_a_missing_ds_lint_is_told_and_can_be_installed(seen):
    saw = seen("missing")
    assert "it is not installed for" in saw["message"]
    assert "Open Settings" in saw["message"]
    assert saw["status"] == "ds-lint"
    assert "No matching distribution found for deepspeed-lint" in saw["terminal"]


def test_it_comes_back_when_it_is_there_again(seen):
    assert seen("missing")["foundAgain"].startswith("deepspeed")


def test_parts_that_need_no_editor(program):
    program("playwright-core")
    _npm("run", "check")
    _npm("test")


def test_the_server_is_worth_starting_for_the_texts_that_the_command_line_looks_at():
    marks = (EXTENSION / "src" / "marks.ts").read_text()
    assert recognition._MARK.decode() in marks


def _play(node, extensions, tmp_path_factory, first="untrusted"):
    """Play the scenes from one on, in a new home and a new project: configs, and an environment with this ds-lint."""
    home = tmp_path_factory.mktemp("home")
    project = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (project / name).write_text(text)
    _environment_with_ds_lint(project / ".venv")
    _environment_with_ds_lint(home / "with")
    venv.create(home / "without", with_pip=True)
    stage = {
        "home": home,
        "workspace": project,
        "extensions": extensions,
        "pythons": {name: home / name / "bin" / "python" for name in ("with", "without")},
        "dying": _ds_lint_that_dies(home),
    }
    command = [node, "vscode/scenes.mjs", json.dumps(stage, default=str), first]
    without = [folder for folder in os.environ["PATH"].split(os.pathsep) if not Path(folder, "ds-lint").exists()]
    environment = {**os.environ, "PATH": os.pathsep.join(without), "PIP_NO_INDEX": "1"}
    process = subprocess.Popen(
        command, cwd=Path(__file__).parent, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed, _ = process.communicate(timeout=240)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, printed
    return json.loads(printed)


def _ds_lint_that_dies(home):
    """A ds-lint that does not start, and writes down how often that was tried."""
    path = home / "ds-lint"
    path.write_text(f"#!/bin/sh\necho tried >> {home}/tries\necho 'out of luck' >&2\nexit 3\n")
    path.chmod(0o755)
    return path


def _npm(*arguments):
    ended = subprocess.run(["npm", *arguments], cwd=EXTENSION, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _packaged(extension, path):
    vsce = EXTENSION / "node_modules" / ".bin" / "vsce"
    options = ["--no-dependencies", "--skip-license", "--out", path]
    ended = subprocess.run([vsce, "package", *options], cwd=extension, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return path


def _environment_with_ds_lint(path):
    """A virtual environment that has this checkout and what the tests run with."""
    venv.create(path, with_pip=False)
    packages = sysconfig.get_path("purelib", vars={"base": str(path), "platbase": str(path)})
    tested = (folder for folder in sys.path if os.path.basename(folder) == "site-packages")
    (Path(packages) / "ds-lint.pth").write_text("\n".join([str(ROOT), *tested, ""]))
