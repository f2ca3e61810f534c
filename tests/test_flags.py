"""Options as users of other linters know them: how much is printed, what counts, upper and lower case, help, CI."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

from ds_lint import __version__
from ds_lint.commands.environment import VARIABLES
from ds_lint.linter.engine import every_rule
from ds_lint.linter.selection import Selection, select

CLEAN = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}
TYPO = {**CLEAN, "gradient_cliping": 0.5}
STACK = ("--stack", "deepspeed")


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


# How much is printed


@pytest.mark.parametrize("output_format", ["full", "concise", "github"])
def test_quiet_prints_findings_and_nothing_else(run, write, output_format):
    write({"a.json": TYPO, "clean.json": CLEAN})
    asked = ("--output-format", output_format, *STACK, "--deepspeed-version", "99.0")
    loud = run("check", "a.json", *asked)
    quiet = run("check", "a.json", "--quiet", *asked)
    assert (quiet.returncode, quiet.stderr) == (1, "")
    assert loud.stdout.startswith(quiet.stdout)
    assert "gradient_cliping" in quiet.stdout
    for word in ("note:", "in a.json", "ixable with", "ds-lint explain"):
        assert word not in quiet.stdout
    silent = run("check", "clean.json", "-q", *asked, "--ignore", "zero-without-optimizer")
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")


def test_quiet_keeps_reports_for_programs_and_drops_the_notes_beside_them(run, write):
    write({"a.json": TYPO})
    asked = ("--output-format", "json", "--deepspeed-version", "99.0")
    loud, quiet = run("check", "a.json", *asked), run("check", "a.json", "-q", *asked)
    assert json.loads(quiet.stdout) == json.loads(loud.stdout)
    assert loud.stderr.startswith("note: ")
    assert quiet.stderr == ""


def test_quiet_still_complains_of_what_cannot_be_read(run):
    result = run("check", "nowhere.json", "--quiet")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ds-lint: nowhere.json: No such file or directory\n"


def test_a_quiet_diff_is_the_diff_alone(run, write):
    write({"a.json": json.dumps(TYPO, indent=1)})
    loud, quiet = run("check", "a.json", "--diff", *STACK), run("check", "a.json", "--diff", "-q", *STACK)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (1, loud.stdout, "")
    assert loud.stderr == "1 finding would be fixed.\n"


def test_quiet_and_verbose_exclude_each_other(run):
    result = run("check", "-q", "-v")
    assert result.returncode == 2
    assert "-v/--verbose" in result.stderr


@pytest.mark.parametrize(
    ("when", "environment", "is_painted"),
    [
        ("always", {}, True),
        ("always", {"NO_COLOR": "1"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
        ("never", {"CLICOLOR_FORCE": "1"}, False),
        ("auto", {}, False),
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("Always", {}, True),
    ],
)
@pytest.mark.parametrize("command", ["check a.json", "explain DS101", "rules", "effective a.json"])
def test_color_wins_over_the_environment(run, write, command, when, environment, is_painted):
    write({"a.json": TYPO})
    result = run(*command.split(), "--color", when, **environment)
    assert ("\x1b[" in result.stdout) is (is_painted and command != "explain DS101")  # Markdown, in a pipe


# What counts


def test_exit_zero_is_for_findings_and_not_for_errors(run, write):
    write({"a.json": TYPO})
    with_findings = run("check", "a.json", "--exit-zero", *STACK)
    assert with_findings.returncode == 0
    assert with_findings.stdout == run("check", "a.json", *STACK).stdout
    assert run("check", "a.json", "--diff", "--exit-zero", *STACK).returncode == 0
    assert run("check", "nowhere.json", "--exit-zero").returncode == 2
    assert run("upgrade", "--from", "0.14.4", "a.json", "--exit-zero", *STACK).returncode == 0


def test_all_selects_every_rule_but_those_in_preview():
    stable = [rule for rule in every_rule() if rule.preview is None]
    assert select(Selection(["ALL"])) == stable
    assert select(Selection(["all"], preview=True)) == every_rule()
    assert select(Selection(ignored=["ALL"])) == []
    assert select(Selection(extended=["ALL"], ignored=["DS1"])) == [
        rule for rule in stable if not rule.code.startswith("DS1")
    ]


@pytest.mark.parametrize("preview", [False, True])
def test_all_leaves_a_rule_in_preview_to_the_switch(monkeypatch, preview):
    rule = next(one for one in every_rule() if one.name == "unknown-key")
    monkeypatch.setattr(rule, "preview", "0.2")
    assert (rule in select(Selection(["ALL"], preview=preview))) is preview


def test_all_is_a_word_of_the_settings_too(run, write):
    write({"a.json": TYPO, "ds-lint.toml": 'ignore = ["ALL"]\n'})
    assert run("check", "a.json", *STACK).returncode == 0
    assert run("check", "a.json", "--select", "ALL", *STACK).returncode == 1
    write({"ds-lint.toml": 'per-file-ignores = { "a.json" = ["ALL"] }\n'})
    assert run("check", "a.json", *STACK).returncode == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {"DS101", "DS121", "DS302"}),
        ("--select DS101 --select DS302", {"DS101", "DS302"}),
        ("--ignore DS101 --ignore DS302", {"DS121"}),
        ("--select DS101 --extend-select DS121 --extend-select DS302", {"DS101", "DS121", "DS302"}),
    ],
)
def test_rules_that_are_named_by_several_options_add_up(run, write, options, expected):
    write({"a.json": TYPO})
    asked = ("--deepspeed-version", ">=0.14", "--output-format", "json", *STACK)
    told = json.loads(run("check", "a.json", *asked, *options.split()).stdout)
    assert {finding["code"] for finding in told["findings"]} == expected


# Only fixes


def test_fix_only_fixes_and_reports_nothing_of_what_is_left(run, write, tmp_path):
    write({"a.json": {**TYPO, "zzz": 1}})
    result = run("check", "a.json", "--fix-only", *STACK)
    assert (result.returncode, result.stdout, result.stderr) == (0, "Fixed 1 finding.\n", "")
    assert "gradient_clipping" in (tmp_path / "a.json").read_text(encoding="utf-8")
    assert run("check", "a.json", *STACK).returncode == 1
    again = run("check", "a.json", "--fix-only", *STACK)
    assert (again.returncode, again.stdout) == (0, "")
    unsafe = run("check", "a.json", "--fix-only", "--unsafe-fixes", "--quiet", *STACK)
    assert (unsafe.returncode, unsafe.stdout) == (0, "")
    assert "zzz" not in (tmp_path / "a.json").read_text(encoding="utf-8")


def test_fix_only_writes_standard_input_to_standard_output(run):
    result = run("check", "-", "--fix-only", *STACK, stdin=json.dumps(TYPO))
    assert (result.returncode, result.stderr) == (0, "Fixed 1 finding.\n")
    assert json.loads(result.stdout) == {**CLEAN, "gradient_clipping": 0.5}


def test_fix_only_fails_on_what_cannot_be_read(run):
    assert run("check", "nowhere.json", "--fix-only").returncode == 2


@pytest.mark.parametrize(
    "options",
    [
        "--fix-only --fix",
        "--fix-only --diff",
        "--fix-only --statistics",
        "--fix-only --output-file out",
        "--fix-only --output-format json",
        "--fix-only --smoke",
        "--fix-only --write-baseline",
        "--add-ignore --fix",
        "--add-ignore --diff",
        "--add-ignore --isolated",
        "--add-ignore --output-format json",
        "--add-ignore --smoke",
        "--add-ignore --write-baseline",
        "--add-ignore --show-settings",
        "--add-ignore -",
    ],
)
def test_what_has_no_report_is_not_combined_with_one(run, options):
    result = run("check", *options.split())
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1


# Upper and lower case, help, version


@pytest.mark.parametrize(
    "options",
    [
        "--stack Deepspeed",
        "--stack DEEPSPEED --output-format Concise",
        "--stack deepspeed --fail-on ERROR",
        "--stack deepspeed --select ds101",
        "--stack deepspeed --select Unknown-Key",
    ],
)
def test_values_may_be_in_upper_or_lower_case(run, write, options):
    write({"a.json": TYPO})
    result = run("check", "a.json", *options.split())
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout == run("check", "a.json", *options.lower().split()).stdout


def test_a_path_keeps_its_case(run, write):
    write({"Check": TYPO})
    assert "Check" in run("check", "Check", *STACK).stdout


def test_paths_stand_before_options_and_behind_two_dashes(run, write):
    write({"a.json": TYPO, "-b.json": TYPO, "-c": TYPO})
    result = run("check", "a.json", *STACK, "-q", "--output-format", "concise", "--", "-b.json", "-c")
    assert (result.returncode, result.stderr) == (1, "")
    for path in ("a.json", "-b.json", "-c"):
        assert f"{path}:1:" in result.stdout
    wrong = run("check", "a.json", "--stak", "trainer", "--", "-c")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "unknown option --stak; did you mean --stack?" in wrong.stderr


def test_so_may_those_of_other_commands(run):
    assert run("explain", "ds101", "--lang", "ZH").stdout == run("explain", "DS101", "--lang", "zh").stdout
    assert run("init", "--stack", "Trainer", "--offload", "CPU", "--output-file", "-").returncode == 0
    assert run("completion", "Bash").stdout == run("completion", "bash").stdout


def test_help_is_a_command(run):
    assert run("help").stdout == run("--help").stdout
    for command in ("check", "init", "help"):
        told = run("help", command)
        assert (told.returncode, told.stderr) == (0, "")
        assert told.stdout == run(command, "--help").stdout
    wrong = run("help", "chek")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "unknown value chek; did you mean check?" in wrong.stderr


def test_version_has_a_short_form(run):
    assert run("-V").stdout == f"ds-lint {__version__}\n"


def test_init_calls_the_ranks_as_check_does(run, tmp_path):
    told = run("init", "--stack", "accelerate", "--world-size", "8")
    assert "--world-size 8" in told.stdout
    new = (tmp_path / "accelerate_config.yaml").read_text(encoding="utf-8")
    assert "num_processes: 8" in new


# Environment variables


def settings(run, *arguments, **environment):
    result = run("check", "--show-settings", "--output-format", "json", *arguments, **environment)
    assert result.returncode == 0, result.stderr
    (one,) = json.loads(result.stdout)["settings"]
    return {value["name"]: (value["value"], value["source"]) for value in one["values"]}


GIVEN = {
    "DS_LINT_STACK": "Trainer",
    "DS_LINT_WORLD_SIZE": "8",
    "DS_LINT_DEEPSPEED_VERSION": "0.16",
    "DS_LINT_TRANSFORMERS_VERSION": "4.57.1",
    "DS_LINT_ACCELERATE_VERSION": "1.11.0",
    "DS_LINT_FAIL_ON": "Error",
}
OPTIONS = (
    "--stack=accelerate", "--world-size=2", "--deepspeed-version=0.15", "--transformers-version=4.57.3",
    "--accelerate-version=1.10.0", "--fail-on=info",
)  # fmt: skip


def test_a_variable_wins_over_the_settings_and_an_option_over_both(run, write):
    write({"ds-lint.toml": 'stack = "deepspeed"\nworld-size = 4\nfail-on = "info"\ndeepspeed-version = "0.14"\n'})
    of_file = settings(run)
    assert of_file["stack"] == ("deepspeed", "ds-lint.toml:1")
    of_variables = settings(run, **GIVEN)
    assert of_variables["stack"] == ("trainer", "DS_LINT_STACK")
    assert of_variables["world-size"] == (8, "DS_LINT_WORLD_SIZE")
    assert of_variables["deepspeed-version"] == ("0.16.9", "DS_LINT_DEEPSPEED_VERSION")
    assert of_variables["transformers-version"] == ("4.57.1", "DS_LINT_TRANSFORMERS_VERSION")
    assert of_variables["accelerate-version"] == ("1.11.0", "DS_LINT_ACCELERATE_VERSION")
    assert of_variables["fail-on"] == ("error", "DS_LINT_FAIL_ON")
    of_options = settings(run, *OPTIONS, **GIVEN)
    for option in OPTIONS:
        name, _, value = option.removeprefix("--").partition("=")
        assert str(of_options[name][0]).startswith(value)
        assert of_options[name][1] == f"--{name}"


def test_an_empty_variable_counts_as_unset(run):
    assert settings(run, **dict.fromkeys(VARIABLES, "")) == settings(run)


def test_the_format_of_a_variable_is_that_of_reports(run, write):
    write({"a.json": TYPO})
    told = run("check", "a.json", DS_LINT_OUTPUT_FORMAT="Json")
    assert json.loads(told.stdout)["files"]
    assert run("check", "a.json", "--output-format", "concise", DS_LINT_OUTPUT_FORMAT="json").stdout.startswith("a.js")
    shown = run("check", "a.json", "--show-settings", DS_LINT_OUTPUT_FORMAT="sarif")
    assert shown.returncode == 0
    assert any(line.split() == ["output-format", "=", '"sarif"', "DS_LINT_OUTPUT_FORMAT"] for line in
               shown.stdout.splitlines())  # fmt: skip
    counted = run("check", "a.json", "--statistics", DS_LINT_OUTPUT_FORMAT="sarif")
    assert counted.returncode == 2
    assert "not sarif (DS_LINT_OUTPUT_FORMAT)" in counted.stderr


def test_the_settings_file_of_a_variable(run, write):
    write({"a.json": TYPO, "ci.toml": 'ignore = ["unknown-key"]\n'})
    assert run("check", "a.json", *STACK).returncode == 1
    assert run("check", "a.json", *STACK, DS_LINT_SETTINGS="ci.toml").returncode == 0
    assert run("check", "a.json", *STACK, "--isolated", DS_LINT_SETTINGS="ci.toml").returncode == 1
    shown = run("check", "a.json", "--show-settings", DS_LINT_SETTINGS="ci.toml")
    assert "settings: ci.toml, DS_LINT_SETTINGS\n" in shown.stdout


def test_effective_and_upgrade_take_them_and_init_does_not(run, write):
    write({"a.json": TYPO})
    by_variables = run("effective", "a.json", **GIVEN)
    by_options = run("effective", "a.json", "--stack=trainer", "--world-size=8", "--deepspeed-version=0.16",
                     "--transformers-version=4.57.1", "--accelerate-version=1.11.0")  # fmt: skip
    assert by_variables.stdout == by_options.stdout
    assert "stack trainer" in run("upgrade", "--from", "0.14.4", "a.json", DS_LINT_STACK="trainer").stdout
    assert "for the Trainer" in run("init", DS_LINT_STACK="deepspeed").stdout


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("DS_LINT_STACK", "trainr", "unknown value trainr; did you mean trainer?"),
        ("DS_LINT_WORLD_SIZE", "many", "'many' is not a whole number of at least 1"),
        ("DS_LINT_DEEPSPEED_VERSION", "banana", "'banana' is "),
        ("DS_LINT_TRANSFORMERS_VERSION", "1.0", "ds-lint "),
        ("DS_LINT_ACCELERATE_VERSION", "1.x", "'1.x' is "),
        ("DS_LINT_FAIL_ON", "never", "unknown value never; choose from error, warning, info"),
        ("DS_LINT_OUTPUT_FORMAT", "jsn", "unknown value jsn; did you mean json?"),
        ("DS_LINT_SETTINGS", "nowhere.toml", "nowhere.toml: no such file"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_variable(run, write, variable, value, said):
    write({"a.json": CLEAN})
    for paths in (["a.json"], ["a.json", "--verbose"]):
        result = run("check", *paths, **{variable: value})
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith(f"ds-lint: {variable}: {said}")


def test_all_variables_are_documented():
    from pathlib import Path

    page = (Path(__file__).parent.parent / "docs" / "settings.md").read_text(encoding="utf-8")
    for variable, option in VARIABLES.items():
        assert f"`{variable}`" in page, variable
        assert variable.removeprefix("DS_LINT_").lower() == option.removeprefix("--").replace("-", "_")
