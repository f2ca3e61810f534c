"""A script with the Trainer, as written for GPUs; makes the model from a config alone."""

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
)
from transformers.utils import is_flash_attn_2_available, is_torch_bf16_gpu_available


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, place):
        row = torch.randint(0, 1000, (24,), generator=torch.Generator().manual_seed(place))
        return {"input_ids": row, "labels": row}


def main():
    parser = HfArgumentParser(TrainingArguments)
    parser.add_argument("--model")
    args, own = parser.parse_args_into_dataclasses()
    assert is_torch_bf16_gpu_available()
    config = AutoConfig.from_pretrained(own.model)
    attention = "flash_attention_2" if is_flash_attn_2_available() else "sdpa"
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, torch_dtype=torch.bfloat16)
    print("memory", torch.cuda.mem_get_info()[0] > 0, torch.cuda.get_device_name(args.local_rank))
    trainer = Trainer(model=model, args=args, train_dataset=Tokens())
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
