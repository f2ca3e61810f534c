"""Prints `completes` once two ranks of one AutoTP group saved a checkpoint and loaded it into a new engine.

Argument: the config of DeepSpeed as JSON. The model is sharded by `tp_model_init`, as in the Trainer.
"""

import json
import os
import sys
import tempfile

import deepspeed
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.1, "torch_adam": True}},
    "tensor_parallel": {"autotp_size": 2},
    **json.loads(sys.argv[1]),
}
dtype = torch.bfloat16 if config.get("bf16", {}).get("enabled") else torch.float32
shape = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, pad_token_id=0
)
deepspeed.init_distributed("gloo")


def engine() -> deepspeed.DeepSpeedEngine:
    torch.manual_seed(0)
    model = deepspeed.tp_model_init(LlamaForCausalLM(shape).to(dtype), tp_size=2, dtype=dtype)
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]


first = engine()
torch.manual_seed(1)
numbers = torch.randint(1, 32, (2, 4))
first.backward(first(input_ids=numbers, labels=numbers).loss)
first.step()
folder = os.path.join(tempfile.gettempdir(), "tensor_parallel_resume_" + os.environ["MASTER_PORT"])
first.save_checkpoint(folder, tag="one")
deepspeed.comm.barrier()
engine().load_checkpoint(folder, tag="one")
print("completes")
