"""What the Trainer raises for the examples of the rule pages leads to their rules: ``schemas/exceptions.json``.

``test_rule_pages_truth.py`` does the same for what DeepSpeed raises, with the runs that it makes anyway.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deepspeed")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import endings
from installed import INSTALLED
from oracle import ending_of
from trainer import prepare
from transformers import HfArgumentParser, TrainingArguments

from ds_lint.diagnostics.finding import STAGES
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import pages
from tools.rule_pages import lint_example

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.rule_pages.pages import Example

pytestmark = [pytest.mark.fidelity, endings.of_a_measured_release]

MISMATCH = "config values that mismatch TrainingArguments values"


def collect() -> dict[str, Example]:
    """The examples for the Trainer alone, without a script, in which ds-lint claims that it raises before it trains."""
    found = {}
    for rule in every_rule():
        if not Path(pages.path(rule)).exists() or rule.kind in ("accelerate", "call", "recipe"):
            continue
        for example in pages.examples(pages.page(rule)):
            is_config = example.language not in ("bash", "python", "yaml") and not example.files
            if example.stack in (None, "trainer") and is_config and not any(example.target.key) and not example.is_run:
                example.target = INSTALLED
                if example.before is None and causes(example):
                    found[f"{rule.code}:{example.line}"] = example
    return found


def causes(example: Example) -> list[Finding]:
    """The findings that claim the rejection; where the stack is open, for a file that cannot be loaded."""
    stages = ("load",) if example.stack is None else STAGES[:-1]
    return [
        one
        for one in lint_example(example).findings
        if (one.effects or {"trainer": one.effect})["trainer"] == "rejected" and one.stage in stages
    ]


EXAMPLES = collect()


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_raised_leads_to_the_rule(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = EXAMPLES[name]
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "ds_config.json"
    config.write_bytes(example.data)
    try:
        prepare(str(config), {"per_device_train_batch_size": 1, **fields_of(example)}, world_size=ranks_of(example))
    except Exception as error:  # what a library raises here is what is asked
        ending = ending_of(error)
    else:
        pytest.skip("what raises comes later")
    if not ending.frames:
        pytest.skip("it is not a library that raises")
    if MISMATCH in ending.message and not {"DS610", "DS621"} & {one.code for one in causes(example)}:
        pytest.skip("the example leaves the training arguments open")
    assert endings.unexplained(causes(example), ending, example.data) is None


def ranks_of(example: Example) -> int:
    return example.facts.world_size or 1


def fields_of(example: Example) -> dict[str, Any]:
    """The training arguments that the flags of an example set."""
    flags = example.facts.trainer_args
    if not isinstance(flags, str):
        return {}
    words = shlex.split(flags)
    parser = HfArgumentParser(TrainingArguments)  # type: ignore[arg-type, unused-ignore]
    try:
        given, _ = parser.parse_known_args(["--output_dir", "out", *words])
    except SystemExit:
        pytest.skip("the command line is refused")
    names = {word.partition("=")[0].lstrip("-").replace("-", "_") for word in words if word.startswith("--")}
    return {name: getattr(given, name) for name in names if hasattr(given, name)}
