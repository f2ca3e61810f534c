"""How a program gives its answer, and what every program does without: a compiler."""

from __future__ import annotations

import collections
import json
import os
import sys
from typing import Any, NoReturn

import deepspeed.ops
import torch

deepspeed.ops.__compatible_ops__ = collections.defaultdict(bool)  # or each rank compiles its shared memory


def answer(**facts: Any) -> NoReturn:
    """Print the answer once every rank has come this far, and end without Gloo's teardown, which may abort."""
    torch.distributed.barrier()
    print(json.dumps(facts))
    sys.stdout.flush()
    os._exit(0)
