"""The most resident memory of this rank while it trains: ``resident.py JOB``, a job as JSON."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import deepspeed
import torch
import transformers
from answering import answer

from ds_lint.smoke.standins import kernels, ops

TOKENS = 16  # of a batch, so few that activations are small


def resident(name: str) -> int:
    """Bytes of this process: VmRSS now, or VmHWM, the most since it began or was last asked to forget."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


ctypes.CDLL(None).mallopt(-3, 65536)  # M_MMAP_THRESHOLD: what is freed goes back to the system at once
job = json.loads(sys.argv[1])
torch.set_num_threads(1)
ops.install(builds=False)
kernels._adam = lambda *_arguments, **_named: (
    None
)  # the stand-ins compute with temporary tensors that the real kernels lack
deepspeed.init_distributed("gloo")
make = transformers.LlamaForCausalLM  # imports torch._dynamo, which raises within zero.Init
Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak of the imports
before = resident("VmRSS")
torch.set_default_dtype(torch.bfloat16)
if job["config"]["zero_optimization"]["stage"] == 3:
    with deepspeed.zero.Init(config_dict_or_path=job["config"]):
        model = make(transformers.LlamaConfig(**job["model"]))
else:
    model = make(transformers.LlamaConfig(**job["model"]))
torch.set_default_dtype(torch.float32)
engine = deepspeed.initialize(model=model, config=job["config"])[0]
words = torch.ones(1, TOKENS, dtype=torch.long)
for _ in range(2 * engine.gradient_accumulation_steps()):
    engine.backward(engine(input_ids=words, labels=words).loss)
    engine.step()
held = [[name, getattr(p, "ds_numel", p.numel())] for name, p in engine.module.named_parameters()]
answer(taken=resident("VmHWM") - before, tensors=held)
