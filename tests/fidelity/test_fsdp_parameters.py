"""DS669: which parameters FSDP joins to one tensor, with one rank on a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.fidelity

PROGRAM = Path(__file__).parent / "programs" / "fsdp_parameters.py"


@pytest.fixture(scope="module")
def outcomes() -> Any:
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=False, timeout=200)
    assert "\0" in done.stdout, done.stderr[-2000:]
    return json.loads(done.stdout.partition("\0")[2])


@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("bytes, FSDP 1", "ValueError"),
        ("bytes, FSDP 2", None),
        ("bf16, FSDP 1", None),
        ("frozen, without the original parameters", "ValueError"),
        ("frozen, with the original parameters", None),
    ],
)
def test_parameters_that_are_joined(outcomes: Any, name: str, raised: str | None) -> None:
    """DS669: FSDP 1 raises over integers, and over frozen parameters unless the original ones are kept."""
    assert outcomes[name] == raised
