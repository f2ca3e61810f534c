"""Findings about a script or a launch are shown there, and the config that they are found with is a related place."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

from ds_lint.cli import run

CONFIG = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}
LAUNCH = "set -e\ntorchrun --nproc_per_node 8 deepspeed train.py --deepspeed_config ds.json\n"
COMMENT = "# ds-lint: ignore[DS831] it works on our cluster\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_into(tmp_path)


@pytest.fixture
def said(write, capsys):
    def check(files, *arguments, form="json"):
        write(files)
        status = run(["check", *(arguments or ["."]), "--select", "DS831,DS013", "--output-format", form])
        return status, capsys.readouterr().out

    return check


@pytest.fixture
def found(said):
    def check(files, *arguments):
        return json.loads(said(files, *arguments)[1])["findings"]

    return check


def places(finding):
    return [(one["path"], one["span"]["start"]["line"]) for one in (finding, *finding["related"])]


def test_a_finding_about_a_launch_is_shown_there_and_the_config_is_related(found):
    (finding,) = found({"ds.json": CONFIG, "run.sh": LAUNCH})
    assert places(finding) == [("./run.sh", 2), ("./ds.json", 1)]


def test_the_config_alone_still_shows_it(found, tmp_path):
    (tmp_path / ".git").mkdir()
    (finding,) = found({"ds.json": CONFIG, "run.sh": LAUNCH}, "ds.json")
    assert [path.removeprefix("./") for path, _ in places(finding)] == ["run.sh", "ds.json"]


@pytest.mark.parametrize(
    ("form", "place"),
    [
        ("concise", "./run.sh:2:1: DS831"),
        ("full", "--> ./run.sh:2:1"),
        ("github", "file=run.sh,line=2"),
        ("gitlab", '"path": "run.sh"'),
        ("sarif", '"uri": "run.sh"'),
    ],
)
def test_every_format_has_the_place(said, form, place):
    status, text = said({"ds.json": CONFIG, "run.sh": LAUNCH}, form=form)
    assert (status, place in text) == (1, True)


def test_several_configs_of_one_launch_are_named_in_one_finding(found):
    both = "torchrun deepspeed train.py --first one.json --second two.json --deepspeed one.json\n"
    files = {"one.json": CONFIG, "two.json": CONFIG, "run.sh": both.replace("--deepspeed one.json", "")}
    (finding,) = found(files)
    assert places(finding) == [("./run.sh", 1), ("./one.json", 1), ("./two.json", 1)]


@pytest.mark.parametrize(
    "files",
    [
        {"run.sh": LAUNCH.replace("torchrun", f"{COMMENT}torchrun")},
        {"run.sh": LAUNCH.replace("ds.json", f"ds.json {COMMENT.strip()}")},
        {"run.sh": COMMENT.replace("ignore", "ignore-file") + LAUNCH},
        {"ds.json": COMMENT.replace("ignore", "ignore-file") + json.dumps(CONFIG), "run.sh": LAUNCH},
        {"run.sh": LAUNCH, "ds-lint.toml": '[per-file-ignores]\n"run.sh" = ["DS831"]\n'},
        {"run.sh": LAUNCH, "ds-lint.toml": '[per-file-ignores]\n"ds.json" = ["DS831"]\n'},
    ],
    ids=["above", "behind", "file", "config", "settings", "settings of the config"],
)
def test_it_is_suppressed_in_either_file(found, files):
    assert found({"ds.json": CONFIG, **files}) == []


@pytest.mark.parametrize(
    "launch",
    [
        LAUNCH.replace("set -e", f"set -e  {COMMENT.strip()}"),
        LAUNCH.replace("ds.json", f"ds.json --note 'a{COMMENT.strip()}'"),
        LAUNCH.replace("torchrun", f"{COMMENT.replace('DS831', 'DS832')}torchrun"),
    ],
    ids=["of another line", "no comment", "of another rule"],
)
def test_no_other_comment_suppresses_it(found, launch):
    assert len(found({"ds.json": CONFIG, "run.sh": launch})) == 1


def test_a_baseline_knows_it_wherever_it_is_shown(found, write, capsys):
    """The entry is the one of a finding in the config: its rule, key and text, under the config's path."""
    write({"ds.json": CONFIG, "run.sh": LAUNCH})
    run(["check", ".", "--select", "DS831", "--write-baseline"])
    capsys.readouterr()
    with open("ds-lint-baseline.json", encoding="utf-8") as file:
        assert list(json.load(file)["files"]) == ["ds.json"]
    assert found({"run.sh": f"# moved\n{LAUNCH}"}, ".", "--baseline", "ds-lint-baseline.json") == []
