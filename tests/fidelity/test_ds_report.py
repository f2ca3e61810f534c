"""What a bug report says of DeepSpeed's ops, and what ``ds_report`` of the installed DeepSpeed prints."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from ds_lint.facts.machine.machine import machine

COLOURS = re.compile(r"\x1b\[\d*m")
REPORT = "from deepspeed.env_report import cli_main; import sys; sys.argv = ['ds_report']; cli_main()"


@pytest.mark.fidelity
def test_the_ops_are_those_of_ds_report():
    pytest.importorskip("deepspeed")
    done = subprocess.run([sys.executable, "-c", REPORT], capture_output=True, text=True, check=True)
    rows = re.findall(r"^(\w+) \.*\s*\[(YES|NO)\] \.+ \[(OKAY|NO)\]", COLOURS.sub("", done.stdout), re.MULTILINE)
    theirs = {name: (installed == "YES", compatible == "OKAY") for name, installed, compatible in rows}
    assert len(theirs) > 5
    ours = {op.name: op for op in machine(".").ops.ops}
    assert ours.keys() == theirs.keys()
    for name, (installed, compatible) in theirs.items():
        assert ours[name].is_installed is installed
        assert ours[name].is_compatible in (compatible, None), ours[name].why
