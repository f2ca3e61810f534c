"""How runs of rejected configs end, held to ``schemas/exceptions.json``: what raised has to lead to the rule.

    DS_LINT_EXCEPTIONS=FILE python -m pytest tests/fidelity/test_rule_pages_truth.py

appends a line for each ending to a file, from which ``python -m tools.exceptions --runs FILE`` makes records.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from installed import INSTALLED

from ds_lint.knowledge.exceptions import every, explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oracle import Ending, Verdict

    from ds_lint.diagnostics.finding import Finding

FILE = "DS_LINT_EXCEPTIONS"
MEASURED = {release for record in every() for release in record.releases}
of_a_measured_release = pytest.mark.skipif(
    INSTALLED.deepspeed not in MEASURED and FILE not in os.environ,
    reason=f"schemas/exceptions.json has no runs with DeepSpeed {INSTALLED.deepspeed}",
)
_WORDS = re.compile(r"\w+(?:[./-]\w+)*")


def unexplained(causes: Sequence[Finding], ending: Ending, text: Any) -> str | None:
    """What ended a run, if none of the rules that claim it follows from that; ``text`` is the config."""
    note(causes, ending, text)
    raises, message, frames = ending
    found = explained(raises, message, frames, releases={"deepspeed": INSTALLED.deepspeed or ""})
    codes, known = ({one.code for one in causes}, {code for record in found for code in record.rules})
    return None if codes & known else f"{sorted(codes)} are not among {sorted(known)} of {raises}: {message} {frames}"


def note(causes: Sequence[Finding], ending: Ending | None, text: Any) -> None:
    """Append the ending of a rejected run to the file that the environment names."""
    if (path := os.environ.get(FILE)) and ending is not None and ending.frames and causes:
        words = {part for word in _WORDS.findall(_plain(text)) for part in (word, *re.split(r"\W+", word))}
        line = {
            **ending._asdict(),
            "rules": sorted({one.code for one in causes}),
            "keys": sorted({one.key for one in causes if one.key}),
            "words": sorted(words),
            "release": INSTALLED.deepspeed,
        }
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")


def causes(findings: Sequence[Finding], verdict: Verdict) -> list[Finding]:
    """The findings that claim the rejection, at the stage at which it came."""
    return [one for one in findings if one.effect == "rejected" and one.stage == verdict.rejected_at]


def _plain(text: Any) -> str:
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return text if isinstance(text, str) else json.dumps(text, default=str)
