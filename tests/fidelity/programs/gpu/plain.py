"""A script with plain DeepSpeed."""

import deepspeed
import torch
from transformers import LlamaConfig, LlamaForCausalLM

SHAPE = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 4}
deepspeed.init_distributed()
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=2048))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds_config.json")
for step in range(200):
    tokens = torch.randint(0, 2048, (4, 128), generator=torch.Generator().manual_seed(step)).to(engine.device)
    loss = engine(input_ids=tokens, labels=tokens).loss
    engine.backward(loss)
    engine.step()
    print(step, loss.item(), flush=True)
engine.save_checkpoint("output")
