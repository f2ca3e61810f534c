"""The settings: what each takes, what is said of wrong ones, and that the published schema says the same."""

from __future__ import annotations

import json
import ntpath
import os
from time import perf_counter

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_lint.knowledge import resources
from ds_lint.project.globs import matches, relative
from ds_lint.session.options import Options
from ds_lint.settings import reader
from ds_lint.settings.kinds import complaints_about
from ds_lint.settings.nearest import Nearest, user_file
from ds_lint.settings.record import NO_SETTINGS, Settings, SettingsError
from ds_lint.settings.table import SETTINGS

with open(resources.path("schemas", "published", "settings.schema.json"), encoding="utf-8") as file:
    SCHEMA = jsonschema.Draft7Validator(json.load(file))

GOOD = {
    "extend": ["../base.toml", "~/ds-lint.toml"],
    "required-version": [">=0.1", "0.1.0"],
    "select": [["DS1", "unknown-key", "DS201"], []],
    "extend-select": [["DS121"]],
    "ignore": [["no-effect-key"]],
    "preview": [True, False],
    "severity": [{"unknown-key": "info", "DS102": "error"}, {}],
    "per-file-ignores": [{"tests/**": ["DS1"], "a.json": ["unknown-key"]}],
    "extend-per-file-ignores": [{"tests/**": ["DS1"]}],
    "fixable": [["ALL"], []],
    "extend-fixable": [["DS101"]],
    "unfixable": [["DS1", "unknown-key"]],
    "unsafe-fixes": [True, False],
    "output-format": ["full", "sarif"],
    "fail-on": ["error", "warning", "info"],
    "exclude": [["third_party", "*.bak.json"], []],
    "extend-exclude": [["third_party/"]],
    "include": [["conf/**", "*.json"], []],
    "extend-include": [["*.conf"]],
    "force-exclude": [True, False],
    "include-markdown": [True, False],
    "respect-gitignore": [True, False],
    "stack": ["deepspeed", "trainer", "accelerate"],
    "world-size": [1, 1024],
    "nodes": [2],
    "trainer-args": ["args.json", "--bf16 True"],
    "model": ["models/llama", "meta-llama/Llama-3.1-8B"],
    "gpu": ["A100-80GB"],
    "host-memory": ["512GB"],
    "deepspeed-version": ["0.16.9", "0.16", ">=0.14"],
    "transformers-version": ["5.0.0"],
    "accelerate-version": ["1.0.0"],
    "policy": [["org.schema.json"]],
    "baseline": ["ds-lint-baseline.json"],
    "configs": [[{"path": "a.json"}, {"path": "big/**", "stack": "trainer", "world-size": 64, "nodes": 8}]],
}

BAD = [
    ({"selct": ["DS1"]}, 'unknown setting "selct", did you mean "select"?'),
    ({"fail_on": "error"}, 'unknown setting "fail_on", did you mean "fail-on"?'),
    ({"select": "DS1"}, 'select must be a list of rules, not "DS1"'),
    ({"select": ["DS1", 3]}, 'select[1] must be a rule, such as "DS101" or "unknown-key", not 3'),
    ({"ignore": ["unknown-keys"]}, "ignore[0]: unknown rule unknown-keys; did you mean unknown-key?"),
    ({"preview": "yes"}, 'preview must be true or false, not "yes"'),
    ({"severity": {"unknown-key": "off"}}, 'severity.unknown-key must be "error", "warning" or "info", not "off"'),
    ({"severity": {"DS1": "info"}}, "severity: unknown rule DS1; `ds-lint rules` lists them"),
    ({"severity": "error"}, 'severity must be a table of rules and severities, not "error"'),
    ({"per-file-ignores": {"a.json": "DS101"}}, 'per-file-ignores.a.json must be a list of rules, not "DS101"'),
    ({"per-file-ignores": {"": []}}, 'per-file-ignores must be a path or a pattern such as "tests/**", not ""'),
    ({"extend": ["a.toml"]}, 'extend must be the path of a file, not ["a.toml"]'),
    (
        {"required-version": 0.1},
        'required-version must be a version such as "0.1.0" or a range such as ">=0.1", not 0.1',
    ),
    ({"unfixable": ["XY"]}, "unfixable[0]: unknown rule XY; `ds-lint rules` lists them"),
    ({"unsafe-fixes": "true"}, 'unsafe-fixes must be true or false, not "true"'),
    ({"include": "*.json"}, 'include must be a list of patterns, not "*.json"'),
    ({"fail-on": "never"}, 'fail-on must be "error", "warning" or "info", not "never"'),
    ({"exclude": "build"}, 'exclude must be a list of patterns, not "build"'),
    ({"select": [""]}, 'select[0] must be a rule, such as "DS101" or "unknown-key", not ""'),
    ({"stack": "megatron"}, 'stack must be "deepspeed", "trainer" or "accelerate", not "megatron"'),
    ({"world-size": "8"}, 'world-size must be a whole number of at least 1, not "8"'),
    ({"world-size": 0}, "world-size must be a whole number of at least 1, not 0"),
    ({"world-size": True}, "world-size must be a whole number of at least 1, not true"),
    (
        {"deepspeed-version": 0.16},
        'deepspeed-version must be a release such as "0.16.9" or a range such as ">=0.14", not 0.16',
    ),
    ({"host-memory": 512}, 'host-memory must be a size such as "512GB", not 512'),
    ({"policy": "org.schema.json"}, 'policy must be a list of files, not "org.schema.json"'),
    ({"baseline": True}, "baseline must be the path of a file, not true"),
    ({"configs": {"path": "a.json"}}, 'configs must be a list of tables, not {"path": "a.json"}'),
    ({"configs": [{"stack": "trainer"}]}, "configs[0] needs a path"),
    (
        {"configs": [{"path": "a.json", "world-sise": 8}]},
        'unknown setting "configs[0].world-sise", did you mean "world-size"?',
    ),
    (
        {"configs": [{"path": "a.json"}, {"path": "b.json", "world-size": 1.5}]},
        "configs[1].world-size must be a whole number of at least 1, not 1.5",
    ),
]


def test_every_setting_is_tried_out_here():
    assert GOOD.keys() == {setting.name for setting in SETTINGS}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in GOOD.items() for value in values])
def test_good_settings(name, value):
    assert list(complaints_about({name: value}, SETTINGS)) == []
    assert list(SCHEMA.iter_errors({name: value})) == []


@pytest.mark.parametrize(("settings", "said"), BAD, ids=[said for _, said in BAD])
def test_bad_settings(settings, said):
    assert list(complaints_about(settings, SETTINGS)) == [said]
    assert not SCHEMA.is_valid(settings)


def test_an_unknown_setting_like_no_other_is_told_what_there_is():
    (said,) = complaints_about({"zzz": 1}, SETTINGS)
    assert said.startswith('unknown setting "zzz"; valid names are extend, required-version, select, ')


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([0.16, 1e400])
    | st.text(st.characters(exclude_characters="d"), max_size=5)  # "ds1" the reader takes, and editors do not offer it
    | st.sampled_from(["DS1", "DS101", "unknown-key", "trainer", "error"]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.sampled_from(["path", "DS101", "a"]), values),
    max_leaves=5,
)  # fmt: skip


@given(name=st.sampled_from([setting.name for setting in SETTINGS]), value=VALUES)
def test_the_schema_and_the_reader_agree_on_any_value(name, value):
    assert SCHEMA.is_valid({name: value}) == (not list(complaints_about({name: value}, SETTINGS)))


# Reading


def read(text, path="pyproject.toml"):
    return reader.parse(text.encode() if isinstance(text, str) else text, path)


def test_a_pyproject_has_a_table_of_ours():
    assert read('[tool.ds-lint]\nstack = "trainer"\n').stack == "trainer"
    assert read('[tool]\nds-lint.stack = "trainer"\n').stack == "trainer"
    assert read("[tool.ruff]\n[project]\nname = 'ds-lint'\n") is None


def test_a_file_of_our_own_has_nothing_else():
    assert read('stack = "trainer"', "ds-lint.toml").stack == "trainer"
    with pytest.raises(SettingsError, match=r'^ds-lint.toml: unknown setting "tool"; valid names are extend'):
        read('[tool.ds-lint]\nstack = "trainer"\n', "ds-lint.toml")


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(SettingsError) as caught:
        read('[tool.ds-lint]\nselct = []\nworld-size = "8"\n')
    assert str(caught.value).splitlines() == [
        'pyproject.toml: unknown setting "selct", did you mean "select"?',
        'pyproject.toml: world-size must be a whole number of at least 1, not "8"',
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.ds-lint]\nstack = \n", "Invalid value (at line 2, column 9)"),
        (b"[tool.ds-lint]\nstack = '\xff'\n", "the file is not UTF-8"),
        ("[tool]\nds-lint = 1\n", "tool.ds-lint must be a table, not 1"),
    ],
)
def test_what_cannot_be_read_is_an_error(text, said):
    with pytest.raises(SettingsError) as caught:
        read(text)
    assert str(caught.value) == f"pyproject.toml: {said}"


def test_numbers_may_be_written_as_toml_likes_it():
    assert read("[tool.ds-lint]\nworld-size = 1_024\n").sources.world_size == 1024
    assert read("[tool.ds-lint]\nworld-size = 0x10\n").sources.world_size == 16


def test_files_and_folders_of_facts_lie_beside_the_settings(tmp_path):
    (tmp_path / "model").mkdir()
    path = str(tmp_path / "ds-lint.toml")
    here = Settings(path, {"trainer-args": "args.json", "model": "model"}).sources
    assert (here.trainer_args, here.model) == (str(tmp_path / "args.json"), str(tmp_path / "model"))
    elsewhere = Settings(path, {"trainer-args": "--bf16 True", "model": "gpt2"}).sources
    assert (elsewhere.trainer_args, elsewhere.model) == ("--bf16 True", "gpt2")


# The nearest file


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Writes a file below the test's folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)

    def put(path, text=""):
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        return str(place)

    return put


def test_the_nearest_file_counts_whole(put):
    put("pyproject.toml", '[tool.ds-lint]\nstack = "trainer"\nfail-on = "error"\n')
    put("deep/ds-lint.toml", 'stack = "deepspeed"')
    put("deep/er/a.json")
    nearest = Nearest()
    assert (nearest.to("").stack, nearest.to("").fail_on) == ("trainer", "error")
    assert (nearest.to("deep/er").stack, nearest.to("deep/er").fail_on) == ("deepspeed", None)
    assert nearest.to("deep") is nearest.to("deep/er")


def test_a_file_of_our_own_comes_before_the_pyproject_beside_it(put):
    put("pyproject.toml", '[tool.ds-lint]\nstack = "trainer"\n')
    put("ds-lint.toml", "")
    assert Nearest().to("").stack is None


def test_a_pyproject_without_a_table_of_ours_is_passed_over(put):
    put("pyproject.toml", '[tool.ds-lint]\nstack = "trainer"\n')
    put("package/pyproject.toml", '[project]\ndependencies = ["ds-lint"]\n')
    assert Nearest().to("package").stack == "trainer"


def test_one_file_may_count_for_all_or_none(put):
    put("pyproject.toml", '[tool.ds-lint]\nstack = "trainer"\n')
    named = put("other.toml", 'stack = "accelerate"')
    assert Nearest(named).to("").stack == "accelerate"
    assert Nearest(is_isolated=True).to("") is NO_SETTINGS


def test_the_file_of_the_user_is_looked_for_once(put, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "home"))
    looked_for = []
    monkeypatch.setattr(os.path, "isfile", lambda path: looked_for.append(path) or os.path.exists(path))
    nearest = Nearest()
    put("deep/er/a.json")
    assert nearest.to("deep/er") is nearest.to("deep") is nearest.to("") is NO_SETTINGS
    assert len([path for path in looked_for if path == user_file()]) == 1


def test_paths_in_a_file_begin_at_its_folder():
    assert Settings("deep/ds-lint.toml", {}).beside("org.schema.json") == "deep/org.schema.json"
    assert Settings("ds-lint.toml", {}).beside("/etc/org.schema.json") == "/etc/org.schema.json"


# Patterns


@pytest.mark.parametrize(
    ("path", "pattern", "meant"),
    [
        ("a.json", "a.json", True),
        ("deep/a.json", "a.json", True),
        ("deep/a.json", "./a.json", True),
        ("deep/a.json", "deep/a.json", True),
        ("more/deep/a.json", "deep/a.json", False),
        ("tests/a.json", "tests/**", True),
        ("tests/deep/a.json", "tests/**", True),
        ("tests/deep/a.json", "tests", True),
        ("tests/deep/a.json", "tests/", True),
        ("my_tests/a.json", "tests", False),
        ("tests/deep/a.json", "tests/*.json", False),
        ("tests/a.json", "tests/*.json", True),
        ("tests/a.json", "**/a.json", True),
        ("a.json", "**/a.json", True),
        ("one/two/a.json", "one/**/a.json", True),
        ("one/a.json", "one/**/a.json", True),
        ("zero3.json", "zero?.json", True),
        ("zero33.json", "zero?.json", False),
        ("zero3.json", "zero[23].json", True),
        ("zero3.json", "zero[1-3].json", True),
        ("zero3.json", "zero[!23].json", False),
        ("zero1.json", "zero[!23].json", True),
        ("a+b.json", "a+b.json", True),
        ("axjson", "a.json", False),
        ("tests", "tests/", False),  # a file
        ("tests/a.json", "/tests", True),
        ("deep/tests/a.json", "/tests", False),
        ("../deep/a.json", "deep", True),
        ("../deep/a.json", ".*/", False),
        ("zero3.json", "zero[!a-z].json", True),
        ("ab/c.json", "a**/c.json", True),
        ("zero?.json", "zero\\?.json", True),
        ("zero3.json", "zero\\?.json", False),
    ],
)
def test_patterns(path, pattern, meant):
    assert matches(path, pattern) is meant


def test_paths_of_windows_have_slashes_for_patterns():
    assert relative(r"C:\work\tests\a.json", r"C:\work", ntpath) == "tests/a.json"
    assert relative(r"D:\a.json", r"C:\work", ntpath) == "D:/a.json"
    assert matches(relative(r"C:\work\tests\a.json", r"C:\work", ntpath), "tests/**")


@pytest.mark.parametrize("pattern", ["*a" * 20 + "x", "**/" * 20 + "x", "**" * 40 + "x", "a*/" * 10 + "x"])
def test_no_pattern_takes_long(pattern):
    start = perf_counter()
    assert not matches("/".join(["a" * 40] * 6), pattern)
    assert perf_counter() - start < 1


@given(st.text("ab/*?[]!-"), st.text("ab/*?[]!-"))
def test_any_pattern_is_a_pattern(path, pattern):
    assert matches(path, pattern) in (True, False)


def test_the_command_line_says_nothing_about_rules_unless_asked():
    assert not Options([]).names_rules
    assert Options([], select=["DS1"]).names_rules
