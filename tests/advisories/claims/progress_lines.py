"""How many lines on the progress four steps print with `steps_per_print` 1: one more, before the first, is right.

Argument: further keys of the config as JSON. The level of DeepSpeed's logger is the one that it has after the import.
"""

import contextlib
import importlib
import io
import json
import logging
import sys

captured = io.StringIO()
# What ran before may have silenced loggers; DeepSpeed takes its stream and its level when its module is executed.
logging.disable(logging.NOTSET)
with contextlib.redirect_stdout(captured):
    import deepspeed
    import deepspeed.utils.logging
    import torch
    from torch import nn

    fresh = importlib.reload(deepspeed.utils.logging)
    logging.getLogger("DeepSpeed").handlers[:] = fresh.logger.handlers[-1:]
    torch.manual_seed(0)
    model = nn.Linear(16, 16)
    deepspeed.init_distributed("gloo")
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "steps_per_print": 1,
            "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
            **json.loads(sys.argv[1]),
        },
    )
    for _ in range(4):
        engine.backward(engine(torch.randn(1, 16)).pow(2).mean())
        engine.step()
print(f"{sum('skipped=' in line for line in captured.getvalue().splitlines()):.3f}")
