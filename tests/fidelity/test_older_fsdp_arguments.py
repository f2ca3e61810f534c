"""What ds-lint says of ``fsdp`` and ``fsdp_config``, against TrainingArguments of an older transformers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("accelerate")

from installed import measured_with_the_newest
from test_fsdp_arguments import random_arguments, real_outcomes, said

from ds_lint.knowledge.keys import Target, knowledge

PROGRAM = Path(__file__).parent / "programs" / "older_fsdp_arguments.py"
RELEASE = "4.57.6"
PACKAGES = (f"transformers=={RELEASE}", "huggingface_hub==0.36.0", "tokenizers==0.22.1")
AGREE = 0.99

pytestmark = [pytest.mark.fidelity, pytest.mark.long, measured_with_the_newest]


@pytest.fixture
def packages(tmp_path: Path) -> str:
    """The folder of the release and of what it needs."""
    target = str(tmp_path / "packages")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, *PACKAGES], check=True
    )
    return target


def test_many_random_arguments(tmp_path: Path, packages: str) -> None:
    """Without ``fsdp: False``, over which this release raises whatever else there is."""
    cases = [case for case in random_arguments(600, seed=3) if case["fsdp"] is not False]
    starts, reads = [], []
    for case, real in zip(cases, real_outcomes(cases, tmp_path, PROGRAM, PYTHONPATH=packages), strict=True):
        refused, unread = said(case, knowledge(Target(transformers=RELEASE)))
        if bool(refused) != bool(real["error"]):
            starts.append(f"{case}: {real['error']} against {refused}")
        elif not refused and unread != real["unread"]:
            reads.append(f"{case}: {real['unread']} are not read, against {unread}")
    shown = "\n".join([f"of {len(cases)}", *starts, *reads])
    assert len(starts) <= (1 - AGREE) * len(cases), shown
    assert len(reads) <= (1 - AGREE) * len(cases), shown
