"""A script with a loop of Accelerate."""

import torch
from accelerate import Accelerator
from accelerate.utils import DeepSpeedPlugin
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM

SHAPE = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 4}


class Tokens(Dataset):
    """Made from their place."""

    def __len__(self):
        return 2000

    def __getitem__(self, place):
        return torch.randint(0, 2048, (128,), generator=torch.Generator().manual_seed(place))


accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config="ds_config.json"), mixed_precision="bf16")
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=2048))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Tokens(), batch_size=4))
for tokens in loader:
    with accelerator.accumulate(model):
        accelerator.backward(model(input_ids=tokens, labels=tokens).loss)
        optimizer.step()
        optimizer.zero_grad()
accelerator.save_state("output")
