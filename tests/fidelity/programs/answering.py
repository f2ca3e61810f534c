"""How a program gives its answer."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

import torch


def answer(**facts: Any) -> NoReturn:
    """Print the answer once every rank has come this far, and end without Gloo's teardown, which may abort."""
    torch.distributed.barrier()
    print(json.dumps(facts))
    sys.stdout.flush()
    os._exit(0)
