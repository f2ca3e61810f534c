"""The same with the layers of a model on two ranks, as a pipeline."""

from __future__ import annotations

import json
import os

import deepspeed
import sabotage
import torch
from deepspeed.pipe import LayerSpec, PipelineModule
from torch import nn

WIDTH = 16


def main():
    deepspeed.init_distributed()
    torch.manual_seed(0)
    layers = [LayerSpec(nn.Linear, WIDTH, WIDTH) for _ in range(4)]
    model = PipelineModule(layers, num_stages=2, loss_fn=nn.functional.mse_loss)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=list(model.parameters()), config=json.loads(os.environ["DS_CONFIG"])
    )
    batches = (sample(number) for number in range(1000))
    for _ in range(100):
        engine.train_batch(batches)


def sample(number):
    generator = torch.Generator().manual_seed(sabotage.place(number))
    return tuple(torch.randn(2, WIDTH, generator=generator).bfloat16() for _ in range(2))


main()
