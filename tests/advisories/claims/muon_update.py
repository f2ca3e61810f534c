"""The length of Muon's update along the true one over the length of the true one: 1 where it is Muon's update.

Arguments: the micro steps of an optimizer step, the config as JSON, and `compiled` to let DeepSpeed compile the
update, which else it does not here (a compilation takes a minute), and to make both matrices tall. The matrix and the
step (of three) that are farthest from 1 count; rounded to hundredths, since the iteration may run in 16 bit. The
reference is Muon in fp64: momentum 0.95 with Nesterov, five Newton-Schulz steps and the factor of tall matrices, on the
mean gradient of all micro steps of all ranks, whose samples every rank draws for itself. The CPU is told to take fp16,
which torch computes there although DeepSpeed's accelerator may say no.
"""

import copy
import json
import os
import sys

import deepspeed
import torch
import torch._dynamo
from deepspeed.accelerator import get_accelerator
from torch import nn

MICRO_STEPS, WRITTEN = int(sys.argv[1]), json.loads(sys.argv[2])
torch._dynamo.config.disable = "compiled" not in sys.argv[3:]
RATE, MOMENTUM = 0.5, 0.95
OUTPUTS = 80 if "compiled" in sys.argv[3:] else 8
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Five quintic Newton-Schulz steps, on the side that is shorter."""
    is_tall = matrix.size(0) > matrix.size(1)
    result = (matrix.T if is_tall else matrix) / (matrix.norm() + 1e-7)
    for _ in range(5):
        gram = result @ result.T
        result = 3.4445 * result + (-4.7750 * gram + 2.0315 * gram @ gram) @ result
    return result.T * (matrix.size(0) / matrix.size(1)) ** 0.5 if is_tall else result


def samples(step: int, micro_step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of a micro step, so far apart that the gradients of two ranks have little in common."""
    generator = torch.Generator().manual_seed(1000 * step + 10 * micro_step + rank)
    return torch.randn(4, 12, generator=generator), 3 * torch.randn(4, OUTPUTS, generator=generator)


if WRITTEN.get("fp16", {}).get("enabled"):
    type(get_accelerator()).is_fp16_supported = lambda self: True
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 32, bias=False), nn.Tanh(), nn.Linear(32, OUTPUTS, bias=False))
reference = copy.deepcopy(model).double()
momenta = [torch.zeros_like(one) for one in reference.parameters()]
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": MICRO_STEPS,
        "gradient_clipping": 0.0,  # 1.0 is the default of newer releases
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "optimizer": {"type": "Muon", "params": {"lr": RATE, "momentum": MOMENTUM}},
        **WRITTEN,
    },
)


def weights() -> list[torch.Tensor]:
    parameters = list(engine.module.parameters())
    if WRITTEN.get("zero_optimization", {}).get("stage") == 3:
        with deepspeed.zero.GatheredParameters(parameters):
            return [one.detach().double().clone() for one in parameters]
    return [one.detach().double().clone() for one in parameters]


dtype = next(engine.module.parameters()).dtype
worst = 1.0
for step in range(3):
    before = weights()
    for one, value in zip(reference.parameters(), before, strict=True):
        one.data.copy_(value)
        one.grad = None
    for micro_step in range(MICRO_STEPS):
        for rank in range(RANKS):
            inputs, targets = samples(step, micro_step, rank)
            part = nn.functional.mse_loss(reference(inputs.double()), targets.double())
            part.div(MICRO_STEPS * RANKS).backward()
        inputs, targets = samples(step, micro_step, RANK)
        engine.backward(nn.functional.mse_loss(engine(inputs.to(dtype)).float(), targets))
        engine.step()
    for one, momentum, old, new in zip(reference.parameters(), momenta, before, weights(), strict=True):
        momentum.lerp_(one.grad, 1 - MOMENTUM)
        true = orthogonal(torch.lerp(one.grad, momentum, MOMENTUM)) * RATE
        share = float(((old - new) * true).sum() / true.pow(2).sum())
        worst = share if abs(share - 1) > abs(worst - 1) else worst
if RANK == 0:
    print(f"{round(worst, 2):.3f}")
