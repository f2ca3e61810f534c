"""The share of samples that a run resumed in its second epoch takes as the uninterrupted one does: 1 where all are.

Argument: the DeepSpeed config as JSON. The loader shuffles with Accelerate's seedable sampler. The resumed run skips
the batches that were taken, with `skip_first_batches` after `set_epoch`, as Accelerate's guide does.
"""

import json
import sys

import deepspeed
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, DeepSpeedPlugin, set_seed
from torch import nn

SAMPLES, TAKEN = 64, 3
deepspeed.init_distributed("gloo")
torch.cuda.set_device = lambda device: None  # releases before 0.27 select a GPU; nothing is put there
config = {
    "train_micro_batch_size_per_gpu": 4,
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    **json.loads(sys.argv[1]),
}
accelerator = Accelerator(
    deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config),
    dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),
)
model = nn.Linear(4, 4)
set_seed(0)
loader = torch.utils.data.DataLoader(torch.arange(SAMPLES), batch_size=4, shuffle=True)
_, _, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)


def samples(batches) -> list[int]:
    return [number for batch in batches for number in batch.tolist()]


samples(loader)
loader.set_epoch(1)
whole = samples(loader)[4 * TAKEN :]
loader.set_epoch(1)
resumed = samples(accelerator.skip_first_batches(loader, TAKEN))
assert len(resumed) == len(whole), (len(resumed), len(whole))
print(f"{sum(one == other for one, other in zip(resumed, whole, strict=True)) / len(whole):.3f}")
