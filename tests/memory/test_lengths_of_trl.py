"""The length at which a trainer of trl cuts samples off if its arguments leave that out, by the release of trl."""

from __future__ import annotations

import pytest
from launched_script import facts_of_script
from linted import config_of_dict

from ds_lint.facts.parameter_count import stand_in
from ds_lint.footprint import setup
from ds_lint.targets.pin import Pin

SCRIPT = """\
from trl import CLASSConfig, CLASSTrainer
arguments = CLASSConfig("out", deepspeed="ds.json", bf16=True, GIVEN)
CLASSTrainer("Qwen/Qwen2.5-7B", arguments, train_dataset=rows()).train()
"""


def length_of(release, given="", kind="SFT"):
    text = SCRIPT.replace("CLASS", kind).replace("GIVEN", given)
    facts = facts_of_script(text)
    facts.model = stand_in(1_000_000_000)
    pins = {"trl": Pin("trl", f"=={release}", "requirements.txt:1")}
    return setup.of(config_of_dict({}, stack="trainer", facts=facts, pins=pins)).sequence_length


@pytest.mark.parametrize(
    ("release", "kind", "length"),
    [("0.9.6", "SFT", None), ("0.15.2", "SFT", 1024), ("0.24.0", "SFT", 1024), ("0.24.0", "DPO", 1024)],
)
def test_the_default_is_that_of_the_release(release, kind, length):
    assert length_of(release, kind=kind) == length


def test_what_the_script_gives_counts():
    assert length_of("0.24.0", "max_length=64") == 64
    assert length_of("0.24.0", "max_length=None") is None
    assert length_of("0.24.0", "max_length=pick()") is None
