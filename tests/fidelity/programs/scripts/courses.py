"""Scripts that change the model by themselves while they train, as the environment names."""

from __future__ import annotations

import copy
import json
import os

import deepspeed
import torch
from deepspeed.utils import safe_get_full_grad, safe_set_full_grad
from torch import nn

COURSE = os.environ["COURSE"]
WIDTH, ROWS = 16, 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WIDTH)
        self.temperature = 1.0
        if COURSE == "a teacher follows":
            self.teacher = copy.deepcopy(self.body).requires_grad_(requires_grad=False)

    def forward(self, values):
        if COURSE == "a teacher follows" and self.training:
            with torch.no_grad():
                for old, new in zip(self.teacher.parameters(), self.body.parameters(), strict=True):
                    old.mul_(0.9).add_(new, alpha=0.1)
        return self.head(torch.relu(self.body(values))) / self.temperature


def main():
    deepspeed.init_distributed()
    torch.manual_seed(0)
    model = Net()
    if COURSE == "thaws":
        model.body.requires_grad_(requires_grad=False)
    parameters = [one for one in model.parameters() if one.requires_grad]
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=parameters, config=json.loads(os.environ["DS_CONFIG"])
    )
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    for number in range(100):
        before_step(model, number)
        generator = torch.Generator().manual_seed(ranks * number + rank)
        values = torch.randn(ROWS, WIDTH, generator=generator).to(next(model.parameters()).dtype)
        outputs = engine(values).float()
        loss = nn.functional.mse_loss(outputs, values.float())
        if COURSE == "two backward passes of one output":
            engine.backward(loss, retain_graph=True)
            engine.backward(outputs.abs().mean())
        else:
            engine.backward(loss)
        if COURSE == "clips by itself":
            torch.nn.utils.clip_grad_norm_(engine.module.parameters(), 0.01)
        if COURSE == "halves gradients":
            for one in model.parameters():
                safe_set_full_grad(one, safe_get_full_grad(one) / 2)
        engine.step()
        if COURSE == "clamps":
            with torch.no_grad():
                for one in model.parameters():
                    one.clamp_(-0.05, 0.05)


def before_step(model, number):
    if COURSE == "freezes":
        model.body.requires_grad_(requires_grad=number < 3)
    if COURSE == "anneals":
        model.temperature = max(0.5, 1 - 0.1 * number)


main()
