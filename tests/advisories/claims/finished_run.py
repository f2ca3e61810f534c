"""Prints `completes` after three steps of training with a config, where nothing raised.

Arguments: the config as JSON, and words for what else the run does: `checkpoint` saves one and loads it into the same
engine, `late` puts a module without parameters behind the others after the engine was made, `untrained` makes no
optimizer, takes no step and destroys the engine. The model is small: four parameters, one of which has one element.
"""

import json
import sys
import tempfile

import deepspeed
import torch
from torch import nn

WRITTEN, WORDS = json.loads(sys.argv[1]), sys.argv[2:]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16, bias=False))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        return self.layers(samples) * self.scale


torch.manual_seed(0)
dtype = torch.bfloat16 if WRITTEN.get("bf16", {}).get("enabled") else torch.float32
model = Model().to(dtype)
config = {
    "train_micro_batch_size_per_gpu": 2,
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
    **WRITTEN,
}
if "untrained" in WORDS:
    del config["optimizer"]
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model, model_parameters=None if "untrained" in WORDS else model.parameters(), config=config
)
if "late" in WORDS:
    engine.module.layers.append(nn.Tanh())
if "untrained" in WORDS:
    engine(torch.randn(2, 16).to(dtype))
    engine.destroy()
else:
    for _ in range(3):
        engine.backward(engine(torch.randn(2, 16).to(dtype)).float().pow(2).mean())
        engine.step()
if "checkpoint" in WORDS:
    with tempfile.TemporaryDirectory() as folder:
        engine.save_checkpoint(folder, tag="tag")
        path, _ = engine.load_checkpoint(folder, tag="tag")
        assert path, "load_checkpoint found nothing"
print("completes")
