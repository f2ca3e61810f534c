"""What torch was built with, by the file that its build writes (``torch/version.py``)."""

from __future__ import annotations

import os
from typing import NamedTuple

from ds_lint.facts.machine.assignments import assignments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class TorchBuild(NamedTuple):
    """The release of torch, and the CUDA or ROCm that it was built with; None without."""

    release: str
    cuda: str | None
    rocm: str | None


def torch_build(paths: Sequence[str]) -> TorchBuild | None:
    """What the torch on an import path was built with; None if there is none, or its file is not as expected."""
    for path in paths:
        found = assignments(os.path.join(path, "torch", "version.py"))
        release = found.get("__version__")
        if isinstance(release, str):
            cuda, rocm = found.get("cuda"), found.get("hip")
            return TorchBuild(release, cuda if isinstance(cuda, str) else None, rocm if isinstance(rocm, str) else None)
    return None
