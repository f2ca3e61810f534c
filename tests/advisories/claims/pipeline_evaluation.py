"""The loss that `eval_batch` of a pipeline returns over the true mean: 1 where it is the mean of the samples asked for.

Arguments: the micro steps of training (`gradient_accumulation_steps`) and `num_micro_batches` of the evaluation.
One stage on one rank; every micro batch has the same samples, so that any mean of them is the same.
"""

import sys

import deepspeed
import torch
from deepspeed.pipe import PipelineModule
from torch import nn

TRAINED, EVALUATED = int(sys.argv[1]), int(sys.argv[2])

torch.manual_seed(0)
deepspeed.init_distributed("gloo")
layer = nn.Linear(8, 4, bias=False)
sample, target = torch.randn(2, 8), torch.randn(2, 4)
true = float(nn.functional.mse_loss(layer(sample), target))
model = PipelineModule(layers=[layer], num_stages=1, loss_fn=nn.functional.mse_loss)
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=list(model.parameters()),
    config={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": TRAINED,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    },
)
loss = engine.eval_batch(iter([(sample, target)] * max(TRAINED, EVALUATED)), num_micro_batches=EVALUATED)
print(f"{float(loss) / true:.3f}")
