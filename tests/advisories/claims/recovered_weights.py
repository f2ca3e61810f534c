"""The largest distance of a weight that `zero_to_fp32` recovers from that which was saved: 0 is right.

Arguments: the config as JSON, and words: `tied` gives the last layer the weight of the first, `frozen` does not train
the first layer, `file` converts into a file, as the script does, and not into a dictionary, `trusted` lets torch 2.6
and newer load what DeepSpeed before 0.16.0 saves.
"""

import json
import os
import sys
import tempfile

import deepspeed
import torch
from deepspeed.utils import zero_to_fp32
from torch import nn

WRITTEN, WORDS = json.loads(sys.argv[1]), sys.argv[2:]
if "trusted" in WORDS:
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(13, 13), nn.Linear(13, 7, bias=False), nn.Linear(7, 13, bias=False))
model.append(nn.Linear(13, 13, bias=False))
if "tied" in WORDS:
    model[3].weight = model[0].weight
if "frozen" in WORDS:
    model[1].requires_grad_(False)
config = {
    "train_micro_batch_size_per_gpu": 2,
    "zero_allow_untested_optimizer": True,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
    **WRITTEN,
}
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for _ in range(2):
    engine.backward(engine(torch.randn(2, 13)).pow(2).mean())
    engine.step()
with tempfile.TemporaryDirectory() as folder:
    engine.save_checkpoint(folder, tag="tag")
    if "file" in WORDS:
        target = f"{folder}/{'out' if hasattr(zero_to_fp32, 'to_torch_tensor') else 'out.bin'}"
        zero_to_fp32.convert_zero_checkpoint_to_fp32_state_dict(folder, target, tag="tag")
        target = f"{target}/pytorch_model.bin" if os.path.isdir(target) else target
        recovered = torch.load(target)
    else:
        recovered = zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(folder, tag="tag")
with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
    saved = {name: one.detach().clone() for name, one in engine.module.state_dict(keep_vars=True).items()}
missing = saved.keys() - recovered.keys()
assert not missing, f"not recovered: {sorted(missing)}"
print(f"{max(float((recovered[name] - one).abs().max()) for name, one in saved.items()):.3f}")
