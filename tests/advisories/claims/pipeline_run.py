"""Prints `completes` after two batches of a pipeline, one stage on each rank, where nothing raised.

Arguments: the micro batches of a batch, and the word `evaluate` to evaluate one micro batch instead of training, from
an iterator that has no more than this one.
"""

import sys

import deepspeed
import torch
from deepspeed.pipe import PipelineModule
from torch import nn

MICRO_BATCHES, EVALUATE = int(sys.argv[1]), "evaluate" in sys.argv[2:]

deepspeed.init_distributed("gloo")
torch.manual_seed(0)
stages = torch.distributed.get_world_size()
layers = [nn.Linear(16, 16) for _ in range(2 * stages)]
model = PipelineModule(layers=layers, num_stages=stages, loss_fn=nn.MSELoss())
config = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": MICRO_BATCHES,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
if EVALUATE:
    engine.eval_batch(iter([(torch.randn(2, 16), torch.randn(2, 16))]), num_micro_batches=1)
else:
    for _ in range(2):
        engine.train_batch(iter([(torch.randn(2, 16), torch.randn(2, 16)) for _ in range(MICRO_BATCHES)]))
print("completes")
