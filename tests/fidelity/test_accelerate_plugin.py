"""A ``DeepSpeedPlugin`` of the script beside the settings of the launch, against what Accelerate makes of both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from installed import measured_with_the_newest

from ds_lint.facts import Facts
from ds_lint.facts.launched import LaunchFacts
from ds_lint.knowledge.keys import knowledge
from ds_lint.launches import files
from ds_lint.launches.flag_config import document_of_flags
from ds_lint.launches.training_script import read_training_script
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.source import yaml as yaml_source
from ds_lint.source.document import Document
from ds_lint.source.tree import plain

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

YAML = "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 3\n  gradient_clipping: 0.5\n"
VARIABLES = {  # which the launch makes of it
    "ACCELERATE_CONFIG_DS_FIELDS": "zero_stage,gradient_clipping", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3",
    "ACCELERATE_GRADIENT_CLIPPING": "0.5", "ACCELERATE_USE_DEEPSPEED": "true",
}  # fmt: skip
PROGRAM = """\
import json
from accelerate import DeepSpeedPlugin

try:
    print(json.dumps({**DeepSpeedPlugin(KEYWORDS).deepspeed_config, "steps_per_print": None}))
except ValueError as error:
    print(json.dumps(str(error)))
"""
SCRIPT = """\
from accelerate import Accelerator, DeepSpeedPlugin

accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(KEYWORDS))
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
"""


@pytest.mark.parametrize(
    "keywords",
    [
        "",
        "zero_stage=2",
        "zero_stage=None, gradient_accumulation_steps=4",
        'gradient_clipping=1.0, offload_optimizer_device="cpu"',
        "zero3_save_16bit_model=True",
        'hf_ds_config={"zero_optimization": {"stage": 2}}',
    ],
)
def test_keywords_come_before_the_file(keywords: str) -> None:
    """DS654, DS663: what the plugin makes of its keywords and the variables of the launch."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("KEYWORDS", keywords)],
        env={**os.environ, **VARIABLES},
        capture_output=True,
        text=True,
        check=True,
    )
    real = json.loads(done.stdout.splitlines()[-1])
    made = made_by_ds_lint(keywords)
    if isinstance(real, str):
        assert "zero_stage" in real
        assert made is None
        return
    del real["steps_per_print"]
    assert made is not None
    assert {name: value for name, value in made.items() if name not in ("fp16", "bf16")} == real


@pytest.mark.parametrize(
    "given",
    [
        {"DEEPSPEED_ZERO_STAGE": "3"},
        {"GRADIENT_CLIPPING": "0.5", "GRADIENT_ACCUMULATION_STEPS": "4"},
        {"DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE": "nvme", "DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH": "/nvme"},
        {"DEEPSPEED_ZERO3_SAVE_16BIT_MODEL": "true", "DEEPSPEED_OFFLOAD_PARAM_DEVICE": "cpu"},
    ],
)
def test_variables_make_a_config(given: dict[str, str]) -> None:
    """Without ``accelerate launch``, the plugin reads what the script that launches exports."""
    variables = {"ACCELERATE_USE_DEEPSPEED": "true", **{f"ACCELERATE_{name}": value for name, value in given.items()}}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("KEYWORDS", "")],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    real = json.loads(done.stdout.splitlines()[-1])
    del real["steps_per_print"]
    command = "".join(f"export {name}={value}\n" for name, value in variables.items()) + "torchrun train.py\n"
    (launch,) = files.launches(command, "run.sh", "shell", {"train.py": SCRIPT}.get).launches
    document = document_of_flags(launch, Document("run.sh", command, None, []), lambda _: None)
    accelerate = configs.from_document(document, Basis(knowledge())).accelerate
    assert accelerate is not None
    assert accelerate.made is not None
    made: Any = plain(accelerate.made.root)
    assert {name: value for name, value in made.items() if name not in ("fp16", "bf16")} == real


def made_by_ds_lint(keywords: str) -> Any:
    """The config that ds-lint says the plugin makes; None if it makes none."""
    text, command = SCRIPT.replace("KEYWORDS", keywords), "accelerate launch --config_file a.yaml train.py\n"
    (launch,) = files.launches(command, "run.sh", "shell", {"train.py": text}.get).launches
    facts = Facts()
    facts.launch = LaunchFacts(
        launch, Document("run.sh", command, None, []), read_training_script(text), Document("train.py", text, None, [])
    )
    (document,) = yaml_source.read(YAML, "a.yaml")
    accelerate = configs.from_document(document, Basis(knowledge(), None, facts)).accelerate
    return plain(accelerate.made.root) if accelerate is not None and accelerate.made is not None else None
