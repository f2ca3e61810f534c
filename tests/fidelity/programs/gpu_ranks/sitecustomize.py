"""On PYTHONPATH of a pool: its ranks on GPUs say what they are, and CUDA begins if the environment asks for it."""

import os
import sys

if any(argument.endswith(("ds_lint.smoke.rank.pool", "ds_lint.smoke.rank.fresh")) for argument in sys.orig_argv):
    import deepspeed
    import torch

    import ds_lint.smoke.rank.run
    from ds_lint.smoke.records.job import Evidence

    def begin():
        if os.environ["CUDA_BEGINS"] == "no":
            raise RuntimeError("CUDA error: initialization error")

    def tell(job, number, say):
        found = Evidence(number)
        found.model = "fork" if any(argument.endswith("rank.pool") for argument in sys.orig_argv) else "fresh"
        found.layers = [f"{name}={os.environ.get(name)}" for name in ("CUDA_VISIBLE_DEVICES", "DS_ACCELERATOR")]
        return found

    torch.cuda.init = begin
    deepspeed.get_accelerator().available_memory = lambda: 0
    ds_lint.smoke.rank.run.work = tell
