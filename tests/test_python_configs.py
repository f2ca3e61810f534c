"""Configs in Python through the whole of ds-lint: the findings of the dict, and fixes that Python reads."""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path

import pytest
from linted import problems

import ds_lint

CORPUS = Path(os.environ.get("DS_LINT_CORPUS", Path(__file__).parent.parent.parent / "shared" / "corpus"))
MODULE = """\
import deepspeed

config = {}  # all of it

deepspeed.initialize(model=model, config=config)
"""
TWO = """\
from transformers import TrainingArguments

FIRST = {
    "train_micro_batch_size_per_gpu": 4,
    'gradient_cliping': 1.0,  # a typo
    "zero_optimization": {"stage": "2"},
}
SECOND = dict(zero_optimization=dict(stage=3, offload_optimiser={"device": "cpu"}), bf16={"enabled": "auto"})
TrainingArguments(deepspeed=FIRST)
TrainingArguments(deepspeed=SECOND)
"""


@pytest.fixture
def module(save):
    """Writes a module, and returns its path."""
    return lambda text, name="train.py": save(name, text)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside the project")
def test_a_dict_in_python_has_the_findings_of_the_dict(module):
    compared = 0
    for path in sorted(CORPUS.glob("configs/*.json"))[::7]:
        try:
            config = json.loads(path.read_bytes())
        except ValueError:
            continue
        expected = ds_lint.check(config, stack="deepspeed")
        found = ds_lint.check(module(MODULE.replace("{}", repr(config))))
        assert problems(found) == problems(expected), path.name
        compared += 1
    assert compared > 50


def test_both_configs_of_a_file_are_fixed(run, module):
    path = module(TWO)
    result = run("check", "--fix", "train.py")
    assert "Fixed 3 findings" in result.stdout
    expected = TWO.replace("gradient_cliping", "gradient_clipping").replace('"stage": "2"', '"stage": 2')
    assert path.read_text() == expected.replace("offload_optimiser", "offload_optimizer")


def test_a_diff_has_both_configs_of_a_file(run, module):
    module(TWO)
    diff = run("check", "--diff", "train.py").stdout
    assert diff.count("--- train.py") == 1
    added = [line for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added == [
        "+    'gradient_clipping': 1.0,  # a typo",
        '+    "zero_optimization": {"stage": 2},',
        "+" + TWO.splitlines()[7].replace("offload_optimiser", "offload_optimizer"),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"zero_optimization": True}', '{"zero_optimization": {"stage": 1}'),
        ('{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "true"}}', '"bf16": {"enabled": True}'),
        (
            '{\n    "zero_optimization": {"stage": 3},  # big\n}',
            '{\n    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},  # big\n',
        ),
    ],
)
def test_values_are_written_as_python_has_them(run, module, before, after):
    path = module(f"from transformers import TrainingArguments\nTrainingArguments(deepspeed={before})\n")
    run("check", "--fix", "--unsafe-fixes", "train.py")
    assert after in path.read_text()


def test_a_key_that_stands_elsewhere_gets_no_broken_fix(run, module):
    path = module(
        "import deepspeed\n"
        "base = {'zero_optimization': {'stage': 2, 'stag': 3}, 'gradient_cliping': 1.0}\n"
        "config = {**base, 'fp16': {'enabled': True}}\n"
        "config['bf16'] = {'enabled': True}\n"
        "config['train_micro_batch_size_per_gpu'] = 4\n"
        "config['steps_per_prin'] = 10\n"
        "deepspeed.initialize(config=config)\n"
    )
    run("check", "--fix", "--unsafe-fixes", "train.py")
    fixed = path.read_text()
    ast.parse(fixed)
    assert "'gradient_clipping': 1.0" in fixed
    assert "config['steps_per_print'] = 10" in fixed


def test_a_comment_suppresses_findings(run, module):
    module(TWO.replace("# a typo", "# ds-lint: ignore[unknown-key]"))
    result = run("check", "--output-format", "concise", "train.py")
    assert "gradient_cliping" not in result.stdout
    assert "offload_optimiser" in result.stdout
    assert "Suppressed: 1 finding by comments" in result.stdout


def test_a_folder_is_searched_for_python(run, module):
    module(TWO)
    module("SETTINGS = {'optimizer': 'adam'}\n", "other.py")
    result = run("check", "--show-files", "--output-format", "json")
    (file,) = json.loads(result.stdout)["files"]
    assert (file["path"], file["kind"]) == ("./train.py", "python")
    assert file["configs"] == [
        {"line": 3, "column": 9, "stack": "trainer"},
        {"line": 8, "column": 10, "stack": "trainer"},
    ]


def test_a_file_without_configs_is_no_mistake(run, module):
    module("print('hello')\n")
    result = run("check", "train.py")
    assert (result.returncode, result.stdout) == (0, "No DeepSpeed configs found.\n")


COMPUTED = """
import deepspeed
from transformers import TrainingArguments
args = parse()
deepspeed.initialize(model=model, config=args.config)
TrainingArguments("out", deepspeed=load(args.config))
TrainingArguments("out", deepspeed=None)
"""


def test_a_config_that_only_a_run_shows_is_named(run, module):
    module(COMPUTED)
    result = run("check", "train.py")
    assert result.returncode == 0
    assert result.stdout.splitlines() == [
        "note: config of deepspeed.initialize at train.py:5 is computed at run time: not checked",
        "note: config of TrainingArguments at train.py:6 is computed at run time: not checked",
        "No DeepSpeed configs found.",
    ]


def test_a_config_that_shows_elsewhere_is_not_named(run, module):
    module(COMPUTED + "deepspeed.initialize(config={'train_batch_size': 1, 'zero_optimization': {}})\n")
    assert "run time" not in run("check", "train.py").stdout
    module(COMPUTED + "deepspeed.initialize(config='ds.json')\n")
    assert "run time" not in run("check", "train.py").stdout


def test_standard_input_without_configs_stays_as_it_is(run):
    result = run("check", "--fix", "-", "--stdin-filename", "a.py", stdin="print('hello')\n")
    assert (result.returncode, result.stdout) == (0, "print('hello')\n")
    result = run("check", "--fix", "-", "--stdin-filename", "a.py", stdin=TWO)
    assert "gradient_clipping" in result.stdout
    assert result.stdout.count("FIRST = {") == 1


def test_effective_takes_a_file_with_one_config(run, module):
    module(MODULE.replace("{}", "{'zero_optimization': {'stage': 2}, 'train_batch_size': 8}"))
    assert "zero_optimization.stage = 2" in run("effective", "train.py").stdout
    module(TWO)
    result = run("effective", "train.py")
    assert result.returncode == 2
    assert result.stderr.startswith("ds-lint: train.py has 2 configs, at ")


BROKEN = 'config = {"zero_optimization": {"stage": 2}\nprint(\n'


def test_a_named_module_that_does_not_parse_is_a_finding(run, module):
    module("def main(:\n")
    result = run("check", "train.py", "--output-format", "concise")
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.startswith("train.py:1:10: DS014 [warning] Python cannot parse this module (")
    assert run("check", "-", "--stdin-filename", "a.py", stdin=BROKEN).returncode == 1
    assert run("check", "-", "--stdin-filename", "a.py", "--fix", stdin=BROKEN).stdout == BROKEN
    assert run("effective", "train.py").stderr.startswith("ds-lint: train.py: Python cannot parse it")


NEWER = """\
try:
    import deepspeed
except ImportError, RuntimeError:
    raise
config = {"zero_optimization": {"stage": 2}, "train_batch_size": 8}
"""
OLDER = 'print "x"\nconfig = {"zero_optimization": {"stage": 2}, "train_batch_size": 8}\n'


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python parses it")
@pytest.mark.parametrize("text", [NEWER, OLDER])
def test_what_another_python_parses_does_not_keep_the_rest_from_being_checked(run, module, tmp_path, text):
    module(text)
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 0}, "train_batch_size": 8, "zzz": 1}')
    result = run("check", ".", "--output-format", "concise")
    assert result.returncode == 1
    assert [line.split()[1] for line in result.stdout.splitlines()[:2]] == ["DS101", "DS014"]
    files = json.loads(run("check", ".", "--show-files", "--output-format", "json").stdout)["files"]
    assert {file["path"]: len(file["configs"]) for file in files} == {"./ds.json": 1, "./train.py": 0}
    assert "DS014" not in run("check", ".", "--ignore", "DS014").stdout
    run("check", ".", "--fix", "--unsafe-fixes")
    assert (tmp_path / "train.py").read_text() == text
    run("check", ".", "--add-ignore", "--stack", "deepspeed")
    assert run("check", ".", "--stack", "deepspeed").returncode == 0
    assert run("check", "train.py", "--isolated").returncode == 0


def test_a_cell_that_does_not_parse_is_a_finding(run, tmp_path):
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    sources = ["!pip install deepspeed", OLDER, "config = {'zero_optimization': {'stage': 2}, 'zzz': 1}", "print 'zzz'"]
    cells = [cell | {"source": source} for source in sources]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (tmp_path / "a.ipynb").write_text(text)
    found = run("check", "a.ipynb", "--output-format", "concise").stdout.splitlines()
    assert [line.split()[:3] for line in found[:2]] == [
        ["a.ipynb:cell", "3:1:46:", "DS101"],
        ["a.ipynb:cell", "2:1:1:", "DS014"],
    ]


def test_a_script_that_is_launched_and_does_not_parse_is_named(run, module, tmp_path):
    module("print 'x'\n")
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 0}, "train_batch_size": 8}')
    (tmp_path / "run.sh").write_text("deepspeed --num_gpus 2 train.py --deepspeed ds.json\n")
    result = run("check", ".")
    assert result.returncode == 0
    assert "train.py is launched, but Python cannot parse it" in result.stdout


@pytest.mark.parametrize("sign", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_only_what_ends_a_line_for_python_ends_one(run, module, sign):
    module(f'TEXT = "{sign}"\nconfig = {{"zero_optimization": {{"stage": 2}}, "zzz": 1}}  # ds-lint: ignore[DS101]\n')
    assert "1 finding by comments" in run("check", "train.py").stdout
    module(f'TEXT = "{sign}"\nconfig = {{"zero_optimization": {{"stage": 2}}, "zzz": 1}}\n')
    assert "train.py:2:46: DS101" in run("check", "train.py", "--output-format", "concise").stdout


def test_python_s_own_warnings_are_not_printed(run, module):
    module('PATTERN = "\\d"\nconfig = {"zero_optimization": {"stage": 2}, "train_batch_size": 8}\n')
    result = run("check", "train.py", PYTHONWARNINGS="always")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (BROKEN, 1),
        ("plugin = DeepSpeedPlugin(zero_stage=3\n", 1),
        ("print 'zero_optimization'\n", 0),
        ("if gradient_clipping > 0: print 'clip'\n", 0),
    ],
)
def test_a_search_finds_modules_that_look_like_a_config(run, module, text, status):
    module(text)
    assert run("check", ".").returncode == status
    assert run("check", "--detect", "train.py").returncode == status
