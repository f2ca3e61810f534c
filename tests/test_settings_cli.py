"""Settings as users have them: files in folders, and what ds-lint check makes of them."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from command_line import write_into
from newest import NEWEST

from ds_lint.session import exclusion
from ds_lint.session.options import Options
from ds_lint.settings.record import Settings

CLEAN = {"train_micro_batch_size_per_gpu": 4, "steps_per_print": 10}
TYPO = {**CLEAN, "gradient_cliping": 0.5}


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def settings(text):
    return {"pyproject.toml": f"[tool.ds-lint]\n{text}\n"}


def found(result):
    """Path, code and severity of every finding in the format concise."""
    lines = [line for line in result.stdout.splitlines() if "] " in line]
    return [
        (line.partition(":")[0].removeprefix("./"), *line.split(": ", 1)[1].replace("[", "").split("] ")[0].split())
        for line in lines
    ]


def check(run, *arguments):
    return run("check", *arguments, "--output-format", "concise")


def assert_wrong(result, *lines):
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [f"ds-lint: {line}" for line in lines]


# Rules


def test_select_names_the_rules_that_are_on(run, write):
    write({**settings('select = ["DS2"]'), "typo.json": TYPO})
    assert found(check(run, "typo.json")) == []
    assert found(check(run, "typo.json", "--select", "unknown-key")) == [("typo.json", "DS101", "error")]
    assert found(check(run, "typo.json", "--extend-select", "unknown-key")) == [("typo.json", "DS101", "error")]
    assert found(check(run, "typo.json", "--isolated")) == [("typo.json", "DS101", "error")]


def test_extend_select_adds_to_the_usual_rules(run, write):
    write({**settings('extend-select = ["DS121"]'), "typo.json": TYPO})
    assert found(check(run, "typo.json")) == [("typo.json", "DS101", "error")]


def test_ignore_takes_rules_away_and_the_command_line_may_take_more(run, write):
    write({**settings('ignore = ["unknown-key"]'), "typo.json": TYPO, "stage.json": {"train_batch_size": 1.5}})
    assert found(check(run, "typo.json")) == []
    (refused,) = found(check(run, "stage.json"))
    assert found(check(run, "stage.json", "typo.json", "--ignore", refused[1])) == []
    assert found(check(run, "typo.json", "--select", "DS101")) == [("typo.json", "DS101", "error")]


def test_a_severity_counts_for_the_exit_status(run, write):
    write({**settings('severity = {unknown-key = "info"}'), "typo.json": TYPO})
    result = check(run, "typo.json")
    assert (result.returncode, found(result)) == (0, [("typo.json", "DS101", "info")])


def test_fail_on_is_a_setting_and_a_flag(run, write):
    write({**settings('severity = {DS101 = "warning"}\nfail-on = "error"'), "typo.json": TYPO})
    assert check(run, "typo.json").returncode == 0
    assert check(run, "typo.json", "--fail-on", "warning").returncode == 1


def test_files_fail_by_the_settings_near_them(run, write):
    write({"lax/ds-lint.toml": 'fail-on = "error"\nseverity = {DS101 = "warning"}', "lax/typo.json": TYPO})
    write({"strict/ds-lint.toml": 'severity = {DS101 = "warning"}', "strict/typo.json": TYPO})
    assert check(run, "lax").returncode == 0
    assert check(run, "strict").returncode == 1
    assert check(run, "lax", "strict").returncode == 1


def test_per_file_ignores_go_by_pattern(run, write):
    write(settings('per-file-ignores = {"tests/**" = ["DS1"], "legacy.json" = ["unknown-key"]}'))
    write({"tests/deep/a.json": TYPO, "configs/legacy.json": TYPO, "configs/b.json": TYPO})
    assert found(check(run)) == [("configs/b.json", "DS101", "error")]
    assert found(check(run, "tests", "--select", "DS101")) == []


def test_a_rule_in_preview_is_off_and_there_is_none_yet(run, write):
    write({**settings("preview = true"), "typo.json": TYPO})
    assert found(check(run, "typo.json")) == found(check(run, "typo.json", "--isolated", "--preview"))


def test_a_rule_that_there_is_not_is_2_even_where_there_is_nothing_to_lint(run):
    assert_wrong(run("check", "--select", "XY999"), "unknown rule XY999; `ds-lint rules` lists them")
    assert run("check", "--gpu", "abacus").returncode == 2


# What is searched


def checked(run, *arguments):
    result = run("check", *arguments, "--output-format", "json")
    assert result.stderr == ""
    return sorted(file["path"].removeprefix("./") for file in json.loads(result.stdout)["files"])


TREE = {"third_party/a/typo.json": TYPO, "configs/b.old.json": TYPO, "configs/c.json": TYPO, "build/d.json": TYPO}


def test_a_search_leaves_out_what_is_excluded(run, write):
    write(TREE | {".hidden/e.json": TYPO, ".f.json": TYPO, "build.json": TYPO})
    usual = [".f.json", "build.json", "configs/b.old.json", "configs/c.json"]
    assert checked(run) == sorted([*usual, "third_party/a/typo.json"])
    assert checked(run, "--extend-exclude", "third_party") == usual
    assert checked(run, "--extend-exclude", "third_party,/configs/*.old.json") == [
        ".f.json",
        "build.json",
        "configs/c.json",
    ]
    more = ["--exclude", "third_party", "--exclude", "configs"]
    assert checked(run, *more) == [".f.json", ".hidden/e.json", "build.json", "build/d.json"]
    assert ".hidden/e.json" in checked(run, "--exclude", "")


def test_the_settings_exclude_from_their_folder_and_the_command_line_from_here(run, write):
    write(TREE | {"configs/ds-lint.toml": 'exclude = ["/b.*"]\n'})
    assert checked(run, "--extend-exclude", "/configs/c.json") == ["third_party/a/typo.json"]
    assert checked(run, "--exclude", "third_party") == ["build/d.json", "configs/b.old.json", "configs/c.json"]
    write({"configs/ds-lint.toml": 'extend-exclude = ["/b.*"]\n'})
    assert checked(run, "configs") == ["configs/c.json"]


@pytest.mark.parametrize(("patterns", "most"), [([], 0), (["a"], 0), (["/a", "b/c", "d"], 1)])
def test_a_path_is_made_relative_once_for_all_patterns(monkeypatch, patterns, most):
    made = []
    monkeypatch.setattr(exclusion, "relative", lambda path, folder: made.append(folder) or path)
    found = exclusion.exclusion_by(Options(["."]), Settings("ds-lint.toml", {"extend-exclude": patterns}))
    assert not found.leaves_out("x/y.json", is_folder=False)
    assert found.leaves_out("x/build", is_folder=True)
    assert len(made) == 2 * most


def test_what_is_named_is_checked_unless_exclusion_is_forced(run, write):
    write(settings('extend-exclude = ["third_party"]') | TREE)
    named = ["third_party/a/typo.json", "third_party/a", "third_party", "configs/c.json", "build"]
    assert checked(run, *named) == ["build/d.json", "configs/c.json", "third_party/a/typo.json"]
    assert checked(run, *named, "--detect") == checked(run, *named)
    assert checked(run, *named, "--force-exclude") == ["configs/c.json"]
    write(settings('extend-exclude = ["third_party"]\nforce-exclude = true'))
    assert checked(run, *named) == ["configs/c.json"]
    assert checked(run, *named, "--no-force-exclude") == ["build/d.json", "configs/c.json", "third_party/a/typo.json"]
    assert checked(run, ".", "--force-exclude") == ["configs/b.old.json", "configs/c.json"]


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps the working directory of a process")
def test_a_directory_is_searched_even_if_the_working_directory_is_deleted(run, write, tmp_path):
    write({**TREE, "gone/a.json": TYPO})

    def delete():
        os.chdir(tmp_path / "gone")
        shutil.rmtree(tmp_path / "gone")

    asked = ("--extend-exclude", "third_party,x/y.json", "--show-files", "--output-format", "json")
    result = run("check", str(tmp_path), *asked, prepare=delete)
    assert (result.returncode, result.stderr) == (0, "")
    found = [os.path.relpath(file["path"], tmp_path) for file in json.loads(result.stdout)["files"]]
    assert found == ["configs/b.old.json", "configs/c.json"]


def test_standard_input_is_excluded_by_its_name(run, write):
    write(settings('extend-exclude = ["third_party"]\nforce-exclude = true'))
    text = json.dumps(TYPO)
    excluded = ("check", "-", "--stdin-filename", "third_party/a.json")
    silent = run(*excluded, "--output-format", "concise", stdin=text)
    assert (silent.returncode, silent.stdout) == (0, "No DeepSpeed configs found.\n")
    for fix in ("--fix", "--fix-only"):
        same = run(*excluded, fix, "--unsafe-fixes", "--quiet", stdin=text)
        assert (same.returncode, same.stdout, same.stderr) == (0, text, "")
    assert run(*excluded, "--diff", stdin=text).stdout == ""
    for checked in (["--no-force-exclude"], ["--stdin-filename", "b.json"]):
        assert run(*excluded, *checked, stdin=text).returncode == 1


def test_standard_input_is_read_once(run):
    twice = run("check", "-", "-", "--output-format", "json", stdin=json.dumps(TYPO))
    assert [file["path"] for file in json.loads(twice.stdout)["files"]] == ["<stdin>"]
    assert json.loads(twice.stdout)["findings"]


def test_a_search_leaves_out_what_git_ignores(run, write):
    ignored = {".git/HEAD": "", ".gitignore": "third_party/\n*.old.json\n!b.old.json\n", "configs/e.old.json": TYPO}
    write(TREE | ignored)
    assert checked(run) == ["configs/b.old.json", "configs/c.json"]
    assert checked(run, "configs/e.old.json", "third_party") == ["configs/e.old.json", "third_party/a/typo.json"]
    everything = ["configs/b.old.json", "configs/c.json", "configs/e.old.json", "third_party/a/typo.json"]
    assert checked(run, "--no-respect-gitignore") == everything
    write(settings("respect-gitignore = false"))
    assert checked(run) == everything
    assert checked(run, "--respect-gitignore") == ["configs/b.old.json", "configs/c.json"]


# What the configs are linted for


def linted_for(run, *arguments):
    result = run("check", *arguments, "--output-format", "json")
    assert result.stderr == ""
    return json.loads(result.stdout)["files"]


def test_the_run_may_be_told_of_all_configs_and_of_some(run, write):
    write(
        settings(
            'stack = "deepspeed"\nworld-size = 8\n'
            '[[tool.ds-lint.configs]]\npath = "big/**"\nworld-size = 64\nnodes = 8\n'
            '[[tool.ds-lint.configs]]\npath = "hf.json"\nstack = "trainer"\n'
            '[[tool.ds-lint.configs]]\npath = "big/huge.json"\nworld-size = 1024\n'
        )
    )
    write({"a.json": CLEAN, "big/b.json": CLEAN, "big/huge.json": CLEAN, "deep/hf.json": CLEAN})
    by_path = {file["path"]: file for file in linted_for(run, "a.json", "big/b.json", "big/huge.json", "deep/hf.json")}
    told = {path: (file["stack"], file["facts"].get("world size")) for path, file in by_path.items()}
    assert told == {
        "a.json": ("deepspeed", "8, by pyproject.toml"),
        "big/b.json": ("deepspeed", "64, by pyproject.toml"),
        "big/huge.json": ("deepspeed", "1024, by pyproject.toml"),
        "deep/hf.json": ("trainer", "8, by pyproject.toml"),
    }
    assert by_path["big/huge.json"]["facts"]["nodes"] == "8, by pyproject.toml"
    (flag,) = linted_for(run, "big/huge.json", "--world-size", "16", "--stack", "accelerate")
    assert (flag["stack"], flag["facts"]["world size"]) == ("accelerate", "16, by --world-size")


def test_training_arguments_and_the_model_lie_beside_the_settings(run, write):
    write({"deep/ds-lint.toml": 'trainer-args = "args.json"\n', "deep/args.json": {"bf16": True}, "deep/a.json": CLEAN})
    (file,) = linted_for(run, "deep/a.json")
    assert file["facts"] == {"training arguments": "deep/args.json"}


def test_what_tells_no_fact_is_2_and_names_the_settings(run, write):
    write({**settings('gpu = "abacus"'), "a.json": CLEAN})
    result = run("check", "a.json")
    assert result.returncode == 2
    assert result.stderr.startswith("ds-lint: pyproject.toml: ")
    assert "abacus" in result.stderr


def test_releases_are_said_by_the_settings(run, write):
    write({**settings('deepspeed-version = "0.16"'), "a.json": CLEAN, "requirements.txt": "deepspeed==0.18.0\n"})
    (file,) = linted_for(run, "a.json")
    assert (file["target"]["deepspeed"], file["sources"]["deepspeed"]) == ("0.16.9", "pyproject.toml")
    (file,) = linted_for(run, "a.json", "--deepspeed-version", "0.17.0")
    assert (file["target"]["deepspeed"], file["sources"]["deepspeed"]) == ("0.17.0", "--deepspeed-version")
    (file,) = linted_for(run, "a.json", "--isolated")
    assert file["target"]["deepspeed"] == "0.18.0"


def test_a_release_that_there_is_not_is_2(run, write):
    write({**settings('deepspeed-version = "0.2.99"'), "a.json": CLEAN})
    assert_wrong(
        run("check", "a.json"),
        f"pyproject.toml: ds-lint does not know DeepSpeed 0.2.99; it knows 0.3.1 to {NEWEST['deepspeed']}",
    )


# Which file


def test_the_nearest_file_counts_whole(run, write):
    write({**settings('ignore = ["DS101"]'), "a.json": TYPO, "deep/ds-lint.toml": "", "deep/b.json": TYPO})
    assert found(check(run)) == [("deep/b.json", "DS101", "error")]


def test_another_file_may_be_named(run, write):
    write({**settings(""), "a.json": TYPO, "elsewhere/lax.toml": 'ignore = ["DS101"]\nper-file-ignores = {}'})
    assert found(check(run, "a.json", "--settings", "elsewhere/lax.toml")) == []
    write({"other/pyproject.toml": "[project]\nname = 'a'\n"})
    assert_wrong(
        run("check", "a.json", "--settings", "other/pyproject.toml"),
        "other/pyproject.toml: it has no [tool.ds-lint] table",
    )
    assert_wrong(run("check", "a.json", "--settings", "no.toml"), "no.toml: No such file or directory")
    assert run("check", "a.json", "--settings", "a.toml", "--isolated").returncode == 2


def test_verbose_says_which_settings_were_used(run, write):
    write({**settings(""), "a.json": CLEAN})
    assert "note: settings of pyproject.toml\n" in run("check", "a.json", "-v").stdout


def test_standard_input_has_the_settings_of_its_name(run, write):
    write({"deep/ds-lint.toml": 'ignore = ["DS101"]', "deep/a.json": CLEAN})
    arguments = ("check", "-", "--output-format", "concise")
    assert found(run(*arguments, stdin=json.dumps(TYPO))) == [("<stdin>", "DS101", "error")]
    assert found(run(*arguments, "--stdin-filename", "deep/b.json", stdin=json.dumps(TYPO))) == []


@pytest.mark.parametrize("name", ["pyproject.toml", "ds-lint.toml"])
def test_settings_that_there_are_not_are_2(run, write, name):
    table = "[tool.ds-lint]\n" if name == "pyproject.toml" else ""
    write({name: f'{table}selct = ["DS1"]\nworld-size = 0\nignore = ["XY999"]\n', "a.json": CLEAN})
    assert_wrong(
        run("check", "a.json"),
        f'{name}: unknown setting "selct", did you mean "select"?',
        f"{name}: world-size must be a whole number of at least 1, not 0",
        f"{name}: ignore[0]: unknown rule XY999; `ds-lint rules` lists them",
    )


def test_a_broken_file_is_2_and_says_where(run, write):
    write({"pyproject.toml": "[tool.ds-lint]\nselect = [\n", "a.json": CLEAN})
    result = run("check", "a.json")
    assert result.returncode == 2
    assert result.stderr.startswith("ds-lint: pyproject.toml: ")
    assert "(at" in result.stderr
    assert run("check", "a.json", "--isolated").returncode == 0


# The other commands


def test_an_upgrade_has_the_settings_too(run, write):
    write({"a.json": {**CLEAN, "zero_optimization": {"stage": 1}, "optimizer": {"type": "Adam"}}})
    arguments = ("upgrade", "--from", "0.14.4", "--to", "0.19.7", "a.json", "--output-format", "concise")
    before = found(run(*arguments))
    assert ("a.json", "DS121", "warning") in before
    write(settings('ignore = ["DS121"]\ntransformers-version = "5.0.0"\nbaseline = "no.json"'))
    result = run(*arguments)
    assert [finding for finding in before if finding[1] != "DS121"] == found(result)
    assert "transformers 5.0.0" in result.stdout


def test_the_python_api_reads_no_settings(write, tmp_path, monkeypatch):
    import ds_lint

    write({**settings('ignore = ["DS101"]'), "typo.json": TYPO})
    monkeypatch.chdir(tmp_path)
    assert [finding.code for finding in ds_lint.check("typo.json")] == ["DS101"]


@pytest.mark.parametrize("name", ["dslint", "ds_lint", "deepspeed-lint"])
def test_a_table_with_another_name_is_noted(run, tmp_path, name):
    (tmp_path / "ds.json").write_text('{"train_batch_size": 8, "fp8": {}}')
    (tmp_path / "pyproject.toml").write_text(f"[tool.{name}]\nignore = ['DS101']\n")
    note = f"note: pyproject.toml: [tool.{name}] is not read; write [tool.ds-lint]"
    assert f"\n{note}\n" in run("check", "ds.json").stdout
