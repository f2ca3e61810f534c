"""What each release of DeepSpeed reads from a config, found by running its source on a symbolic config.

A user's config is a symbolic value (``values``). The source is run on it: ``statements``, ``expressions`` and ``calls``
follow it through the package, ``sections`` is what is read from it, all within one ``analysis`` that starts at the
``entry_points``. ``models`` and ``signatures`` read what is declared rather than run: pydantic's fields, and
constructors that get a section as keyword arguments. ``records`` takes all of it down, ``facts`` says what it means,
and ``store`` keeps the facts of all releases in one file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tools.extract.deepspeed import calls, entry_points, expressions, facts, libraries, statements
from tools.extract.deepspeed.analysis import Analysis, Interpreter
from tools.extract.deepspeed.changes import changes
from tools.extract.deepspeed.store import LIBRARY, at, merged

if TYPE_CHECKING:
    from tools.extract.deepspeed.facts import Facts

__all__ = ["LIBRARY", "STORE", "at", "changes", "extract", "merged"]

STORE = Path(__file__).parent.parent.parent.parent / "schemas" / "deepspeed.json"


def extract(tree: Path) -> Facts:
    """The facts of the release whose package lies in the folder."""
    analysis = Analysis(tree, Interpreter(expressions.evaluate, statements.run, calls.call))
    entry_points.run(analysis)
    pydantic = libraries.pydantic(analysis)
    return {
        "reader": libraries.reader(analysis),
        **({"pydantic": pydantic} if pydantic else {}),
        "root": facts.root(analysis.records),
        "constructors": facts.constructors(analysis.records),
    }
