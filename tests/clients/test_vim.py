"""Vim and ALE with the configuration that docs/editors.md shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from editor import PACKAGE, WRONG, Workplace, shown

pytestmark = pytest.mark.client

DRIVER = Path(__file__).with_name("vim.vim")


@pytest.fixture
def workplace(tmp_path):
    return Workplace(tmp_path)


@pytest.fixture
def vim(workplace, program):
    """Runs a scenario in Vim, and returns what it answered."""
    binary = program("vim.nox")

    def run(scenario):
        vimrc = workplace.home / "vimrc"
        vimrc.write_text(f"set nocompatible\nfiletype on\npackadd ale\n{shown('Vim', 'vim')[0]}", encoding="utf-8")
        script = workplace.home / "scenario.vim"
        lines = ("source " + str(DRIVER), "try", scenario, "catch", "call Fail()", "endtry", "call Finish()")
        script.write_text("\n".join(lines), encoding="utf-8")
        workplace.run(binary, "-N", "-u", str(vimrc), "-i", "NONE", "-n", "-es", "-S", str(script))
        return workplace.answers()

    return run


def test_findings_stand_where_the_keys_are(workplace, vim):
    workplace.write("ds_config.json", WRONG)
    found = vim("""
        edit ds_config.json
        call WaitFor('findings', {-> !empty(Findings())})
        let g:answers.findings = Findings()
    """)["findings"]
    lines = WRONG.split("\n")
    places = [lines[one["lnum"] - 1][one["col"] - 1 : one["end_col"]] for one in found]
    assert places == ['"gradient_cliping"', '"overlap_com"']
    assert {one["code"] for one in found} == {"DS101"}


def test_nothing_is_said_of_other_files(workplace, vim):
    workplace.write("package.json", PACKAGE)
    workplace.write("ds_config.json", WRONG)
    found = vim("""
        edit package.json
        split ds_config.json
        call WaitFor('findings', {-> !empty(Findings())})
        wincmd p
        let g:answers.name = bufname('')
        let g:answers.findings = Findings()
    """)
    assert found == {"name": "package.json", "findings": []}


def test_a_key_is_explained(workplace, vim):
    workplace.write("ds_config.json", WRONG)
    found = vim("""
        edit ds_config.json
        call WaitFor('findings', {-> !empty(Findings())})
        call cursor(4, 5)
        ALEHover
        call WaitFor('a window', {-> winnr('$') > 1})
        let g:answers.shown = getbufline(winbufnr(1), 1, '$')
    """)
    assert "zero_optimization" in found["shown"][0]
