"""Broken texts: ds-lint says which of the two readers refuses them, json for the Trainer and hjson for DeepSpeed."""

from __future__ import annotations

import io
import json
import random

import pytest
from linted import lint_bytes

pytest.importorskip("deepspeed")


import hjson
from deepspeed.runtime.config_utils import dict_raise_error_on_duplicate_keys
from generate import BASES
from installed import INSTALLED

pytestmark = pytest.mark.fidelity

LETTERS = ",}{[]\"':#/ \nTrueNone01-."
READERS = {
    "deepspeed": lambda text: hjson.load(io.StringIO(text), object_pairs_hook=dict_raise_error_on_duplicate_keys),
    "trainer": json.loads,
}


def texts(count: int) -> list[str]:
    chance = random.Random(5)
    made = []
    for _ in range(count):
        text = json.dumps(chance.choice(BASES), indent=2)
        for _ in range(chance.choice((1, 1, 2, 3))):
            at = chance.randrange(max(1, len(text)))
            text = chance.choice(
                (text[:at] + text[at + 1 :], text[:at] + chance.choice(LETTERS) + text[at:], text[: at + 1])
            )
        made.append(text)
    return made


def is_read(stack: str, text: str) -> bool:
    try:
        READERS[stack](text)
    except Exception:  # whatever it raises, the run is over
        return False
    return True


@pytest.mark.parametrize("stack", READERS)
def test_broken_texts(stack):
    """DS006 and the other rules about syntax."""
    wrong = []
    for text in texts(3000):
        findings = lint_bytes(text.encode(), "x", target=INSTALLED, stack=stack).findings
        if any(finding.name == "template" for finding in findings):
            continue  # T2 for 2 may be a placeholder: such a file is linted as it will be once filled in
        if is_read(stack, text) == any(finding.stage == "load" for finding in findings):
            wrong.append(text)
    assert wrong == []
