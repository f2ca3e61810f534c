"""One process of a script that makes models in every way that scripts do; prints what it finds as JSON.

Its argument is a folder with a config.json, and no weights.
"""

import json
import pathlib
import sys

from ds_lint.smoke.probe import cpu, missing, shrinking

TOLD, SHRUNK = [], []


class Presence:
    """Takes what the probe tells."""

    shrunk = SHRUNK.append


cpu.install(TOLD.append)
shrinking.install(Presence())

import torch  # noqa: E402 - after the probe, as in a process of a user
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402
from transformers import (  # noqa: E402
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    PreTrainedModel,
)


class Scorer(PreTrainedModel):
    """A class of the user's own, whose layers have the sizes of the config."""

    config_class = BertConfig

    def __init__(self, config):
        super().__init__(config)
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(config.hidden_size, config.hidden_size) for _ in range(config.num_hidden_layers)
        )
        self.post_init()


def about(model):
    """What a test asks of a model."""
    return {
        "class": type(model).__name__,
        "dtype": str(model.dtype),
        "parameters": model.num_parameters(),
        "vocabulary": getattr(model.config, "vocab_size", None),
        "positions": getattr(model.config, "max_position_embeddings", None),
        "hidden": model.config.hidden_size,
        "attention": model.config._attn_implementation,
        "is_training": model.training,
        "is_on_cpu": {one.device.type for one in model.parameters()} == {"cpu"},
        "name": model.config.name_or_path,
    }


def models(folder):
    """A model of each way to make one."""
    torch.manual_seed(7)
    before = torch.get_rng_state()
    loaded = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="flash_attention_2")
    again = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float16)
    third = AutoModelForCausalLM.from_pretrained(folder)
    is_undisturbed = torch.equal(before, torch.get_rng_state())
    config = AutoConfig.from_pretrained(folder)
    head = torch.nn.Linear(config.hidden_size, 2)
    found = {
        "loaded": about(loaded),
        "again": about(again),
        "named": about(AutoModelForCausalLM.from_pretrained(folder, config=config, torch_dtype="bfloat16")),
        "labels": about(AutoModelForSequenceClassification.from_pretrained(folder, num_labels=5)),
        "from_config": about(AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)),
        "direct": about(LlamaForCausalLM(config)),
        "own_config": about(GPT2LMHeadModel(GPT2Config(n_embd=1024, n_layer=24, n_head=16))),
        "own_class": about(Scorer(BertConfig(hidden_size=1024, num_hidden_layers=12, num_attention_heads=16))),
    }
    found["alike"] = {
        "is_undisturbed": is_undisturbed,
        "is_same": torch.equal(loaded.lm_head.weight, third.lm_head.weight),
        "is_tied": again.lm_head.weight is again.model.embed_tokens.weight,
        "own_layer_fits": head.in_features == loaded.config.hidden_size,
        "loss": again.float()(input_ids=torch.tensor([[1, 128_255]]), labels=torch.tensor([[1, 2]])).loss.item(),
    }
    return found


def adapters(folder, place):
    """An adapter that is made, and one that is loaded: its weights are those of the whole model."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    made = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    made.save_pretrained(place)
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), place, is_trainable=True)
    return [sum(one.numel() for one in model.parameters() if one.requires_grad) for model in (made, loaded)]


def absent(folder):
    """What a script ends for."""
    asked = {
        "tokenizer": lambda: AutoTokenizer.from_pretrained("someone/absent"),
        "tokenizer of a folder": lambda: AutoTokenizer.from_pretrained(folder),
        "config": lambda: AutoConfig.from_pretrained("someone/absent"),
        "model": lambda: AutoModelForCausalLM.from_pretrained("someone/absent"),
        "file": lambda: pathlib.Path("absent.txt").read_text(),
    }
    found = {}
    for what, ask in asked.items():
        found[what] = ended_for(ask)
    return found


def ended_for(ask):
    """What the probe tells if a script ends for an exception."""
    try:
        ask()
    except Exception as error:
        return missing.from_this_machine(error, uses_cpu=True)
    raise AssertionError("nothing is absent")


if __name__ == "__main__":
    folder, place = sys.argv[1:]
    found = {"models": models(folder), "adapters": adapters(folder, place), "absent": absent(folder)}
    json.dump(found | {"shrunk": SHRUNK, "told": sorted(set(TOLD))}, sys.stdout)
