"""Actor, critic and reference, as scripts with plain DeepSpeed make them at stage 3."""

import json
import os
import sys

import deepspeed
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.integrations import HfDeepSpeedConfig


class Critic(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.config = AutoConfig.from_pretrained(name)
        self.head = nn.Linear(self.config.hidden_size, 1, bias=False, dtype=torch.bfloat16)
        self.base = AutoModel.from_pretrained(name, config=self.config, torch_dtype=torch.bfloat16)

    def forward(self, x):
        return self.head(self.base(x).last_hidden_state).squeeze(-1)


def main():
    with open(sys.argv[1]) as file:
        config = json.load(file)
    name = sys.argv[2]
    device = f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu"
    torch.cuda.set_device(device)
    deepspeed.init_distributed()
    _alive = HfDeepSpeedConfig(config)  # transformers partitions what it makes

    actor = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    actor = get_peft_model(actor, LoraConfig(target_modules=["q_proj", "v_proj"]))
    reference = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    critic = Critic(name)
    optimizer = deepspeed.ops.adam.FusedAdam(actor.parameters(), lr=1e-4)
    actor, *_ = deepspeed.initialize(model=actor, optimizer=optimizer, config=config)
    trained = config | {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}
    critic, *_ = deepspeed.initialize(model=critic, model_parameters=critic.parameters(), config=trained)
    reference, *_ = deepspeed.initialize(model=reference, config=config)
    reference.eval()
    for step in range(50):
        x = torch.randint(0, 1000, (2, 16), device=torch.cuda.current_device())
        with torch.no_grad():
            before = torch.log_softmax(reference(input_ids=x).logits.float(), -1)
        now = torch.log_softmax(actor(input_ids=x).logits.float(), -1)
        divergence = (now.exp() * (now - before)).sum(-1).mean()
        if step == 0:
            print("divergence at the start:", divergence.item(), flush=True)
        actor.backward(divergence - now[:, :-1].gather(-1, x[:, 1:, None]).mean())
        actor.step()
        critic.backward((critic(x).float() - 1).pow(2).mean())
        critic.step()


if __name__ == "__main__":
    main()
