"""The length of one update over that of the true gradient step: 1 where a trainer of trl applies its losses' mean.

Arguments: the trainer (DPO, ORPO, CPO, KTO, BCO, GKD or Reward), the micro steps of an optimizer step, and the config
as JSON. The true gradient is the mean of the gradients of the losses that the trainer computes, one a micro step.
"""

import importlib
import inspect
import json
import sys
import tempfile

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedTokenizerFast

NAME, MICRO_STEPS, WRITTEN = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
RATE = 0.05
WORDS = ["<pad>", "<eos>", "<unk>", *(f"w{one}" for one in range(40))]

backend = Tokenizer(models.WordLevel({one: place for place, one in enumerate(WORDS)}, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
tokenizer.chat_template = "{% for one in messages %}{{ one['content'] }} {% endfor %}"
shape = LlamaConfig(
    vocab_size=len(WORDS),
    hidden_size=16,
    intermediate_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    pad_token_id=0,
    eos_token_id=1,
    num_labels=1,
)
torch.manual_seed(0)
model = (LlamaForSequenceClassification if NAME == "Reward" else LlamaForCausalLM)(shape)
prompts = [f"w{one} w{one + 1}" for one in range(2 * MICRO_STEPS)]
good = [f"w{one + 2} w{one + 3}" for one in range(2 * MICRO_STEPS)]
bad = [f"w{one + 5} w{one + 9} w3" for one in range(2 * MICRO_STEPS)]
if NAME in ("KTO", "BCO"):
    rows = {"prompt": prompts, "completion": good, "label": [one % 2 == 0 for one in range(2 * MICRO_STEPS)]}
elif NAME == "GKD":
    pairs = zip(prompts, good, strict=True)
    rows = {"messages": [[{"role": "user", "content": p}, {"role": "assistant", "content": a}] for p, a in pairs]}
else:
    rows = {"prompt": prompts, "chosen": good, "rejected": bad}

# since 0.25 and 0.26 most of them lie in a package of their own
home = trl if hasattr(trl, NAME + "Trainer") else importlib.import_module(f"trl.experimental.{NAME.lower()}")
trainer_class, config_class = getattr(home, NAME + "Trainer"), getattr(home, NAME + "Config")
optional = {"max_length": 16, "max_prompt_length": 8, "remove_unused_columns": False, "save_strategy": "no"}
optional |= {"lmbda": 0.0, "max_new_tokens": 4, "bf16": False, "use_cpu": True, "gradient_checkpointing": False}
known = inspect.signature(config_class).parameters
arguments = config_class(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=2,
    gradient_accumulation_steps=MICRO_STEPS,
    max_steps=1,
    max_grad_norm=0.0,
    learning_rate=RATE,
    lr_scheduler_type="constant",
    report_to="none",
    deepspeed={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": MICRO_STEPS,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "optimizer": {"type": "SGD", "params": {"lr": RATE}},
        **WRITTEN,
    },
    **{one: value for one, value in optional.items() if one in known},
)
gradients: list[torch.Tensor] = []


class Recording(trainer_class):
    def compute_loss(self, model, inputs, return_outputs=False, **more):
        result = super().compute_loss(model, inputs, return_outputs=return_outputs, **more)
        loss = result[0] if return_outputs else result
        weights = [one for one in self.model.parameters() if one.requires_grad]
        parts = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
        pairs = zip(parts, weights, strict=True)
        gradients.append(torch.cat([(torch.zeros_like(w) if p is None else p).flatten() for p, w in pairs]))
        return result


taken = inspect.signature(trainer_class).parameters
tokenizer_name = "processing_class" if "processing_class" in taken else "tokenizer"
teacher = {"teacher_model": LlamaForCausalLM(shape)} if NAME == "GKD" else {}
trainer = Recording(
    model=model, args=arguments, train_dataset=Dataset.from_dict(rows), **{tokenizer_name: tokenizer}, **teacher
)
before = torch.cat([one.detach().flatten().clone() for one in trainer.model.parameters()])
trainer.train()
after = torch.cat([one.detach().flatten() for one in trainer.model.parameters()])
assert len(gradients) == MICRO_STEPS, len(gradients)
true = torch.stack(gradients).mean(0) * RATE
print(f"{float((before - after) @ true / (true @ true)):.3f}")
