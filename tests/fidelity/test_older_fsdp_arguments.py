"""What ds-lint says of ``fsdp`` and ``fsdp_config``, against TrainingArguments of an older transformers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("accelerate")

from installed import measured_with_the_newest
from test_fsdp_arguments import random_arguments

from ds_lint.facts import Facts
from ds_lint.facts.training import arguments_of
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.semantics.fsdp_arguments import fsdp_arguments
from ds_lint.source import yaml as yaml_source

PROGRAM = Path(__file__).parent / "programs" / "older_fsdp_arguments.py"
RELEASE = "4.57.6"
PACKAGES = (f"transformers=={RELEASE}", "huggingface_hub==0.36.0", "tokenizers==0.22.1")
AGREE = 0.99

pytestmark = [pytest.mark.fidelity, pytest.mark.long, measured_with_the_newest]


def real_outcomes(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    target = str(folder / "packages")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, *PACKAGES], check=True
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ACCELERATE_", "FSDP_"))}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        input=json.dumps(cases),
        env={**environment, "PYTHONPATH": target, "CUDA_VISIBLE_DEVICES": ""},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("\0")]
    assert len(answers) == len(cases), done.stderr[-2000:]
    return answers


def said(case: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Why the arguments are rejected, and the keys that nothing reads."""
    facts = Facts()
    facts.training = arguments_of(case)
    (document,) = yaml_source.read("distributed_type: FSDP\nnum_processes: 2\n", "accelerate.yaml")
    basis = Basis(knowledge(Target(transformers=RELEASE)), None, facts)
    arguments = fsdp_arguments(configs.from_document(document, basis))
    assert arguments is not None
    if not arguments.argument.value:
        return [], list(case["fsdp_config"])
    unread = {name for name, _, _ in arguments.unread()}
    return [what for _, what, _ in arguments.refusals()], [name for name in case["fsdp_config"] if name in unread]


def test_many_random_arguments(tmp_path: Path) -> None:
    """Without ``fsdp: False``, over which this release raises whatever else there is."""
    cases = [case for case in random_arguments(600, seed=3) if case["fsdp"] is not False]
    starts, reads = [], []
    for case, real in zip(cases, real_outcomes(cases, tmp_path), strict=True):
        refused, unread = said(case)
        if bool(refused) != bool(real["error"]):
            starts.append(f"{case}: {real['error']} against {refused}")
        elif not refused and unread != real["unread"]:
            reads.append(f"{case}: {real['unread']} are not read, against {unread}")
    shown = "\n".join([f"of {len(cases)}", *starts, *reads])
    assert len(starts) <= (1 - AGREE) * len(cases), shown
    assert len(reads) <= (1 - AGREE) * len(cases), shown
