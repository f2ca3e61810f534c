"""The same with a loop of Accelerate: what its config has, dummies stand for."""

from __future__ import annotations

import json
import os

import sabotage
import torch
from accelerate import Accelerator
from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64}


class Tokens(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, place):
        return torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(sabotage.place(place)))


def main():
    config = json.loads(os.environ["DS_CONFIG"])
    accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config))
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=True))
    plain = [name for name, _ in model.named_parameters() if "norm" in name]
    groups = [
        {
            "params": [one for name, one in model.named_parameters() if (name in plain) is is_plain],
            "weight_decay": decay,
        }
        for is_plain, decay in ((False, 0.01), (True, 0.0))
    ]
    make = DummyOptim if "optimizer" in config else torch.optim.AdamW
    optimizer = make(groups, lr=1e-3)
    schedule = [DummyScheduler(optimizer)] if "scheduler" in config else []
    model, optimizer, loader, *schedule = accelerator.prepare(
        model, optimizer, DataLoader(Tokens(), batch_size=2), *schedule
    )
    for tokens in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(input_ids=tokens, labels=tokens).loss)
            optimizer.step()
            for one in schedule:
                one.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            model(input_ids=tokens, labels=tokens)
        model.train()


main()
