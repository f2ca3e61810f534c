"""What each release of DeepSpeed reads from a config, found by running its source on a config that nobody wrote.

Read ``values`` first (what stands for the user's config while there is none), then ``interpreter`` (how the source is
run on it), ``records`` (what is written down meanwhile), ``entry_points`` (where it starts) and ``facts`` (what the
records mean). ``models`` and ``signatures`` read what is declared rather than run: pydantic's fields, and constructors
that get a section as keyword arguments. ``store`` keeps the facts of all releases in one file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.extract.deepspeed import entry_points, facts, libraries
from tools.extract.deepspeed.changes import changes
from tools.extract.deepspeed.interpreter import Analysis
from tools.extract.deepspeed.store import LIBRARY, at, merged

if TYPE_CHECKING:
    from tools.extract.deepspeed.facts import Facts

__all__ = ["LIBRARY", "STORE", "at", "changes", "extract", "merged"]

STORE = Path(__file__).parent.parent.parent.parent / "schemas" / "deepspeed.json"
_PYTHON_FRAMES = 20_000  # a frame of DeepSpeed's takes a dozen of ours


def extract(tree: Path) -> Facts:
    """The facts of the release whose package lies in the folder."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _PYTHON_FRAMES))
    try:
        analysis = Analysis(tree)
        entry_points.run(analysis)
    finally:
        sys.setrecursionlimit(before)
    pydantic = libraries.pydantic(analysis)
    return {
        "reader": libraries.reader(analysis),
        **({"pydantic": pydantic} if pydantic else {}),
        "root": facts.root(analysis.records),
        "constructors": facts.constructors(analysis.records),
    }
