"""The command line as people, hooks and scripts use it: what is printed where, and the exit status."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from command_line import clean_environment
from jsonschema import Draft7Validator
from newest import NEWEST

from ds_lint import __version__, cli
from ds_lint.commands.table import COMMANDS
from ds_lint.knowledge import keys, resources
from ds_lint.linter.engine import every_rule
from ds_lint.output import FORMATS
from ds_lint.session.context import LintContext

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
with open(resources.path("schemas", "report.schema.json"), encoding="utf-8") as schema:
    REPORT = Draft7Validator(json.load(schema))
DROP_CAPABILITY, READ_ANYTHING = 24, (1, 2)  # prctl.h; CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH

CLEAN = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}
TYPO = {**CLEAN, "gradient_cliping": 0.5}
REMARK = {**CLEAN, "zero_optimization": {"stage": 2, "legacy_stage1": False, "cpu_offload": False}}
SWITCHES = sum(key.name == "enabled" for key in keys.knowledge().everywhere())
BROKEN = '{"train_micro_batch_size_per_gpu": 4,\n "zero_optimization": {"stage": 2'

NOT_CONFIGS = {
    "package.json": {"name": "app", "scripts": {"build": "tsc"}, "dependencies": {"react": "^19.0.0"}},
    "tsconfig.json": '{\n  // strict\n  "compilerOptions": {"strict": true, "target": "es2022",},\n}',
    "settings.json": '{\n  // VS Code\n  "editor.tabSize": 4,\n  "files.exclude": {"**/build": true},\n}',
    "config.json": {"model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 4096, "num_hidden_layers": 32},
    "generation_config.json": {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "eos_token_id": [128001]},
    "tokenizer.json": {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"optimizer": 1}}},
    "tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer", "model_max_length": 4096, "pad_token": None},
    "training_args.json": {
        "bf16": True,
        "fp16": False,
        "gradient_accumulation_steps": 4,
        "per_device_train_batch_size": 1,
        "optim": "adamw_torch",
        "deepspeed": "ds.json",
    },
    "trainer_state.json": {"global_step": 10, "train_batch_size": 8, "log_history": [{"loss": 1.5, "step": 10}]},
    "hyperparameters.json": {"train_batch_size": 8, "gradient_accumulation_steps": 2, "learning_rate": 1e-4},
    "experiment.json": {"model": {}, "data": {}, "epochs": 3, "optimizer": {"lr": 0.1}, "train_batch_size": 8},
    "gpt_neox.json": {
        **{f"its-own-argument-{number}": number for number in range(35)},
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "Adam", "params": {"lr": 6e-4}},
        "zero_optimization": {"stage": 1},
        "fp16": {"enabled": True},
    },
    "accelerate.json": {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {"zero_stage": 3, "offload_optimizer_device": "cpu", "gradient_clipping": 1.0},
    },
}


@pytest.fixture
def write(tmp_path):
    """Writes files below the test's folder: a text as it is, anything else as JSON."""

    def write(**files):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    return write


def found(result):
    """The lines about findings in the format concise."""
    return [line for line in result.stdout.splitlines() if "] " in line]


# Exit status


def test_a_file_that_the_linter_trips_over_is_2_and_the_others_are_linted(write, monkeypatch, capfd, tmp_path):
    """The error is made up; everything else is what happens then."""
    write(**{"a.json": CLEAN, "b.json": TYPO, "c.json": TYPO})
    monkeypatch.chdir(tmp_path)
    lint = LintContext.lint

    def tripping(context, document, rules):
        return next(iter(())) if document.path == "b.json" else lint(context, document, rules)

    monkeypatch.setattr(LintContext, "lint", tripping)
    for flags in ([], ["--diff"], ["--fix"]):
        assert cli.run(["check", *flags, "a.json", "b.json", "c.json"]) == 2
        told = capfd.readouterr()
        assert "ds-lint: b.json: internal error (StopIteration); please report it with this file\n" in told.err
        assert "in tripping" in told.err
        assert "c.json" in told.out or flags == ["--fix"]
    assert "gradient_clipping" in (tmp_path / "c.json").read_text()


def test_a_clean_file_is_0_and_says_what_it_was_linted_for(run, write):
    write(**{"clean.json": CLEAN})
    result = run("check", "clean.json")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("clean.json: no findings. Checked against deepspeed ")
    assert "stack unknown (set --stack)" in result.stdout
    assert "world size (--world-size N)" in result.stdout


def test_findings_are_1(run, write):
    write(**{"typo.json": TYPO})
    result = run("check", "typo.json", "--output-format", "concise")
    assert (result.returncode, result.stderr) == (1, "")
    (line,) = found(result)
    assert line == (
        "typo.json:1:74: DS101 [error] unknown key `gradient_cliping`: DeepSpeed silently ignores it (ignored)"
    )


def test_a_missing_path_is_2_and_the_others_are_still_reported(run, write):
    write(**{"typo.json": TYPO, "clean.json": CLEAN})
    result = run("check", "typo.json", "nowhere.json", "clean.json", "--output-format", "json")
    assert result.returncode == 2
    assert result.stderr == "ds-lint: nowhere.json: No such file or directory\n"
    report = json.loads(result.stdout)
    assert [file["path"] for file in report["files"]] == ["typo.json", "clean.json", "nowhere.json"]
    assert report["files"][-1]["error"] == "No such file or directory"
    assert [finding["code"] for finding in report["findings"]] == ["DS101"]


@pytest.mark.parametrize(
    ("path", "locked"),
    [("folder", "folder"), ("folder/ds.json", "folder"), ("folder/ds.json", "folder/ds.json"), (".", "folder")],
)
def test_what_cannot_be_opened_is_2(run, write, tmp_path, path, locked):
    write(**{"clean.json": CLEAN, "folder/ds.json": CLEAN})
    (tmp_path / locked).chmod(0)
    try:
        result = run("check", path, prepare=obey_permissions)
    finally:
        (tmp_path / locked).chmod(0o755)
    assert result.returncode == 2
    assert "Permission denied" in result.stderr


@pytest.mark.parametrize("output_format", sorted(FORMATS))
@pytest.mark.parametrize(
    ("locked", "mode"),
    [
        ("folder/ds.json", 0),
        ("folder", 0),  # cannot be listed
        ("folder", 0o644),  # can be listed, and nothing in it be opened
        ("pyproject.toml", 0),  # the settings, without which the configs are checked
        ("folder/ds-lint.toml", 0),
    ],
)
def test_what_cannot_be_opened_costs_one_message_and_the_others_are_checked(
    run, write, tmp_path, locked, mode, output_format
):
    settings = {"pyproject.toml": "[tool.ds-lint]\n", "folder/ds-lint.toml": ""}
    write(**{"clean.json": CLEAN, "typo.json": TYPO, "folder/ds.json": CLEAN, "other/typo.json": TYPO}, **settings)
    (tmp_path / locked).chmod(mode)
    try:
        result = run("check", "--output-format", output_format, prepare=obey_permissions)
    finally:
        (tmp_path / locked).chmod(0o755)
    assert result.returncode == 2
    (complaint,) = result.stderr.splitlines()
    assert complaint.endswith(": Permission denied")
    assert result.stdout.count("`gradient_cliping`: ") in (2, 4)  # JUnit says it in the attribute and in the text
    if output_format == "json":
        report = json.loads(result.stdout)
        assert list(REPORT.iter_errors(report)) == []
        (unopened,) = [file for file in report["files"] if "error" in file]
        assert (locked in unopened["path"], unopened["error"]) == (True, "Permission denied")


def test_a_link_that_leads_nowhere_is_no_file_of_a_folder(run, write, tmp_path):
    write(**{"clean.json": CLEAN})
    (tmp_path / "gone.json").symlink_to("nowhere.json")
    (tmp_path / "loop.json").symlink_to("loop.json")
    assert run("check").returncode == 0


def obey_permissions():
    """Even root is kept out of what is locked, once the new process has lost two of its capabilities."""
    if os.geteuid() == 0:
        for capability in READ_ANYTHING:
            ctypes.CDLL(None).prctl(DROP_CAPABILITY, capability)


def test_an_unknown_option_is_2(run, write):
    write(**{"clean.json": CLEAN})
    result = run("check", "clean.json", "--fix-everything")
    assert result.returncode == 2
    assert result.stderr == "ds-lint: unknown option --fix-everything (see ds-lint check --help)\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("chek a.json", "unknown command chek; did you mean check? (see ds-lint --help)"),
        ("a.json", "unknown command a.json; to check this file: ds-lint check a.json (see ds-lint --help)"),
        ("--fix check", "unknown option --fix (see ds-lint --help)"),
        ("check --outputformat json", "unknown option --outputformat; did you mean --output-format? (see"),
        ("check --output-form json", "unknown option --output-form; did you mean --output-format? (see"),
        ("check --out a", "unknown option --out; did you mean --output-format or --output-file? (see ds-lint check"),
        ("check --trainer_args=a", "unknown option --trainer_args; did you mean --trainer-args? (see"),
        ("check --stack trainr", "--stack: unknown value trainr; did you mean trainer? (see ds-lint check --help)"),
        ("init --stage 5", "--stage: unknown value 5; choose from 0, 1, 2, 3 (see ds-lint init --help)"),
        ("check --world-size", "--world-size: expected one argument (see ds-lint check --help)"),
        ("check --select= a.json", "--select names no rule; name codes, prefixes of codes, names or ALL"),
        ("check --fix --diff", "--diff: not allowed with argument --fix (see ds-lint check --help)"),
    ],
)
def test_wrong_usage_is_one_line(run, write, line, said):
    write(**{"a.json": CLEAN})
    result = run(*line.split())
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"ds-lint: {said}")
    assert result.stderr.count("\n") == 1


def test_paths_may_stand_before_and_behind_options(run, tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(TYPO), encoding="utf-8")
    result = run("check", "a.json", "--stack", "deepspeed", "b.json", "--output-format", "concise")
    assert {line.partition(":")[0] for line in result.stdout.splitlines() if "DS101" in line[:30]} == {
        "a.json",
        "b.json",
    }
    assert run("check", "a.json", "--stack", "deepspeed", "-x", "b.json").returncode == 2
    assert "unexpected argument b.json" in run("explain", "DS101", "b.json").stderr


def test_an_unknown_rule_is_2_and_says_which_was_meant(run, write):
    write(**{"clean.json": CLEAN})
    assert_wrong_rule(run("check", "clean.json", "--select", "unknown-keys"), "unknown-keys; did you mean unknown-key?")
    assert_wrong_rule(run("check", "clean.json", "--ignore", "XY999"), "XY999; `ds-lint rules` lists them")


def assert_wrong_rule(result, said):
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"ds-lint: unknown rule {said}\n"


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_a_world_size_that_is_no_number_of_ranks_is_2(run, write, number):
    write(**{"clean.json": CLEAN})
    assert run("check", "clean.json", "--world-size", number).returncode == 2


def test_fail_on_says_which_severities_count(run, write):
    write(**{"info.json": REMARK, "error.json": TYPO, "warning.json": {**CLEAN, "zzz": 1}})
    status = {
        (name, severity): run("check", f"{name}.json", "--fail-on", severity).returncode
        for name in ("info", "warning", "error")
        for severity in ("info", "warning", "error")
    }
    assert [pair for pair, code in status.items() if code] == [
        ("info", "info"),
        ("warning", "info"),
        ("warning", "warning"),
        ("error", "info"),
        ("error", "warning"),
        ("error", "error"),
    ]
    assert run("check", "info.json").returncode == 0


# Rules


@pytest.mark.parametrize("rules", ["DS101", "DS1", "unknown-key", "ds101", "DS005, Unknown-Key"])
def test_rules_are_selected_by_code_prefix_and_name(run, write, rules):
    write(**{"both.json": {"gradient_cliping": 0.5}})
    everything = run("check", "both.json", "--output-format", "concise")
    assert [line.split()[1] for line in found(everything)] == ["DS511", "DS101"]
    selected = run("check", "both.json", "--select", rules, "--output-format", "concise")
    assert [line.split()[1] for line in found(selected)] == ["DS101"]
    ignored = run("check", "both.json", "--ignore", rules, "--output-format", "concise")
    assert [line.split()[1] for line in found(ignored)] == ["DS511"]


def test_ignored_wins_over_selected(run, write):
    write(**{"typo.json": TYPO})
    assert run("check", "typo.json", "--select", "DS1", "--ignore", "DS101").returncode == 0


# Standard input and output


def test_standard_input(run):
    result = run("check", "-", "--output-format", "concise", stdin=json.dumps(TYPO))
    assert result.returncode == 1
    assert found(result)[0].startswith("<stdin>:1:74: DS101 ")


def test_standard_input_under_a_name(run):
    result = run("check", "-", "--stdin-filename", "a.json", "--output-format", "json", stdin=json.dumps(TYPO))
    report = json.loads(result.stdout)
    assert [file["path"] for file in report["files"]] == ["a.json"]
    assert [finding["path"] for finding in report["findings"]] == ["a.json"]


def test_the_report_goes_to_a_file(run, write, tmp_path):
    write(**{"typo.json": TYPO})
    printed = run("check", "typo.json")
    result = run("check", "typo.json", "--output-file", "report.txt")
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "")
    assert (tmp_path / "report.txt").read_text(encoding="utf-8") == printed.stdout


def test_short_options_are_those_of_other_linters(run, write, tmp_path):
    write(**{"typo.json": TYPO})
    long = run("check", "typo.json", "--exit-zero", "--quiet")
    assert (long.returncode, bool(long.stdout)) == (0, True)
    assert run("check", "typo.json", "-e", "-q", "-o", "report.txt").returncode == 0
    assert (tmp_path / "report.txt").read_text(encoding="utf-8") == long.stdout


def test_a_dash_is_standard_output(run, write, tmp_path):
    write(**{"typo.json": TYPO})
    assert run("check", "typo.json", "-o", "-").stdout == run("check", "typo.json").stdout
    assert run("schema", "-o", "-").stdout == run("schema").stdout
    converted = run("convert", "typo.json", "--to", "fsdp", "--world-size", "8")
    assert run("convert", "typo.json", "--to", "fsdp", "--world-size", "8", "-o", "-").stdout == converted.stdout
    assert not (tmp_path / "-").exists()


def test_an_output_file_that_cannot_be_written_is_2(run, write):
    write(**{"clean.json": CLEAN})
    result = run("check", "clean.json", "--output-file", "nowhere/report.txt")
    assert (result.returncode, result.stderr) == (2, "ds-lint: nowhere/report.txt: No such file or directory\n")


def test_concise_is_one_line_a_finding(run, write):
    write(**{"a.json": {**TYPO, "zzz": 1}, "b.json": CLEAN})
    result = run("check", "a.json", "b.json", "--output-format", "concise")
    assert [line[:26] for line in found(result)] == ["a.json:1:74: DS101 [error]", "a.json:1:99: DS101 [warnin"]
    assert "1 error, 1 warning in 1 of 2 files" in result.stdout


def test_json_is_one_object_with_every_file_that_was_looked_at(run, write):
    write(**{"a.json": CLEAN, "b.json": BROKEN, "c.json": TYPO, "d.json": "", "e.json": "[]"})
    result = run("check", "a.json", "b.json", "c.json", "d.json", "e.json", "--output-format", "json")
    report = json.loads(result.stdout)
    REPORT.validate(report)
    assert (result.returncode, result.stderr) == (1, "")
    assert [file["path"] for file in report["files"]] == ["a.json", "b.json", "c.json", "d.json", "e.json"]
    assert {finding["path"] for finding in report["findings"]} == {"b.json", "c.json", "d.json", "e.json"}


def test_bytes_that_are_no_text_are_a_finding(run, tmp_path):
    (tmp_path / "latin.json").write_bytes(b'{"train_micro_batch_size_per_gpu": 1, "_note": "caf\xe9"}')
    result = run("check", "latin.json", "--output-format", "concise")
    assert result.returncode == 1
    assert found(result)[0].startswith("latin.json:1:52: DS001 [error] ")


# Directories


def test_a_folder_is_searched_for_configs_by_their_content(run, write):
    write(**NOT_CONFIGS, **{"good.json": CLEAN, "deep/er/typo.json": TYPO, "deep/broken.txt.json": BROKEN})
    result = run("check", "--output-format", "json")
    report = json.loads(result.stdout)
    assert result.returncode == 1
    assert sorted(os.path.normpath(file["path"]) for file in report["files"]) == [
        os.path.join("deep", "broken.txt.json"),
        os.path.join("deep", "er", "typo.json"),
        "good.json",
    ]


def test_a_folder_that_is_named_is_searched_too(run, write):
    write(**{"here/typo.json": TYPO, "there/typo.json": TYPO})
    result = run("check", "there", "--output-format", "concise")
    assert [line.split(":")[0] for line in found(result)] == [os.path.join("there", "typo.json")]


def test_a_folder_without_any_config_is_0_with_a_note(run, write):
    write(**NOT_CONFIGS)
    result = run("check", ".")
    assert (result.returncode, result.stdout) == (0, "No DeepSpeed configs found.\n")


def test_hidden_and_generated_folders_are_left_out_unless_they_are_named(run, write):
    write(**{".git/typo.json": TYPO, "node_modules/pkg/typo.json": TYPO, "a/.cache/typo.json": TYPO})
    assert run("check").returncode == 0
    assert run("check", "node_modules").returncode == 1


def test_a_named_file_is_a_config_whatever_it_holds(run, write):
    write(**NOT_CONFIGS)
    assert run("check", "package.json").returncode == 1


def test_detect_treats_named_files_like_found_ones(run, write):
    write(**NOT_CONFIGS, **{"typo.json": TYPO})
    result = run("check", "--detect", *NOT_CONFIGS, "typo.json", "--output-format", "json")
    assert [file["path"] for file in json.loads(result.stdout)["files"]] == ["typo.json"]


def test_files_that_were_only_looked_into_are_not_spoken_of(run, write):
    write(**NOT_CONFIGS)
    result = run("check", "--detect", *NOT_CONFIGS)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert run("check", "--detect").stdout.startswith("No DeepSpeed configs found.")


def test_a_file_may_begin_with_a_dash(run, write):
    write(**{"-x.json": TYPO, "--fix.json": TYPO})
    result = run("check", "--output-format", "concise", "-x.json", "--fix.json")
    assert [os.path.normpath(line.split(":")[0]) for line in found(result)] == ["-x.json", "--fix.json"]


def test_a_named_pipe_in_a_folder_is_passed_over(run, write, tmp_path):
    write(**{"clean.json": CLEAN})
    os.mkfifo(tmp_path / "pipe.json")
    assert run("check", ".").returncode == 0


# Terminals


def test_a_pipe_gets_colours_only_when_asked(run, write):
    write(**{"typo.json": TYPO})
    assert "\x1b[" not in run("check", "typo.json").stdout
    assert "\x1b[" in run("check", "typo.json", FORCE_COLOR="1").stdout
    assert "\x1b[" not in run("check", "typo.json", FORCE_COLOR="1", NO_COLOR="1").stdout
    assert "\x1b[" not in run("check", "typo.json", "--output-format", "json", FORCE_COLOR="1").stdout


def test_a_terminal_gets_colours_unless_it_asks_for_none(write, tmp_path):
    write(**{"typo.json": TYPO})
    assert "\x1b[" in on_a_terminal(tmp_path)
    assert "\x1b[" not in on_a_terminal(tmp_path, NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(tmp_path, TERM="dumb")


def on_a_terminal(folder, **environment):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "ds_lint", "check", "typo.json"]
    environment = clean_environment() | environment
    with subprocess.Popen(command, stdout=theirs, stdin=theirs, cwd=folder, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # Linux reports it when the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 1
    return shown.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "many.json"),
        ("check", "many.json", "--output-format", "json"),
        ("rules",),
        ("explain", "DS101"),
        ("check", "--help"),
    ],
    ids=" ".join,
)
def test_a_reader_that_goes_away_is_no_error(write, tmp_path, arguments):
    write(**{"many.json": {**CLEAN, "zero_optimization": {f"key{number}": number for number in range(200)}}})
    command = [sys.executable, "-m", "ds_lint", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, cwd=tmp_path, env=clean_environment(), text=True
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode in (0, 1)


@pytest.mark.skipif(os.name == "nt", reason="the shell closes the streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_error(write, tmp_path, closed):
    write(**{"bad.json": {**CLEAN, "gradient_cliping": 1.0}})
    command = ["sh", "-c", f'"$0" -m ds_lint check bad.json {closed}', sys.executable]
    result = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (1, "")


def test_a_release_that_there_is_not_is_wrong_usage_also_without_a_config(run):
    newest = NEWEST["deepspeed"]
    for command in (["check", "--deepspeed-version", "0.16.77"], ["upgrade", "--from", "0.16.77"]):
        result = run(*command, ".")
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == f"ds-lint: ds-lint does not know DeepSpeed 0.16.77; it knows 0.3.1 to {newest}\n"


@pytest.mark.parametrize("output", ["full", "concise", "json"])
def test_a_terminal_without_unicode_gets_escapes(run, write, output):
    write(**{"梯度.json": {**CLEAN, "梯度": 1, "😀": 2}})
    result = run("check", "梯度.json", "--output-format", output, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (1, "")
    assert r"\u68af\u5ea6" in result.stdout
    assert result.stdout.isascii()


@pytest.mark.parametrize("name", ["my config.json", "配置.json", "🚀.json", "-dash.json"])
def test_file_names_of_all_kinds(run, write, name):
    write(**{name: TYPO})
    result = run("check", "--output-format", "concise", "--", name)
    assert (result.returncode, result.stderr) == (1, "")
    assert found(result)[0].startswith(f"{name}:1:74: ")


def test_a_line_break_in_a_file_name_breaks_no_line(run, write):
    write(**{"a\nb.json": TYPO})
    assert found(run("check", "a\nb.json", "--output-format", "concise"))[0].startswith("a<U+000A>b.json:1:74: ")


def test_a_full_disk_is_2_without_a_traceback(write, tmp_path):
    write(**{"clean.json": CLEAN})
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "ds_lint", "check", "clean.json"]
        result = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, env=clean_environment(), text=True, check=False
        )
    assert result.returncode == 2
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr


# Help and explanations


def test_help_names_the_commands(run):
    result = run("--help", COLUMNS="80")
    assert (result.returncode, result.stderr) == (0, "")
    for command in ("check", "effective", "explain", "rules", "completion"):
        assert re.search(rf"^    {command}  +\w", result.stdout, re.MULTILINE)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", ["", *(command.name for command in COMMANDS), "help"])
def test_help_fits_a_terminal(monkeypatch, capsys, name, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.main([*name.split(), "--help"]) == 0
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if len(line) > columns] == []
    assert cli.main([*name.split(), "-h"]) == 0
    assert capsys.readouterr().out == told


def test_help_of_check_names_options_and_exit_status(run):
    result = run("check", "--help")
    assert (result.returncode, result.stderr) == (0, "")
    for word in ("--stack", "--world-size", "--select", "--fail-on", "--output-format", "--detect", "exit status:"):
        assert word in result.stdout


def test_no_command_is_2_with_the_help(run):
    result = run()
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == run("--help").stdout


def test_version(run):
    assert run("--version").stdout == f"ds-lint {__version__}\n"


def test_rules_lists_every_rule_in_order(run):
    from ds_lint.linter import engine  # noqa: F401 - registers the rules

    result = run("rules")
    assert (result.returncode, result.stderr) == (0, "")
    listed = [line.split()[:2] for line in result.stdout.splitlines() if line.startswith("DS")]
    assert listed == sorted([rule.code, rule.name] for rule in every_rule())


def test_explain_prints_the_page_of_a_rule(run):
    page = run("explain", "DS101")
    assert page.returncode == 0
    assert page.stdout.startswith("# DS101: unknown-key\n")
    assert run("explain", "unknown-key").stdout == page.stdout


def test_explain_says_what_a_key_means_and_who_fills_it(run):
    result = run("explain", "zero_optimization.stage")
    lines = result.stdout.splitlines()
    assert result.returncode == 0
    assert lines[0] == "zero_optimization.stage"
    assert "  type      one of 0, 1, 2, 3" in lines
    assert "  default   0" in lines
    assert any(line.startswith("  auto      the Trainer and Accelerate fill it with ") for line in lines)
    assert any(line.startswith("  see       https://www.deepspeed.ai/docs/config-json/") for line in lines)


def test_explain_knows_the_parameters_of_optimizers(run):
    lines = run("explain", "optimizer.params.lr").stdout.splitlines()
    assert lines[0] == "optimizer.params.lr"
    assert any(line.startswith("  auto ") and line.endswith("fill it with learning_rate") for line in lines)


@pytest.mark.parametrize(
    ("subject", "hint"),
    [
        ("nonsense", "`ds-lint rules` lists the rules"),
        ("zero_optimization.stge", "did you mean zero_optimization.stage?"),
        ("zero_optimisation.stge", "did you mean zero_optimization.stage?"),
        ("offload_optimizer.device", "did you mean zero_optimization.offload_optimizer.device?"),
        ("lr", "did you mean optimizer.params.lr?"),
        (
            "nvme_path",
            "did you mean zero_optimization.offload_optimizer.nvme_path or zero_optimization.offload_param.nvme_path?",
        ),
        ("enabled", f"{SWITCHES} sections have it, such as autotuning.enabled"),
        ("overlap_com", "did you mean zero_optimization.overlap_comm?"),
        ("train_batchsize", "did you mean train_batch_size?"),
        ("unknown-ky", "did you mean unknown-key?"),
        ("Unknown_Key", "did you mean unknown-key?"),
        ("DS10", "did you mean DS101, DS102, DS103, DS104, DS105, DS106, DS107, DS108 or DS109?"),
        ("DS", f"{len(every_rule())} codes begin with it, and `ds-lint rules` lists them"),
    ],
)
def test_explain_nonsense_is_2_with_a_hint(run, subject, hint):
    result = run("explain", subject)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"ds-lint: unknown rule, advisory or key {subject}; {hint}\n"


def test_the_installed_command_is_the_module(run):
    command = shutil.which("ds-lint", path=os.path.dirname(sys.executable))
    if command is None:
        pytest.skip("ds-lint is not installed beside this Python")
    result = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    assert result.stdout == run("--version").stdout


# Facts


def test_verbose_lists_the_facts_and_their_sources(run, write):
    write(**{"clean.json": CLEAN})
    shown = run("check", "clean.json", "--world-size", "8", "--nodes", "2", "-v").stdout
    assert "note: world size: 8, by --world-size\nnote: nodes: 2, by --nodes\n" in shown


def test_the_report_for_programs_has_the_facts(run, write):
    write(**{"clean.json": CLEAN})
    report = json.loads(run("check", "clean.json", "--world-size", "8", "--output-format", "json").stdout)
    assert report["files"][0]["facts"] == {"world size": "8, by --world-size"}


def test_facts_that_contradict_each_other_are_2(run, write):
    write(**{"clean.json": CLEAN})
    result = run("check", "clean.json", "--world-size", "2", "--nodes", "4")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ds-lint: 4 nodes and 2 ranks: every node needs at least one rank\n"


def test_ranks_that_do_not_divide_by_the_nodes_are_a_finding_with_numbers_that_fit(run, write):
    write(**{"clean.json": CLEAN})
    for ranks, nodes, number in (("8", "3", 1), ("9", "3", 0)):
        result = run("check", "clean.json", "--world-size", ranks, "--nodes", nodes, "--output-format", "json")
        found = [one for one in json.loads(result.stdout)["findings"] if one["code"] == "DS838"]
        assert len(found) == number
        assert all("Give a world size of 6 or 9 (--world-size), or 2 nodes (--nodes)." in one["help"] for one in found)
    result = run("check", "clean.json", "--world-size", "999999999989", "--nodes", "999999999")
    assert "DS838" in result.stdout


def test_the_model_and_the_machine_change_the_findings(run, write):
    write(**{"clean.json": CLEAN, "config.json": '{"model_type": "t5"}'})
    shown = run("check", "clean.json", "--model", ".", "--gpu", "T4", "--host-memory", "64GB", "-v").stdout
    assert "note: model: ., by --model\nnote: GPU: T4 with 16 GB, by --gpu\nnote: host memory: 64GB, by" in shown


@pytest.mark.parametrize(
    ("flag", "value", "complaint"),
    [
        ("--model", "no-such/nothing", "nothing is downloaded"),
        ("--gpu", "A1000", "unknown GPU 'A1000'"),
        ("--host-memory", "much", "'much' is not a size of memory"),
    ],
)
def test_a_fact_that_cannot_be_read_is_2(run, write, flag, value, complaint):
    write(**{"clean.json": CLEAN})
    result = run("check", "clean.json", flag, value)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert complaint in result.stderr


# Statistics


def test_statistics_take_the_place_of_the_findings_and_not_of_the_exit_status(run, write):
    write(**{"typo.json": TYPO, "clean.json": CLEAN})
    result = run("check", "--statistics")
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.splitlines()[0] == "1 DS101 [*] unknown-key error   in 1 file"
    assert json.loads(run("check", "--statistics", "--output-format", "json").stdout)["rules"][0]["code"] == "DS101"
    assert run("check", "clean.json", "--statistics").returncode == 0
    upgrade = run("upgrade", "--from", "0.14.4", "clean.json", "--statistics", "--fail-on", "info")
    assert (upgrade.returncode, upgrade.stdout.split()[1]) == (1, "DS121")
    assert "[ ]" not in upgrade.stdout


@pytest.mark.parametrize("option", ["--diff", "--output-format=sarif"])
def test_statistics_do_not_go_with_every_option(run, write, option):
    write(**{"clean.json": CLEAN})
    result = run("check", "clean.json", "--statistics", option)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--statistics" in result.stderr


def test_a_file_that_is_no_config_is_noted(run, write):
    write(**{"config.json": NOT_CONFIGS["config.json"]})
    note = "config.json does not look like a DeepSpeed config; --detect skips such files"
    assert f"\nnote: {note}\n" in run("check", "config.json").stdout
    assert json.loads(run("check", "config.json", "--output-format", "json").stdout)["notes"] == [note]


@pytest.mark.parametrize("text", ['{"train_batch_size": 8, "gradient_cliping": 1.0}', '{"train_batch_size": ', "[1]"])
def test_a_small_or_broken_config_is_one(run, tmp_path, text):
    (tmp_path / "ds.json").write_text(text)
    assert "does not look like" not in run("check", "ds.json").stdout


def test_the_summary_says_why_the_status_is_2(run, write):
    write(**{"ds.json": TYPO})
    done = run("check", "nowhere", "gone", "ds.json")
    assert done.stdout.endswith("\nExit status 2: nowhere: No such file or directory, and 1 more\n")
    assert done.returncode == 2


@pytest.mark.parametrize("paths", [("ds.json", "ds.json", "./ds.json"), ("ds.json", "."), (".", "ds.json")])
def test_a_file_that_is_named_twice_is_linted_once(run, write, paths):
    write(**{"ds.json": TYPO})
    assert "\n1 error in ds.json\n" in run("check", *paths).stdout.replace("./", "")
    run("check", "--fix", *paths)
    assert ": no findings." in run("check", *paths).stdout


UNKNOWN = (
    "the command line asks for DeepSpeed 99.0, which is newer than the releases that ds-lint knows; checked against "
)


@pytest.mark.parametrize("config", [CLEAN, TYPO])
@pytest.mark.parametrize(
    ("output_format", "arguments"),
    [
        *((output_format, ()) for output_format in sorted(FORMATS)),
        *((output_format, ("--output-file", "report")) for output_format in sorted(FORMATS)),
        *((output_format, ("--statistics",)) for output_format in ("full", "json")),
        ("concise", ("--fix",)),
        ("json", ("--fix",)),
        ("full", ("--diff",)),
    ],
)
def test_a_release_that_is_not_known_is_said_once_in_every_format(run, write, output_format, arguments, config):
    write(**{"ds.json": config, "other/ds.json": config})
    given = arguments if arguments == ("--diff",) else (*arguments, "--output-format", output_format)
    result = run("check", "--deepspeed-version", "99.0", *given)
    printed = result.stderr
    if (
        output_format in ("azure", "concise", "full", "github", "grouped", "markdown")
        and "report" not in arguments
        and arguments != ("--diff",)
    ):
        printed += result.stdout
    assert printed.count(UNKNOWN) == 1
    if output_format == "json" and arguments in ((), ("--fix",), ("--statistics",)):
        assert any(note.startswith(UNKNOWN) for note in json.loads(result.stdout)["notes"])


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_so_it_is_of_what_is_shown(run, write, output_format):
    write(**{"ds.json": CLEAN})
    result = run("effective", "ds.json", "--deepspeed-version", "99.0", "--output-format", output_format)
    assert result.stderr.count(UNKNOWN) == 1
    if output_format == "json":
        report = json.loads(result.stdout)
        assert [note.startswith(UNKNOWN) for note in report["notes"]] == [True]
        with open(resources.path("schemas", "effective.schema.json"), encoding="utf-8") as file:
            Draft7Validator(json.load(file)).validate(report)
