"""Settings in several places: a file that extends others, the user's own, and what the command line gives over them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from command_line import write_into

from ds_lint import __version__
from ds_lint.commands.parser import parse
from ds_lint.project.discovery import ENDINGS

CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_cliping": 0.5,
    "zero_optimization": {"stage": "2"},
}  # DS101, DS202
BOTH = ["DS101", "DS202"]
TOML = {"separators": (", ", " = ")}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files into the test's folder, which is the working directory of a user without settings."""
    home = tmp_path / "home"
    for name in ("HOME", "USERPROFILE", "APPDATA", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return write_into(tmp_path / "work")


@pytest.fixture
def check(capsys):
    """Runs ``ds-lint check``: its exit status and what it prints."""

    def check(*arguments):
        status = parse(["check", *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return check


@pytest.fixture
def findings(check):
    """The findings of a check of rules DS101 and DS202."""

    def findings(*arguments):
        status, out, err = check(*arguments, "--output-format", "json", "--stack", "deepspeed")
        assert status < 2, err
        return [one for one in json.loads(out)["findings"] if one["code"] in BOTH]

    return findings


@pytest.fixture
def codes(findings):
    return lambda *arguments: [one["code"] for one in findings(*arguments)]


def toml(settings):
    """A settings file."""
    lines = []
    for name, value in settings.items():
        text = json.dumps(value)
        if isinstance(value, dict):
            text = "{" + ", ".join(f"{json.dumps(key)} = {json.dumps(inner)}" for key, inner in value.items()) + "}"
        lines.append(f"{name} = {text}\n")
    return "".join(lines)


# What ruff does


ALL = {"select": ["DS1", "DS2"]}
LAYERS = [
    ({**ALL, "ignore": ["DS101"]}, {"extend-select": ["DS101"]}, [], BOTH),
    ({**ALL, "ignore": ["DS101"]}, {"ignore": ["DS202"]}, [], []),
    ({**ALL, "ignore": ["DS101"]}, {}, [], ["DS202"]),
    ({**ALL, "ignore": ["DS101"]}, {"select": ["DS1"]}, [], ["DS101"]),
    ({**ALL, "ignore": ["DS101"]}, {}, ["--extend-select", "DS101"], BOTH),
    ({**ALL, "ignore": ["DS101"]}, {"ignore": ["DS202"]}, ["--select", "DS202"], ["DS202"]),
    (ALL, {}, ["--config", 'ignore = ["DS101"]'], ["DS202"]),
    (ALL, {"ignore": ["DS1"]}, ["--config", 'extend-select = ["DS101"]'], BOTH),
    ({**ALL, "per-file-ignores": {"a": ["DS101"]}}, {"per-file-ignores": {"b": ["DS202"]}}, [], BOTH),
    ({**ALL, "per-file-ignores": {"a": ["DS101"]}}, {"extend-per-file-ignores": {"a": ["DS202"]}}, [], []),
    (ALL, {"extend-per-file-ignores": {"a": ["DS101"]}}, ["--per-file-ignores", "a:DS202"], []),
    (ALL, {"per-file-ignores": {"a": ["DS101"]}}, ["--per-file-ignores", "a:DS202"], ["DS101"]),
    (ALL, {"per-file-ignores": {"a": ["DS101"]}}, ["--extend-per-file-ignores", "b:DS202,a:DS202"], []),
    (ALL, {"per-file-ignores": {"a": ["DS1"]}}, ["--config", 'per-file-ignores."a" = ["DS2"]'], ["DS101"]),
    (ALL, {"select": ["DS1"]}, ["--isolated", "--config", 'select = ["DS1", "DS2"]'], BOTH),
    (ALL, {"unfixable": ["DS101"]}, [], ["DS101!", "DS202"]),
    (ALL, {"fixable": ["DS101"]}, [], ["DS101", "DS202!"]),
    (ALL, {"fixable": []}, [], ["DS101!", "DS202!"]),
    (ALL, {"fixable": ["DS101"], "unfixable": ["DS101"]}, [], ["DS101!", "DS202!"]),
    (ALL, {"fixable": ["DS101"], "extend-fixable": ["DS202"]}, [], BOTH),
    ({**ALL, "unfixable": ["DS101"]}, {"fixable": ["DS101"]}, [], ["DS101", "DS202!"]),
    ({**ALL, "unfixable": ["DS101"]}, {"extend-fixable": ["DS101"]}, [], BOTH),
    ({**ALL, "fixable": ["DS1"]}, {"unfixable": ["DS1"]}, [], ["DS101!", "DS202!"]),
    ({**ALL, "unfixable": ["DS1"]}, {}, ["--fixable", "DS101"], ["DS101", "DS202!"]),
    ({**ALL, "fixable": ["DS1"]}, {}, ["--unfixable", "DS1"], ["DS101!", "DS202!"]),
    ({**ALL, "fixable": ["DS1"]}, {}, ["--extend-fixable", "DS202"], BOTH),
]
_AS_IN_RUFF = {"DS101": "F401", "DS202": "E703", "DS1": "F4", "DS2": "E7"}


@pytest.mark.parametrize(("base", "own", "given", "wanted"), LAYERS)
def test_layers_count_as_in_ruff(base, own, given, wanted, write, findings, tmp_path):
    write({"base.toml": toml(base), "ds-lint.toml": toml({"extend": "base.toml", **own}), "a": CONFIG})
    found = findings("a", *given)
    assert sorted(one["code"] + "!" * (one["fix"] is None) for one in found) == wanted
    if find_spec("ruff") is not None:
        assert _by_ruff(base, own, given, tmp_path) == wanted


def _by_ruff(base, own, given, folder):
    """What ruff finds in a module with the same settings, in our words."""

    def in_ruff(text):
        for ours, theirs in _AS_IN_RUFF.items():
            text = text.replace(ours, theirs)
        return text

    extends = toml({"extend": "base.toml"})
    write_into(folder / "ruff")(
        {
            "base.toml": in_ruff(f"[lint]\n{toml(base)}"),
            "ruff.toml": in_ruff(f"{extends}[lint]\n{toml(own)}"),
            "a": "import os\nx = 1;\n",
        }
    )
    arguments = [in_ruff(one) for one in given]
    is_setting = [before == "--config" for before in ["", *given]]
    arguments = [f"lint.{one}" if one_is else one for one, one_is in zip(arguments, is_setting, strict=False)]
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "json", *arguments, "a"]
    done = subprocess.run(command, cwd=folder / "ruff", capture_output=True, text=True, check=False)
    assert done.returncode < 2, done.stderr
    ours = {theirs: code for code, theirs in _AS_IN_RUFF.items()}
    found = [one for one in json.loads(done.stdout) if one["code"] in ours]
    return sorted(ours[one["code"]] + "!" * (one["fix"] is None) for one in found)


# extend


def test_each_setting_is_that_of_the_last_file_that_has_it(write, check):
    write(
        {
            "../org/base.toml": toml(
                {"stack": "trainer", "world-size": 8, "severity": {"DS101": "info", "DS102": "info"}}
            ),
            "../team/pyproject.toml": '[tool.ds-lint]\nextend = "../org/base.toml"\nworld-size = 16\n',
            "ds-lint.toml": toml({"extend": "../team/pyproject.toml", "severity": {"unknown-key": "error"}}),
        }
    )
    shown = json.loads(check("--show-settings", "--output-format", "json", "a.json")[1])["settings"][0]
    values = {one["name"]: (one["value"], os.path.basename(one["source"])) for one in shown["values"]}
    assert shown["file"] == "ds-lint.toml"
    assert [os.path.basename(one) for one in shown["extends"]] == ["pyproject.toml", "base.toml"]
    assert values["stack"] == ("trainer", "base.toml:1")
    assert values["world-size"] == (16, "pyproject.toml:3")
    assert values["severity"][0] == {"DS101": "info", "DS102": "info", "unknown-key": "error"}
    _, out, _ = check("--show-settings", "a.json")
    assert out.splitlines()[1].startswith("settings: ds-lint.toml, extends ")
    write({"a.json": CONFIG})
    assert "note: settings of ds-lint.toml, which extends " in check("-v", "a.json")[1]


def test_paths_start_at_the_folder_of_the_file_that_has_them(write, codes):
    base = {"per-file-ignores": {"/x.json": ["DS101"]}, "exclude": ["/only"], "policy": ["org.json"]}
    write({"base/base.toml": toml(base), "base/org.json": {"required": ["fp16"]}, "x.json": CONFIG})
    write({"ds-lint.toml": toml({"extend": "base/base.toml", "extend-exclude": ["/out"]})})
    write({"base/x.json": CONFIG, "base/only/c.json": CONFIG, "out/c.json": CONFIG, "only/c.json": CONFIG})
    assert codes("x.json") == BOTH
    assert codes("base/x.json") == ["DS202"]
    write({"ds-lint.toml": toml({"extend": "base/base.toml"})})
    assert codes("base") == ["DS202"]


def test_the_place_of_the_extended_file_may_have_a_home_and_variables(write, codes, monkeypatch):
    write(
        {"../home/base.toml": toml({"ignore": ["DS101"]}), "a.json": CONFIG, "ds-lint.toml": 'extend = "~/base.toml"'}
    )
    assert codes("a.json") == ["DS202"]
    monkeypatch.setenv("BASE_SETTINGS", os.path.join("..", "home"))
    write({"ds-lint.toml": 'extend = "$BASE_SETTINGS/base.toml"'})
    assert codes("a.json") == ["DS202"]


def _extending(**files):
    return {"ds-lint.toml": 'extend = "b.toml"', **{f"{name}.toml": text for name, text in files.items()}}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (_extending(), "ds-lint.toml: extend: b.toml: No such file or directory"),
        (_extending(b='extend = "c.toml"', c='extend = "b.toml"'),
         "c.toml: extend: ds-lint.toml extends b.toml extends c.toml extends b.toml"),
        ({"ds-lint.toml": 'extend = "ds-lint.toml"'}, "ds-lint.toml: extend: ds-lint.toml extends ds-lint.toml"),
        (_extending(b="selct = []"), 'b.toml: unknown setting "selct", did you mean "select"?'),
        (_extending(b="world-size = 0"), "b.toml: world-size must be a whole number of at least 1, not 0"),
        (_extending(b="select = [\n"), "b.toml: Invalid value (at end of document)"),
        ({"ds-lint.toml": 'extend = "pyproject.toml"', "pyproject.toml": "[tool.other]\n"},
         "ds-lint.toml: extend: pyproject.toml: it has no [tool.ds-lint] table"),
        ({"ds-lint.toml": "extend = 1"}, "ds-lint.toml: extend must be the path of a file, not 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_extended_is_2(files, said, write, check):
    write({**files, "a.json": CONFIG})
    assert check("a.json") == (2, "", f"ds-lint: {said}\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows says it in other words")
def test_a_directory_cannot_be_extended(write, check):
    write({"ds-lint.toml": 'extend = "deep"', "deep/a.json": CONFIG})
    assert check("deep") == (2, "", "ds-lint: ds-lint.toml: extend: deep: Is a directory\n")


def test_an_extended_file_is_utf_8(write, check, tmp_path):
    write({"ds-lint.toml": 'extend = "b.toml"'})
    (tmp_path / "work" / "b.toml").write_bytes(b"stack = '\xff'")
    assert check("a.json")[2] == "ds-lint: b.toml: the file is not UTF-8\n"


def test_a_suppression_does_not_undo_those_of_the_extended_file(write, codes, check):
    write({"base.toml": toml({"per-file-ignores": {"*.json": ["DS101"]}}), "ds-lint.toml": 'extend = "base.toml"\n'})
    write({"a.json": CONFIG})
    assert check("--add-ignore", "--select", "DS1,DS2", "a.json")[0] == 0
    with open("ds-lint.toml", encoding="utf-8") as file:
        assert file.read() == 'extend = "base.toml"\n\n[extend-per-file-ignores]\n"/a.json" = ["stage-as-string"]\n'
    assert codes("a.json") == []


# required-version


@pytest.mark.parametrize("version", [f"=={__version__}", __version__, ">=0.0.1,<1000"])
def test_this_version_may_be_required(version, write, codes):
    write({"ds-lint.toml": toml({"required-version": version}), "a.json": CONFIG})
    assert codes("a.json") == BOTH


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (">=1000", f'required-version is ">=1000", and this is ds-lint {__version__}'),
        ("0.0.1", f'required-version is "0.0.1", and this is ds-lint {__version__}'),
        ("new", 'required-version must be a version such as "0.1.0" or a range such as ">=0.1", not "new"'),
    ],
)
def test_another_version_stops_before_settings_that_it_may_know(version, said, write, check):
    write({"ds-lint.toml": toml({"required-version": version, "setting-to-come": 1}), "a.json": CONFIG})
    assert check("a.json") == (2, "", f"ds-lint: ds-lint.toml: {said}\n")
    given = f"required-version = {json.dumps(version)}"
    assert check("a.json", "--isolated", "--config", given) == (2, "", f"ds-lint: --config {given}: {said}\n")


# The user's own file


@pytest.fixture
def of_user(write):
    """Writes the settings of the user."""
    return lambda settings: write({"../home/ds-lint/ds-lint.toml": toml(settings)})


def test_the_file_of_the_user_counts_where_no_project_has_one(of_user, write, codes, check):
    of_user({"ignore": ["DS101"], "per-file-ignores": {"/deep/a.json": ["DS202"]}})
    write({"a.json": CONFIG, "deep/a.json": CONFIG})
    assert codes("a.json") == ["DS202"]
    assert codes("deep/a.json") == []  # paths start at the working directory
    assert codes("a.json", "--isolated") == BOTH
    assert codes("a.json", "--config", 'ignore = ["DS202"]') == []
    _, out, _ = check("--show-settings", "a.json")
    file = os.path.join("home", "ds-lint", "ds-lint.toml")
    assert out.splitlines()[1].endswith(file)
    assert f"{file}:1" in out
    write({"deep/ds-lint.toml": ""})
    assert codes("a.json") == ["DS202"]
    assert codes("deep/a.json") == BOTH


@pytest.mark.skipif(os.name == "nt", reason="the variables of other systems")
@pytest.mark.parametrize("folder", [None, "", "relative"])
def test_without_a_folder_for_settings_it_is_in_the_home(folder, of_user, write, codes, monkeypatch):
    monkeypatch.delenv("XDG_CONFIG_HOME") if folder is None else monkeypatch.setenv("XDG_CONFIG_HOME", folder)
    write({"../home/.config/ds-lint/ds-lint.toml": toml({"ignore": ["DS101"]}), "a.json": CONFIG})
    assert codes("a.json") == ["DS202"]


def test_what_is_wrong_with_the_file_of_the_user_is_2(of_user, check, write):
    of_user({"selct": []})
    write({"a.json": CONFIG})
    status, _, err = check("a.json")
    assert (status, err.endswith('ds-lint.toml: unknown setting "selct", did you mean "select"?\n')) == (2, True)


def test_suppressions_are_of_the_project_and_not_of_the_user(of_user, write, check):
    of_user({"ignore": ["DS202"]})
    write({"a.json": CONFIG})
    status, out, err = check("--add-ignore", "--select", "DS101", "a.json")
    assert (status, out) == (0, "Added 1 rule to per-file-ignores in ds-lint.toml.\n")
    assert "no longer counts here; add extend = " in err


# --config and --per-file-ignores


def test_config_names_a_file_whose_paths_start_here(write, codes, check):
    write({"a.json": CONFIG, "ci/lint.toml": toml({"per-file-ignores": {"/a.json": ["DS101"]}})})
    assert codes("a.json", "--config", "ci/lint.toml") == ["DS202"]
    assert codes("a.json", "--settings", "ci/lint.toml") == BOTH
    assert codes("a.json", "--config", "ci/lint.toml", "--config", 'ignore = ["DS2"]') == []
    assert "settings: ci/lint.toml, --config\n" in check("--show-settings", "a.json", "--config", "ci/lint.toml")[1]


def test_show_settings_names_what_the_command_line_gives(write, check):
    given = ["--config", "fail-on = 'info'", "--config", 'include = ["a"]', "--unfixable", "DS1", "--no-unsafe-fixes"]
    _, out, _ = check("--show-settings", "--output-format", "json", *given, "--per-file-ignores", "a.json:DS101,DS102")
    (shown,) = json.loads(out)["settings"]
    values = {one["name"]: (one["value"], one["source"]) for one in shown["values"]}
    assert values["fail-on"] == ("info", "--config")
    assert values["include"] == (["a"], "--config")
    assert values["unfixable"] == (["DS1"], "--unfixable")
    assert values["unsafe-fixes"] == (False, "--no-unsafe-fixes")
    assert values["per-file-ignores"] == ({"a.json": ["DS101", "DS102"]}, "--per-file-ignores")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "selct=1"], '--config selct=1: unknown setting "selct", did you mean "select"?'),
        (["--config", "world-size=0"], "--config world-size=0: world-size must be a whole number of at least 1, not 0"),
        (["--config", "no.toml"], "--config no.toml: neither a settings file nor KEY=VALUE"),
        (["--config", "."], "--config .: neither a settings file nor KEY=VALUE"),
        (["--config", ""], "--config : neither a settings file nor KEY=VALUE"),
        (["--config", "extend='a.toml'"],
         "--config extend='a.toml': only a settings file can extend another; name it with --config FILE"),
        (["--config", "a.toml", "--config", "b.toml"], "only one settings file can be named, not a.toml and b.toml"),
        (["--config", "a.toml", "--settings", "b.toml"], "only one settings file can be named, not a.toml and b.toml"),
        (["--config", "a.toml", "--isolated"],
         "--isolated ignores all settings files and cannot be combined with --config a.toml"),
        (["--per-file-ignores", "DS101"],
         '--per-file-ignores takes PATTERN:RULE, such as "tests/**:DS101", not DS101'),
        (["--extend-per-file-ignores", "a.json:"],
         '--extend-per-file-ignores takes PATTERN:RULE, such as "tests/**:DS101", not a.json'),
        (["--per-file-ignores", "a.json:XY9"], "unknown rule XY9; `ds-lint rules` lists them"),
        (["--unfixable", "XY9"], "unknown rule XY9; `ds-lint rules` lists them"),
    ],
)  # fmt: skip
def test_what_the_command_line_cannot_give_is_2(arguments, said, write, check):
    write({"a.toml": "", "b.toml": "", "a.json": CONFIG})
    assert check("a.json", *arguments) == (2, "", f"ds-lint: {said}\n")


def test_the_last_config_counts(write, codes):
    write({"a.json": CONFIG})
    first = ("a.json", "--config", 'select = ["DS2"]', "--config", 'select = ["DS1"]')
    assert codes(*first) == ["DS101"]  # for ruff, the first does
    assert codes(*first, "--config", 'ignore = ["DS101"]') == []


def test_a_text_without_quotes_is_told_so(write, check):
    status, _, err = check("--config", "fail-on=info")
    assert status == 2
    assert err.startswith("ds-lint: --config fail-on=info: not KEY=VALUE as in TOML, where a text has quotes: ")


def test_an_option_and_a_variable_count_over_config(write, check, monkeypatch):
    write({"a.json": {"train_micro_batch_size_per_gpu": 4, "steps_per_print": 10}})
    given = ("a.json", "--config", "fail-on = 'info'", "--show-settings", "--output-format", "json")

    def fail_on(*more):
        values = json.loads(check(*given, *more)[1])["settings"][0]["values"]
        return next((one["value"], one["source"]) for one in values if one["name"] == "fail-on")

    assert fail_on() == ("info", "--config")
    monkeypatch.setenv("DS_LINT_FAIL_ON", "error")
    assert fail_on() == ("error", "DS_LINT_FAIL_ON")
    assert fail_on("--fail-on", "warning") == ("warning", "--fail-on")


def test_a_file_on_the_command_line_counts_over_one_of_a_variable(write, codes, monkeypatch):
    write({"a.toml": toml({"ignore": ["DS101"]}), "b.toml": "", "a.json": CONFIG})
    monkeypatch.setenv("DS_LINT_SETTINGS", "b.toml")
    assert codes("a.json", "--config", "a.toml") == ["DS202"]


# output-format


def test_settings_choose_the_format(write, check, monkeypatch):
    write(
        {
            "ds-lint.toml": toml({"output-format": "concise"}),
            "a.json": CONFIG,
            "deep/ds-lint.toml": "",
            "deep/a.json": {},
        }
    )
    assert check("a.json")[1].startswith("a.json:1:")
    assert check("a.json", "deep/a.json")[1].startswith("a.json:1:")  # the first counts
    assert check("deep/a.json", "a.json")[1].startswith("error[")
    assert check("a.json", "--output-format", "json")[1].startswith("{")
    assert check("a.json", "--config", "output-format = 'json'")[1].startswith("{")
    assert check("a.json", "--statistics", "--config", "output-format = 'sarif'")[1].startswith("1 ")
    assert 'output-format = "concise"' in check("--show-settings", "a.json")[1]
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert check("a.json")[1].startswith("a.json:1:")
    monkeypatch.setenv("DS_LINT_OUTPUT_FORMAT", "json")
    assert check("a.json")[1].startswith("{")


def test_an_upgrade_has_the_format_of_the_settings_too(write, capsys):
    write({"ds-lint.toml": toml({"output-format": "json"}), "a.json": CONFIG})
    parse(["upgrade", "--from", "0.16.9", "a.json"])
    assert capsys.readouterr().out.startswith("{")


# Fixes


UNSAFE = {**CONFIG, "fp8": {}}


def test_only_fixable_rules_are_fixed(write, check, tmp_path):
    write({"ds-lint.toml": toml({"unfixable": ["DS101"]}), "a.json": CONFIG})
    assert check("--diff", "a.json")[1].count("\n+") == 2  # the header, and the line with both
    status, out, _ = check("--fix", "a.json", "--stack", "deepspeed", "--select", "DS1,DS2")
    assert (tmp_path / "work" / "a.json").read_text().count("gradient_cliping") == 1
    assert (tmp_path / "work" / "a.json").read_text().count('"stage": 2') == 1
    assert status == 1
    assert "fix:" not in out
    assert "fixable with" not in out
    assert check("--fix", "a.json", "--fixable", "DS101", "--stack", "deepspeed", "--select", "DS1,DS2")[0] == 0


@pytest.mark.parametrize("output", ["full", "concise", "json", "sarif", "github", "gitlab", "junit"])
def test_no_format_offers_what_is_not_fixable(output, write, check):
    write({"a.json": CONFIG})
    arguments = ("a.json", "--select", "DS101", "--output-format", output, "--stack", "deepspeed")
    offered = check(*arguments)[1]
    plain = check(*arguments, "--unfixable", "ALL")[1]
    if output in ("full", "json", "sarif"):
        assert "Rename `gradient_cliping` to `gradient_clipping`" in offered
    assert "Rename `gradient_cliping`" not in plain
    assert "fixable" not in plain


def test_unsafe_fixes_may_be_a_setting(write, check, tmp_path):
    write({"ds-lint.toml": toml({"unsafe-fixes": True, "select": ["DS1"]}), "a.json": UNSAFE})
    assert "2 fixable with --fix\n" in check("a.json", "--stack", "deepspeed")[1]
    assert "1 fixable with --fix" in check("a.json", "--isolated", "--select", "DS1", "--stack", "deepspeed")[1]
    assert check("--diff", "--no-unsafe-fixes", "a.json")[1].count("fp8") == 2
    assert check("--fix", "a.json")[0] == 0
    assert "fp8" not in (tmp_path / "work" / "a.json").read_text()


# include


def listed(check, *arguments):
    status, out, _ = check("--show-files", "--output-format", "json", *arguments)
    assert status == 0
    return sorted(file["path"].removeprefix("./").replace(os.sep, "/") for file in json.loads(out)["files"])


TREE = {
    "conf/a.json": CONFIG,
    "conf/b.conf": CONFIG,
    "c.json": CONFIG,
    "d": CONFIG,
    "e.md": f"```json\n{json.dumps(CONFIG)}\n```\n",
}


def test_include_replaces_what_a_search_looks_at(write, check):
    write(TREE)
    assert listed(check) == ["c.json", "conf/a.json"]
    assert listed(check, "--include", "conf/*.json") == ["conf/a.json"]
    assert listed(check, "--include", "conf,*.md") == ["conf/a.json", "conf/b.conf", "e.md"]
    assert listed(check, "--extend-include", "*.conf,/d") == ["c.json", "conf/a.json", "conf/b.conf", "d"]
    assert listed(check, "--include", "conf/", "--include-markdown") == ["conf/a.json", "conf/b.conf", "e.md"]
    assert listed(check, "--include", "conf", "--extend-exclude", "*.conf") == ["conf/a.json"]
    assert listed(check, "--include", "conf/*.json", "c.json", "conf") == ["c.json", "conf/a.json"]


def test_the_settings_include_from_their_folder(write, check):
    write({**TREE, "conf/ds-lint.toml": toml({"include": ["/b.*"]}), "base.toml": toml({"extend-include": ["d"]})})
    write({"ds-lint.toml": toml({"extend": "base.toml"})})
    assert listed(check) == ["c.json", "conf/b.conf", "d"]
    assert listed(check, "--include", "/conf/a.json") == ["conf/a.json", "d"]


def test_a_script_that_is_not_included_is_no_config_but_still_a_launch(write, check):
    launch = "deepspeed --num_gpus 8 train.py --deepspeed --deepspeed_config c.json\n"
    trains = "import deepspeed\nengine = deepspeed.initialize(config='gone.json')\n"
    write({"run.sh": launch, "c.json": CONFIG, "train.py": trains})

    def checked(*arguments):
        report = json.loads(check("--output-format", "json", *arguments)[1])
        return sorted(os.path.basename(file["path"]) for file in report["files"]), report["files"]

    assert checked()[0] == ["c.json", "train.py"]
    names, (file,) = checked("--include", "*.json")
    assert names == ["c.json"]
    assert file["facts"]["world size"].startswith("8, by ")


def test_what_a_search_looks_at_is_said_by_default(write, check):
    _, out, _ = check("--show-settings", "--output-format", "json")
    values = {one["name"]: one["value"] for one in json.loads(out)["settings"][0]["values"]}
    assert values["include"] == [f"*{ending}" for ending in ENDINGS]
