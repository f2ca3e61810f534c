"""The learning rate after three updates of a loop with Accelerate, DeepSpeed and a scheduler of torch.

Arguments: the micro steps of an update; the DeepSpeed config as JSON. The scheduler multiplies the rate of 1 by 0.9 at
each of its steps; Accelerate's rule is one step a rank and update (`split_batches` is off): 0.9 ** (3 * ranks).
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
config = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": MICRO_STEPS,
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    **WRITTEN,
}
deepspeed.init_distributed("gloo")
torch.cuda.set_device = lambda device: None  # releases before 0.27 select a GPU; nothing is put there
accelerator = Accelerator(
    deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config, gradient_accumulation_steps=MICRO_STEPS),
    gradient_accumulation_steps=MICRO_STEPS,
)
assert accelerator.distributed_type == "DEEPSPEED", accelerator.distributed_type
torch.manual_seed(0)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
engine, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
for _ in range(3 * MICRO_STEPS):
    with accelerator.accumulate(engine):
        accelerator.backward(engine(torch.randn(2, 16)).pow(2).mean())
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
if int(os.environ["RANK"]) == 0:
    print(f"{optimizer.param_groups[0]['lr']:.3f}")
