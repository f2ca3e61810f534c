"""The length of the Trainer's first update under DeepSpeed over that of the true gradient step: 1 where it is whole.

Arguments: the micro steps of an optimizer step; `items` for a model that divides by `num_items_in_batch` or `mean` for
one that always takes the mean of its own batch; the DeepSpeed config as JSON (null leaves a key out); more training
arguments as JSON. The samples of all ranks are of this script, the true gradient is that of the mean over all of them,
in fp32 of plain torch; SGD makes the update the gradient times the rate.
"""

import json
import os
import sys
import tempfile

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

MICRO_STEPS, TAKES, WRITTEN = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
FURTHER = json.loads(sys.argv[4]) if len(sys.argv) > 4 else {}
RATE, SIZE = 0.05, 8
RANKS = int(os.environ["WORLD_SIZE"])


class Mean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(SIZE, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.layer(inputs)[:, 0] - labels.float()).pow(2).mean()}


class Items(Mean):
    def forward(self, inputs, labels, num_items_in_batch=None, **loss_kwargs) -> dict[str, torch.Tensor]:
        errors = (self.layer(inputs)[:, 0] - labels.float()).pow(2)
        return {"loss": errors.mean() if num_items_in_batch is None else errors.sum() / num_items_in_batch}


class Stop(TrainerCallback):
    """Takes the weights after the first update."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = True


torch.manual_seed(0)
model = Items() if TAKES == "items" else Mean()


def flat(module: nn.Module) -> torch.Tensor:
    return torch.cat([one.detach().float().cpu().flatten() for one in module.parameters()])


before = flat(model)
count = 2 * MICRO_STEPS * RANKS
samples = [{"inputs": torch.randn(SIZE), "labels": torch.tensor(index % 5)} for index in range(count)]
reference = Mean()
reference.load_state_dict(model.state_dict())
reference(torch.stack([one["inputs"] for one in samples]), torch.stack([one["labels"] for one in samples]))[
    "loss"
].backward()
true = torch.cat([one.grad.flatten() * RATE for one in reference.parameters()])

config = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": 0.0,
    "fp16": {"enabled": "auto"},
    "bf16": {"enabled": "auto"},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    **WRITTEN,
}
config = {key: value for key, value in config.items() if value is not None}
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=MICRO_STEPS,
        max_steps=1,
        optim="sgd",
        learning_rate=RATE,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        deepspeed=config,
        **FURTHER,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=samples, callbacks=[Stop()])
    trainer.train()
assert trainer.accelerator.distributed_type == "DEEPSPEED", trainer.accelerator.distributed_type
applied = before - flat(model)
if int(os.environ["RANK"]) == 0:
    print(f"{float(applied @ true / (true @ true)):.3f}")
