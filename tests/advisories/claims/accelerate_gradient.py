"""The length of the first update of a loop with Accelerate and DeepSpeed over that of the true gradient step: 1 if
whole.

Arguments: the micro steps the loop accumulates; the DeepSpeed config as JSON; what is given to `Accelerator` as JSON.
The loop is the one of Accelerate's guide: `accumulate`, `backward`, `step`. The samples of all ranks are of this
script, the true gradient is that of the mean over all of them, in fp32 of plain torch.
"""

import json
import os
import sys

import deepspeed
import torch
from accelerate import Accelerator
from accelerate.utils import DeepSpeedPlugin
from torch import nn

MICRO_STEPS, WRITTEN = int(sys.argv[1]), json.loads(sys.argv[2])
GIVEN = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
RATE = 0.05
RANKS, RANK = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])

config = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": 0.0,
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    **WRITTEN,
}
deepspeed.init_distributed("gloo")
torch.cuda.set_device = lambda device: None  # releases before 0.27 select a GPU; nothing is put there
accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config), **GIVEN)
assert accelerator.distributed_type == "DEEPSPEED", accelerator.distributed_type
torch.manual_seed(0)
model = nn.Linear(16, 4)
samples = torch.randn(MICRO_STEPS, RANKS, 2, 16)


def flat(module: nn.Module) -> torch.Tensor:
    return torch.cat([one.detach().float().cpu().flatten() for one in module.parameters()])


before = flat(model)
reference = nn.Linear(16, 4)
reference.load_state_dict(model.state_dict())
reference(samples.flatten(0, 2)).pow(2).mean().backward()
true = torch.cat([one.grad.flatten() * RATE for one in reference.parameters()])

engine, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=RATE))
for micro_step in range(MICRO_STEPS):
    with accelerator.accumulate(engine):
        accelerator.backward(engine(samples[micro_step, RANK]).pow(2).mean())
        optimizer.step()
        optimizer.zero_grad()
applied = before - flat(accelerator.unwrap_model(engine))
if RANK == 0:
    print(f"{float(applied @ true / (true @ true)):.3f}")
