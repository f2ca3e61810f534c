"""One plus the distance of gradients under TiledMLP from those of the same layers untiled: 1 if they are equal.

Arguments: the batch size, the length of the sequences and the number of tiles.
"""

import copy
import sys

import deepspeed
import torch
from deepspeed.runtime.sequence_parallel.ulysses_sp import TiledMLP
from torch import nn

BATCH, LENGTH, TILES = (int(argument) for argument in sys.argv[1:4])
WIDTH = 4


def forward(layers: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return layers[1](torch.tanh(layers[0](inputs)))


torch.manual_seed(0)
deepspeed.init_distributed("gloo")
layers = nn.Sequential(nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH))
reference = copy.deepcopy(layers)
inputs = torch.randn(BATCH, LENGTH, WIDTH)
tiled, plain = inputs.clone().requires_grad_(), inputs.clone().requires_grad_()
scale = torch.randn_like(inputs)
(TiledMLP.apply(forward, layers, tiled * 1, TILES, list(layers.parameters())) * scale).sum().backward()
(forward(reference, plain) * scale).sum().backward()
pairs = [(tiled.grad, plain.grad)]
pairs += [(one.grad, two.grad) for one, two in zip(layers.parameters(), reference.parameters(), strict=True)]
print(f"{1 + max(float((one - two).norm() / two.norm()) for one, two in pairs):.3f}")
