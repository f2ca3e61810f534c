"""DS664 and DS665: the precision of ``Accelerator`` beside a DeepSpeed config, against what Accelerate does."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from installed import measured_with_the_newest

from ds_lint.facts import Facts
from ds_lint.facts.launched import LaunchFacts
from ds_lint.knowledge.keys import knowledge
from ds_lint.launches import files
from ds_lint.launches.training_script import read_training_script
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.source.document import Document
from ds_lint.source.documents import from_text

PROGRAM = Path(__file__).parent / "programs" / "accelerate_precision.py"
SCRIPT = """\
from accelerate import Accelerator

accelerator = Accelerator({})
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    accelerator.backward(model(batch))
"""
ENABLED = [None, True, False, "auto"]  # None: no section
CASES = [
    (word, {name: {"enabled": value} for name, value in (("fp16", fp16), ("bf16", bf16)) if value is not None})
    for word, fp16, bf16 in itertools.product([None, "no", "fp16", "bf16"], ENABLED, ENABLED)
    if not (fp16 is True and bf16 is True)
]

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]


def codes(word: str | None, sections: dict[str, Any], flag: str = "") -> set[str]:
    """The rules that fire for a script with this precision."""
    text = SCRIPT.format("" if word is None else f'mixed_precision="{word}"')
    command = f"accelerate launch --use_deepspeed --deepspeed_config_file ds.json --num_processes 1{flag} train.py\n"
    (launch,) = files.launches(command, "run.sh", "shell", {"train.py": text}.get).launches
    facts = Facts()
    facts.launch = LaunchFacts(
        launch, Document("run.sh", command, None, []), read_training_script(text), Document("train.py", text, None, [])
    )
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, **sections}
    report = lint(from_text(json.dumps(config), "ds.json"), Basis(knowledge(), "accelerate", facts))
    return {one.code for one in report.findings if one.code in ("DS664", "DS665")}


def test_the_precision_and_the_config() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], input=json.dumps(CASES), capture_output=True, text=True, check=True
    )
    for (word, sections), real in zip(CASES, json.loads(done.stdout.splitlines()[-1]), strict=True):
        said = codes(word, sections)
        flagged = codes(None, sections, f" --mixed_precision {word}") if word is not None else said
        assert said == flagged
        assert ("DS664" in said) == (real["error"] is not None), (word, sections, real)
        if real["error"] is None and word in ("fp16", "bf16"):
            assert ("DS665" in said) == (not real["fp16"] and not real["bf16"]), (word, sections, real)
        else:
            assert "DS665" not in said
