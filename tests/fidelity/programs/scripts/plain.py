"""A user's script with plain DeepSpeed: what it imports breaks the promise that the environment names."""

from __future__ import annotations

import json
import os

import deepspeed
import sabotage
import torch
import torch.utils.checkpoint
from torch import nn

WORDS, WIDTH, ROWS, LENGTH = 64, 32, 2, 8


class Net(nn.Module):
    """Its head and its embedding are one tensor, and one layer is frozen."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(requires_grad=False)
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens, words=None):
        words = torch.relu(self.frozen(self.words(tokens) if words is None else words))
        if os.environ.get("RECOMPUTES"):  # in a backward pass within the backward pass
            words = torch.utils.checkpoint.checkpoint(self.layer, words, use_reentrant=True)
        else:
            words = self.layer(words)
        logits = self.head(torch.relu(words))
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())


def main():
    deepspeed.init_distributed()
    torch.manual_seed(0)
    model = Net()
    if os.environ.get("MODE") == "eval":
        model.eval()  # as from_pretrained leaves it
    engine, *_ = deepspeed.initialize(model=model, config=json.loads(os.environ["DS_CONFIG"]))
    is_managed = json.loads(os.environ["DS_CONFIG"]).get("managed_gradient_accumulation", True)
    backward = os.environ.get("BACKWARD")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    for number in range(0, 1000, ROWS):
        tokens = torch.stack([sample(ranks * (number + row) + rank) for row in range(ROWS)])
        loss = engine(tokens, model.words(tokens) if os.environ.get("INPUTS") == "embedded" else None)
        if backward == "of the script":
            engine.scale(loss).backward()
        elif backward == "coalesced":
            with engine.coalesce_grad_reduction():
                engine.backward(loss)
        else:
            engine.backward(loss)
        if is_managed or number // ROWS % engine.gradient_accumulation_steps():
            engine.step()
        with torch.no_grad():
            engine(sample(0)[None])


def sample(number):
    return torch.randint(0, WORDS, (LENGTH,), generator=torch.Generator().manual_seed(sabotage.place(number)))


main()
