"""``ds-lint check --add-ignore``: comments where only DeepSpeed reads a config, else ``per-file-ignores``."""

from __future__ import annotations

import os

import pytest
from command_line import give_up_privileges, write_into
from hypothesis import assume, given
from hypothesis import strategies as st

from ds_lint.fixes.suppressing import suppress
from ds_lint.project.globs import literal, matches
from ds_lint.session.options import Options
from ds_lint.session.session import Session
from ds_lint.settings.reader import strictly
from ds_lint.settings.writing import with_ignores
from ds_lint.source import json as json_source

BATCH = '"train_micro_batch_size_per_gpu": 4'
TEXT = '"gradient_clipping": "1.0"'
DEEPSPEED, TRAINER = ("--stack", "deepspeed"), ("--stack", "trainer")


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def assert_suppressed(run, folder, *arguments):
    """From then on, a check is silent, and to suppress again changes nothing."""
    before = files(folder)
    silent = run("check", *arguments, "--quiet", "--fail-on", "info")
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    again = run("check", "--add-ignore", *arguments)
    assert (again.returncode, again.stdout) == (0, "No findings to suppress.\n")
    assert files(folder) == before


# Comments


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'{{{BATCH},\n  "zzz": 1\n}}', f'{{{BATCH},\n  // ds-lint: ignore[unknown-key]\n  "zzz": 1\n}}'),
        (f'{{{BATCH},\r\n\t"zzz": 1\r\n}}', f'{{{BATCH},\r\n\t// ds-lint: ignore[unknown-key]\r\n\t"zzz": 1\r\n}}'),
        (f'{{{BATCH}, "zzz": 1, "yyy": 2}}\n', f'// ds-lint: ignore[unknown-key]\n{{{BATCH}, "zzz": 1, "yyy": 2}}\n'),
        (f'\ufeff{{{BATCH}, "zzz": 1}}', f'\ufeff// ds-lint: ignore[unknown-key]\n{{{BATCH}, "zzz": 1}}'),
        (
            f'{{{BATCH}, # é\n"zzz": 1, {TEXT}, # ours\n}}',
            f'{{{BATCH}, # é\n// ds-lint: ignore[unknown-key, refused-value]\n"zzz": 1, {TEXT}, # ours\n}}',
        ),
        (
            f'{{{BATCH},\n// ds-lint: ignore[refused-value] they do\n"zzz": 1, {TEXT}}}',
            f'{{{BATCH},\n// ds-lint: ignore[refused-value, unknown-key] they do\n"zzz": 1, {TEXT}}}',
        ),
        ("train_micro_batch_size_per_gpu: 4\nzzz: 1 // two\n",
         "train_micro_batch_size_per_gpu: 4\n// ds-lint: ignore[unknown-key]\nzzz: 1 // two\n"),
    ],
)  # fmt: skip
def test_comments_stand_above_the_findings_and_the_rest_stays(run, tmp_path, before, after):
    (tmp_path / "a.json").write_bytes(before.encode())
    result = run("check", "a.json", "--add-ignore", *DEEPSPEED)
    assert (result.returncode, result.stdout, result.stderr) == (0, "Added 1 comment in 1 file.\n", "")
    assert files(tmp_path) == {"a.json": after.encode()}
    assert_suppressed(run, tmp_path, "a.json", *DEEPSPEED)


def test_what_no_comment_suppresses_is_ignored_in_the_settings(run, write, tmp_path):
    write({"a.json": f'{{{BATCH}, // ds-lint: ignore[DS105]\n"zzz": 1, "text": "{chr(92)}x"}}'})
    result = run("check", "a.json", "--add-ignore", *DEEPSPEED)
    assert result.returncode == 0, result.stderr
    assert "per-file-ignores in ds-lint.toml.\n" in result.stdout
    assert_suppressed(run, tmp_path, "a.json", *DEEPSPEED)


def test_a_line_inside_of_a_string_gets_no_comment(run, write, tmp_path):
    text = f"{{\n{BATCH},\n'_note': '''\none\n''', \"zzz\": 1}}"
    write({"a.json": text})
    result = run("check", "a.json", "--add-ignore", *DEEPSPEED)
    assert (result.returncode, result.stdout) == (0, "Added 1 rule to per-file-ignores in ds-lint.toml.\n")
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == text
    assert_suppressed(run, tmp_path, "a.json", *DEEPSPEED)


def test_a_line_that_can_have_no_comment_costs_few_checks():
    keys = "".join(f'"zzz{number}": 1,\n' for number in range(100))
    document = json_source.parse(f"{{\n{BATCH},\n{keys}'_note': '''\none\n''', {TEXT}}}", "a.json")
    context = Session(Options(["a.json"], stack="deepspeed", isolated=True)).context("a.json")
    checked = []

    def lint(text):
        checked.append(text)
        return context.lint(text, None)

    done = suppress(document, lint(document).findings, lint)
    assert done.comments == 100
    assert "refused-value" not in {finding.name for finding in done.findings}
    assert len(checked) < 25


def test_a_file_that_cannot_be_written_is_2(run, write, tmp_path):
    write({"a.json": f'{{{BATCH}, "zzz": 1}}'})
    (tmp_path / "a.json").chmod(0o444)
    result = run("check", "a.json", "--add-ignore", *DEEPSPEED, prepare=give_up_privileges)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ds-lint: a.json: cannot be written: Permission denied\n"
    assert list(files(tmp_path)) == ["a.json"]


def test_a_file_with_two_paths_gets_its_comments_once(run, write, tmp_path):
    inside_of_string = f"'_note': '''\none\n''', {TEXT}"  # which can have no comment
    write({"a.json": f'{{\n{BATCH},\n"zzz": 1,\n{inside_of_string}}}'})
    (tmp_path / "b.json").symlink_to("a.json")
    result = run("check", ".", "--add-ignore", *DEEPSPEED)
    said = "Added 1 comment in 1 file and 2 rules to per-file-ignores in ds-lint.toml.\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, said, "")
    assert (tmp_path / "b.json").is_symlink()
    assert_suppressed(run, tmp_path, ".", *DEEPSPEED)


INITIALIZE = "deepspeed.initialize(model=model, config=config)\n"
TWO = (
    f'import deepspeed\nconfig = {{{BATCH}, "bf16": {{"enabled": True}},\n  "zzz": 1}}\n{INITIALIZE}',
    f'config = {{{BATCH}, "bf16": {{"enabled": True}}, "yyy": 2}}\n{INITIALIZE}',
)


@pytest.mark.parametrize("name", ["train.py", "train.ipynb"])
def test_every_config_of_a_file_gets_its_comments(run, write, tmp_path, name):
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [cell | {"source": source.splitlines(keepends=True)} for source in TWO]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    write({name: notebook if name.endswith("b") else "".join(TWO)})
    result = run("check", name, "--add-ignore", "--ignore", "DS830")  # which is about the notebook
    assert (result.returncode, result.stdout, result.stderr) == (0, "Added 2 comments in 1 file.\n", "")
    assert list(files(tmp_path)) == [name]
    assert_suppressed(run, tmp_path, name, "--ignore", "DS830")


# Settings


@pytest.mark.parametrize("options", [TRAINER, (), (*DEEPSPEED, "--deepspeed-version", "0.7.0")])
def test_a_file_that_may_have_no_comments_is_named_in_the_settings(run, write, tmp_path, options):
    text = f'{{{BATCH}, "zero_optimization": {{"stage": 0}}, "zzz": 1}}'
    write({"configs/a.json": text, "a.json": text})
    result = run("check", "configs/a.json", "--add-ignore", *options)
    assert result.returncode == 0
    assert files(tmp_path)["configs/a.json"] == text.encode()
    assert files(tmp_path)["ds-lint.toml"].startswith(b'[per-file-ignores]\n"configs/a.json" = ["')
    assert_suppressed(run, tmp_path, "configs/a.json", *options)
    assert "unknown-key" in run("check", "a.json", *options).stdout


def test_a_file_beside_the_settings_is_the_only_one_of_its_name(run, write, tmp_path):
    text = f'{{{BATCH}, "zero_optimization": {{"stage": 0}}, "zzz": 1}}'
    write({"a.json": text, "configs/a.json": text, "pyproject.toml": "[project]\nname = 'x'"})
    result = run("check", "a.json", "--add-ignore", *TRAINER)
    assert result.stdout == "Added 1 rule to per-file-ignores in pyproject.toml.\n"
    assert files(tmp_path)["pyproject.toml"] == (
        b'[project]\nname = \'x\'\n\n[tool.ds-lint.per-file-ignores]\n"/a.json" = ["unknown-key"]\n'
    )
    assert_suppressed(run, tmp_path, "a.json", *TRAINER)
    assert "unknown-key" in run("check", "configs/a.json", *TRAINER).stdout


def test_the_settings_file_that_is_named_is_extended(run, write, tmp_path):
    write(
        {
            "a.json": f'{{{BATCH}, "zero_optimization": {{"stage": 0}}, "zzz": 1}}',
            "conf/ci.toml": 'fail-on = "info" # all\n',
        }
    )
    assert run("check", "a.json", "--add-ignore", *TRAINER, "--settings", "conf/ci.toml").returncode == 0
    assert files(tmp_path)["conf/ci.toml"] == (
        b'fail-on = "info" # all\n\n[per-file-ignores]\n"../a.json" = ["unknown-key"]\n'
    )
    assert_suppressed(run, tmp_path, "a.json", *TRAINER, "--settings", "conf/ci.toml")


def test_settings_that_are_written_in_a_way_that_cannot_be_extended_are_2(run, write, tmp_path):
    settings = '[tool]\nds-lint = { fail-on = "info" }\n'
    write({"a.json": f'{{{BATCH}, "zero_optimization": {{"stage": 0}}, "zzz": 1}}', "pyproject.toml": settings})
    result = run("check", "a.json", "--add-ignore", *TRAINER)
    assert result.returncode == 2
    assert result.stderr == (
        'ds-lint: pyproject.toml: cannot be changed automatically; add to per-file-ignores: "/a.json" = '
        '["unknown-key"]\n'
    )
    assert files(tmp_path)["pyproject.toml"] == settings.encode()


def test_findings_of_a_baseline_stay_there(run, write, tmp_path):
    write({"a.json": f'{{{BATCH}, "zero_optimization": {{"stage": 0}}, "zzz": 1}}'})
    run("check", "a.json", "--write-baseline", *TRAINER)
    asked = ("a.json", "--baseline", "ds-lint-baseline.json", *TRAINER)
    assert run("check", *asked, "--add-ignore").stdout == "No findings to suppress.\n"
    write({"a.json": f'{{{BATCH}, "zero_optimization": {{"stage": 0}}, "zzz": 1, "gradient_clipping": "1.0"}}'})
    run("check", *asked, "--add-ignore")
    assert b'"/a.json" = ["refused-value"]' in files(tmp_path)["ds-lint.toml"]


def test_quiet_adds_silently(run, write):
    write({"a.json": f'{{{BATCH}, "zzz": 1}}'})
    result = run("check", "a.json", "--add-ignore", "-q", *DEEPSPEED)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_what_cannot_be_read_is_2_and_the_others_are_suppressed(run, write):
    write({"a.json": f'{{{BATCH}, "zzz": 1}}'})
    result = run("check", "a.json", "nowhere.json", "--add-ignore", *DEEPSPEED)
    assert (result.returncode, result.stdout) == (2, "Added 1 comment in 1 file.\n")
    assert result.stderr == "ds-lint: nowhere.json: No such file or directory\n"


@pytest.mark.skipif(os.name == "nt", reason="names are UTF-16 there")
def test_a_name_that_no_settings_can_have_is_2_and_the_others_are_ignored(run, write, tmp_path):
    text = f'{{{BATCH}, "zero_optimization": {{"stage": 0}}, "zzz": 1}}'
    write({"a.json": text})
    try:
        with open(os.fsencode(tmp_path) + b"/\xff.json", "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        pytest.skip("the file system takes no such name")
    result = run("check", "--add-ignore", *TRAINER)
    assert (result.returncode, result.stdout) == (2, "Added 1 rule to per-file-ignores in ds-lint.toml.\n")
    assert result.stderr == (
        "ds-lint: ./<U+DCFF>.json: its name is not UTF-8, so per-file-ignores cannot contain it; rename the file\n"
    )
    assert files(tmp_path)["ds-lint.toml"] == b'[per-file-ignores]\n"/a.json" = ["unknown-key"]\n'


# The text of settings


LOOKS_LIKE_ONE = '[[tool.ds-lint.configs]]\npath = "c"\nmodel = """\n[tool.ds-lint.per-file-ignores]\n"""\n'
OWN, SHARED = "ds-lint.toml", "pyproject.toml"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (OWN, "", '[per-file-ignores]\n"a/b" = ["DS1", "x"]\n'),
        (OWN, 'stack = "trainer"', 'stack = "trainer"\n\n[per-file-ignores]\n"a/b" = ["DS1", "x"]\n'),
        (
            SHARED,
            "[tool.x]\r\na = 1 # b\r\n",
            '[tool.x]\r\na = 1 # b\r\n\r\n[tool.ds-lint.per-file-ignores]\r\n"a/b" = ["DS1", "x"]\r\n',
        ),
        (
            SHARED,
            '[tool.ds-lint.per-file-ignores] # why\n\n"c" = ["DS2"] # [\n[tool.y]\n',
            '[tool.ds-lint.per-file-ignores] # why\n"a/b" = ["DS1", "x"]\n\n"c" = ["DS2"] # [\n[tool.y]\n',
        ),
        (OWN, "[per-file-ignores]", '[per-file-ignores]\n"a/b" = ["DS1", "x"]\n'),
        (
            OWN,
            'per-file-ignores = { "c" = ["DS2"] } # {}\nstack = "trainer"\n',
            'per-file-ignores = { "c" = ["DS2"], "a/b" = ["DS1", "x"] } # {}\nstack = "trainer"\n',
        ),
        (OWN, "per-file-ignores = {}\n", 'per-file-ignores = { "a/b" = ["DS1", "x"] }\n'),
        (
            OWN,
            'per-file-ignores = { "a/b" = ["DS2"], c = [] }\n',
            'per-file-ignores = { "a/b" = ["DS2", "DS1", "x"], c = [] }\n',
        ),
        (
            SHARED,
            "[tool.ds-lint.per-file-ignores]\n'a/b' = [\n  'DS2', # two\n  'DS3',\n]\n",
            "[tool.ds-lint.per-file-ignores]\n'a/b' = [\n  'DS2', # two\n  'DS3', \"DS1\", \"x\",\n]\n",
        ),
        (
            SHARED,
            '[tool.ds-lint]\nper-file-ignores."a/b" = []\n',
            '[tool.ds-lint]\nper-file-ignores."a/b" = ["DS1", "x"]\n',
        ),
        (
            SHARED,
            '[tool.ds-lint]\nper-file-ignores."c" = ["DS2"]\n',
            '[tool.ds-lint]\n"per-file-ignores"."a/b" = ["DS1", "x"]\nper-file-ignores."c" = ["DS2"]\n',
        ),
        (SHARED, LOOKS_LIKE_ONE, f'{LOOKS_LIKE_ONE}\n[tool.ds-lint.per-file-ignores]\n"a/b" = ["DS1", "x"]\n'),
        (SHARED, 'tool.ds-lint = { stack = "trainer" }\n', None),
        (SHARED, "[tool]\nds-lint = 1\n", None),
        (OWN, "per-file-ignores = 1\n", None),
        (OWN, "[per-file-ignores\n", None),
        (OWN, "stack\n", None),
    ],
)
def test_rules_are_added_where_the_others_stand(name, before, after):
    assert with_ignores(before, name, {"a/b": ["DS1", "x"]}) == after


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_pattern_may_be_added(one, other):
    assume(one != f"{other}d")
    text = with_ignores('per-file-ignores = { "c" = ["DS2"] }\n', OWN, {one: ["DS1"], f"{other}d": ["DS3"]})
    if text is not None:  # some characters cannot be written
        assert strictly(text)["per-file-ignores"][one][-1:] == ["DS1"]
    else:
        assert any(not character.isprintable() for character in one + other)


@given(st.text("ab*?[]!-./", min_size=1, max_size=8), st.text("ab*?[]!-./", min_size=1, max_size=8))
def test_a_literal_pattern_means_one_file(path, other):
    path, other = (os.path.normpath(f"x/{name}").lstrip("/") for name in (path, other))
    assume(not {".", ".."} & {*path.split("/"), *other.split("/")})  # no names
    assert matches(path, literal(path))
    assert matches(other, literal(path)) is (other == path or other.startswith(f"{path}/"))


@pytest.mark.parametrize(
    ("pattern", "path", "is_meant"),
    [("/a.json", "a.json", True), ("/a.json", "b/a.json", False), ("/b/*.json", "b/a.json", True)],
)
def test_a_slash_in_front_means_the_folder_of_the_settings(pattern, path, is_meant):
    assert matches(path, pattern) is is_meant
