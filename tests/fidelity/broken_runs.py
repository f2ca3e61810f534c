"""Training runs whose ranks break a promise: what `programs/mutating` does with the engine, the data or the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT

MUTATING = os.path.join(ROOT, "tests", "fidelity", "programs", "mutating")


@contextmanager
def breaking(folder: Path) -> Iterator[Callable[[str], Any]]:
    """A warm process of its own: called with the name of a mutation, it is the pool whose next runs have it.

    The variables that make it so are those of its start alone: the other pool of a session has none of them.
    """
    for library in ("torch", "deepspeed", "transformers", "accelerate"):
        pytest.importorskip(library)
    from ds_lint.smoke.processes.client import Pool

    name_file = folder / "mutation"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([MUTATING, ROOT, os.environ.get("PYTHONPATH", "")]))
        patch.setenv("MUTATION", str(name_file))
        pool = Pool()
        assert pool.versions  # it has been started
    with pool:

        def broken_by(name: str) -> Pool:
            name_file.write_text(name)
            return pool

        yield broken_by
