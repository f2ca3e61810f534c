"""What the real libraries do where a rule of ds-lint says that they do it: one function for each way to look.

The functions run in a fork with the libraries (`tools.gpu.forks`), and return what they have seen, as JSON: tensors,
dtypes, exceptions, files, times. Nothing of ds-lint decides what they see. What is claimed, and whether it is so,
is in ``parts/claims.py``.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from tools.gpu.setting import Unanswered

if TYPE_CHECKING:
    from tools.gpu.setting import Result

OBSERVE = f"{__name__}:observe"


def observe(function: str, device: str, folder: str, runs: dict[str, Result]) -> Result:
    """What ``module:function`` of this package sees, once for each of the runs; or the question that it cannot answer.

    Several runs of one process share what it has imported and built, so that a comparison costs little.
    """
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)  # some configs name a folder for NVMe
    module, _, name = function.partition(":")
    look = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    try:
        return {"observed": {which: look(device=device, **arguments) for which, arguments in runs.items()}}
    except Unanswered as question:
        return {"question": str(question)}
