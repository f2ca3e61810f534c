"""The length of a pipeline's update over that of the true gradient step: 1 where each stage applies the whole gradient.

Arguments: the micro batches of a step, `plain` or `tied` for layers of their own or a first and a last layer that share
their weights, and the config as JSON. As many stages as ranks; the worst layer of three steps is printed. The
reference is the same model in plain torch.
"""

import json
import sys

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from torch import nn

MICRO_BATCHES, KIND, WRITTEN = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
WIDTH, LAYERS, RATE = 8, 4, 0.1


class Layer(nn.Module):
    """A layer that makes its own weights of its place: the reference and each stage make the same."""

    def __init__(self, place: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(place)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=generator) / WIDTH**0.5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.tanh(inputs.to(self.weight.dtype) @ self.weight)


def loss_of(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (outputs.float() - labels.float()).pow(2).mean()


# DeepSpeed refuses fp16 on CPUs without instructions for it; torch computes it all the same.
type(get_accelerator()).is_fp16_supported = lambda _: True
deepspeed.init_distributed("gloo")
ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
tied = KIND == "tied"
places = [0 if tied and place == LAYERS - 1 else place for place in range(LAYERS)]
ends = (0, LAYERS - 1)
specs = [
    TiedLayerSpec("ends", Layer, 0, tied_weight_attr="weight") if tied and index in ends else LayerSpec(Layer, place)
    for index, place in enumerate(places)
]
model = PipelineModule(specs, num_stages=ranks, loss_fn=loss_of, partition_method="uniform")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=[one for one in model.parameters() if one.requires_grad],
    config={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": MICRO_BATCHES,
        "gradient_clipping": 0.0,
        "steps_per_print": 1000,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": RATE}},
        **WRITTEN,
    },
)
torch.manual_seed(0)
reference = nn.ModuleList([Layer(place) for place in places])
if tied:
    reference[-1].weight = reference[0].weight
first, last = rank * LAYERS // ranks, (rank + 1) * LAYERS // ranks
weights = dict(zip(range(first, last), [one for one in engine.module.modules() if isinstance(one, Layer)], strict=True))

worst = 1.0
for _ in range(3):
    batches = [(torch.randn(2, WIDTH), torch.randn(2, WIDTH)) for _ in range(MICRO_BATCHES)]
    before = {place: layer.weight.detach().float().clone() for place, layer in weights.items()}
    # Every rank tells the others its weights, so that the reference starts where the pipeline is.
    told: list = [None] * ranks
    torch.distributed.all_gather_object(told, before)
    for place, value in {place: value for part in told for place, value in part.items()}.items():
        reference[place].weight.data.copy_(value)
        reference[place].weight.grad = None
    for inputs, labels in batches:
        outputs = inputs
        for layer in reference:
            outputs = layer(outputs)
        loss_of(outputs, labels).div(MICRO_BATCHES).backward()
    engine.train_batch(iter(batches))
    for place, layer in weights.items():
        true = reference[place].weight.grad * RATE
        applied = before[place] - layer.weight.detach().float()
        share = float((applied * true).sum() / true.pow(2).sum())
        worst = share if abs(share - 1) > abs(worst - 1) else worst
shares: list = [None] * ranks
torch.distributed.all_gather_object(shares, worst)
if rank == 0:
    print(f"{max(shares, key=lambda share: abs(share - 1)):.3f}")
