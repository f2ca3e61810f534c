"""What follows from the records of options and facts: nothing but a record is needed for a new one."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from ds_lint.commands import environment
from ds_lint.commands.completion import commands
from ds_lint.commands.parser import command_line
from ds_lint.facts import Sources, readers
from ds_lint.lsp import configuration
from ds_lint.option import Option, OptionRecord, option
from ds_lint.session import call
from ds_lint.session.options import Options
from ds_lint.settings import table
from tools import option_tables
from tools.site import command_line as page

ROOT = Path(__file__).parent.parent


@pytest.fixture
def add(monkeypatch):
    def add(record, name, kind, made):
        monkeypatch.setattr(record, name, made, raising=False)
        monkeypatch.setitem(record.__annotations__, name, kind)
        made.__set_name__(record, name)

    return add


def test_the_written_files_are_those_of_the_tables():
    stale = [name for name, text in option_tables.files().items() if (ROOT / name).read_text(encoding="utf-8") != text]
    assert stale == [], "python -m tools.option_tables writes them"


def test_a_record_says_nothing_that_there_is_not():
    for record in OptionRecord.__subclasses__():
        for one in record.options():
            assert {*vars(one)} - {"part", "help", "default", "owner", "name"} <= {*vars(Option)}, one.name


def test_every_fact_has_a_reader():
    as_given = {"micro_batch", "new_tokens", "sequence_length"}  # need none
    as_given |= {"attention", "kernels", "packing", "activation_checkpointing"}
    assert readers.READERS.keys() | as_given == {fact.name for fact in Sources.options()}


def test_a_new_option_is_one_record(add):
    add(Options, "echo", "str | None", option("output", "repeat the report to NAME", metavar="NAME", variable=True))
    parser = command_line()
    options, left = parser.parse_known_args(["check", "a.json", "--echo", "there"])
    assert (options.echo, left) == ("there", [])
    assert Options.of(options, paths=options.paths).echo == "there"
    assert Options([]).echo is None
    assert runpy.run_path(environment.__file__)["VARIABLES"]["DS_LINT_ECHO"] == "--echo"
    check = next(one for one in commands(parser) if one.name == "check")
    assert "repeat the report to NAME" in [one.help for one in check.options if "--echo" in one.names]
    assert "`--echo NAME` {: #check--echo }\n:   Repeat the report to NAME." in page.options()


def test_a_new_fact_is_one_record_and_its_reader(add, monkeypatch):
    add(Sources, "rack_power", "str | None", option("facts", "power of a rack, such as 40kW", words="a power"))
    read = []
    monkeypatch.setitem(readers.READERS, "rack_power", lambda _facts, value, given_by: read.append((value, given_by)))
    parser = command_line()
    for command in ("check", "upgrade", "effective", "memory", "convert"):
        named = [one.names for one in next(one for one in commands(parser) if one.name == command).options]
        assert ("--rack-power",) in named
    options, _ = parser.parse_known_args(["check", "--rack-power=40kW"])
    readers.gather(Sources.of(options))
    readers.gather(configuration.options_of({"rackPower": " 40kW "}, ".").sources)
    keywords = {one.as_keyword: None for one in call.terms()} | {"rack_power": "40kW"}
    call.findings({}, **keywords)
    assert read == [("40kW", "--rack-power"), ("40kW", "the editor"), ("40kW", "ds_lint.check")]
    assert "rack-power" in {setting.name for setting in runpy.run_path(table.__file__)["SETTINGS"]}
    texts = option_tables.files()
    assert "    rack_power: str | None = None,\n" in texts["ds_lint/__init__.py"]
    manifest = json.loads(texts[option_tables.EXTENSION])
    about = manifest["contributes"]["configuration"]["properties"]["ds-lint.rackPower"]
    assert about["markdownDescription"] == "Power of a rack, such as 40kW."
    assert "rackPower" in texts["editors/vscode/src/smoke.ts"]
    for document in ("docs/vscode.md", "docs/language-server.md", "docs/python.md", "editors/vscode/README.md"):
        assert "ower of a rack, such as 40kW" in texts[document]
