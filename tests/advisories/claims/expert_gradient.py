"""The length of the update of an expert over that of the true gradient step: 1 where it is the mean over all ranks.

Arguments: over how many ranks the experts are spread, and the config as JSON. Every rank has samples of its own; the
reference gates and computes the samples of all ranks with all experts in plain torch.
"""

import json
import sys

import deepspeed
import torch
from deepspeed.moe.layer import MoE
from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer
from torch import nn

SPREAD, WRITTEN = int(sys.argv[1]), json.loads(sys.argv[2])
WIDTH, EXPERTS, TOKENS, RATE = 8, 2, 16, 0.1

deepspeed.init_distributed("gloo")
ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
torch.manual_seed(0)
starts = [torch.randn(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(EXPERTS)]
samples = torch.randn(ranks, TOKENS, WIDTH)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = MoE(
            WIDTH,
            nn.Linear(WIDTH, WIDTH, bias=False),
            EXPERTS,
            SPREAD,
            k=1,
            capacity_factor=float(EXPERTS),
            use_rts=False,
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.experts(inputs)[0].pow(2).mean()


model = Model()
local = EXPERTS // SPREAD
# Ranks of one group hold other experts each; their weights are of this script, the gate's are the same on all ranks.
held = [rank % SPREAD * local + index for index in range(local)]
experts = [one for name, one in model.named_parameters() if "deepspeed_experts" in name]
gate = next(one for name, one in model.named_parameters() if "wg" in name)
gate.data.copy_(torch.randn(EXPERTS, WIDTH))
for one, index in zip(experts, held, strict=True):
    one.data.copy_(starts[index])
groups = split_params_into_different_moe_groups_for_optimizer({"params": list(model.parameters()), "name": "all"})
true_gate, truth = gate.detach().clone(), [one.clone().requires_grad_() for one in starts]
for sample in samples:
    gates = (sample @ true_gate.T).softmax(dim=1)
    chosen = gates.argmax(dim=1)
    outputs = torch.stack([sample @ one.T for one in truth])[chosen, torch.arange(TOKENS)]
    (gates.max(dim=1).values[:, None] * outputs).pow(2).mean().div(ranks).backward()
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=groups,
    config={
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": RATE}},
        **WRITTEN,
    },
)
engine.backward(engine(samples[rank]))
engine.step()
worst = 1.0
for one, index in zip(experts, held, strict=True):
    true = truth[index].grad * RATE
    share = float(((starts[index] - one.detach().float()) * true).sum() / true.pow(2).sum())
    worst = share if abs(share - 1) > abs(worst - 1) else worst
if rank == 0:
    print(f"{worst:.3f}")
