"""A loop with Accelerate, as written for GPUs."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import AutoConfig, AutoModelForCausalLM, get_scheduler


class Tokens(Dataset):
    def __init__(self, vocabulary):
        generator = torch.Generator().manual_seed(0)
        self.rows = torch.randint(0, vocabulary, (256, 32), generator=generator)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        return {"input_ids": self.rows[place], "labels": self.rows[place]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision="bf16" if torch.cuda.is_bf16_supported() else "fp16")
    set_seed(42)
    if torch.cuda.get_device_capability()[0] >= 8:
        torch.backends.cuda.matmul.allow_tf32 = True
    config = AutoConfig.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(
        args.model, config=config, torch_dtype=torch.bfloat16, attn_implementation="flash_attention_2"
    )
    model.gradient_checkpointing_enable()
    accelerator.print("parameters", model.num_parameters() if hasattr(model, "num_parameters") else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=torch.cuda.is_available())
    loader = DataLoader(Tokens(config.vocab_size), batch_size=2, shuffle=True, pin_memory=True, num_workers=1)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=20)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    model.train()
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            inputs = {name: value.to(f"cuda:{accelerator.local_process_index}") for name, value in batch.items()}
            loss = model(**inputs).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        losses = accelerator.gather(loss.detach())
        accelerator.print(step, losses.mean().item())
    accelerator.print(torch.cuda.memory_summary())


if __name__ == "__main__":
    main()
