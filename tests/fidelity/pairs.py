"""Random pairs of a config and training arguments, most of them nearly right: what people have, one edit away."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

AUTO, ABSENT = "auto", object()

ARGUMENTS = {
    "per_device_train_batch_size": [1, 2, 8],
    "gradient_accumulation_steps": [1, 2, 4],
    "max_grad_norm": [1.0, 0.5, 0.0],
    "learning_rate": [5e-5, 3e-5, 1e-4],
    "weight_decay": [0.0, 0.01, 0.1],
    "adam_beta1": [0.9, 0.95],
    "adam_beta2": [0.999, 0.95],
    "adam_epsilon": [1e-8, 1e-6],
    "warmup_steps": [0, 5, 10],
    "fp16": [False, True],
    "bf16": [False, True],
    "fp16_full_eval": [False, True],
    "bf16_full_eval": [False, True],
    "save_on_each_node": [False, True],
    "auto_find_batch_size": [False, True],
}
ODD = [  # what a YAML file or a script may hold
    {"learning_rate": "5e-5"},
    {"max_grad_norm": None},
    {"warmup_steps": 0.1},
    {"warmup_steps": -1},
    {"per_device_train_batch_size": "8"},
    {"gradient_accumulation_steps": 2.0},
    {"weight_decay": 0},
    {"adam_beta1": "0.9"},
    {"bf16": "false"},
]
RARELY = ("fp16_full_eval", "bf16_full_eval", "save_on_each_node", "auto_find_batch_size")
MODELS = [
    {"hidden_size": 64},
    {"hidden_size": 2560},
    {"hidden_sizes": [32, 64, 160]},
    {"text_config": {"hidden_size": 128}},
]


class Pair(NamedTuple):
    """One config and what it is run with; ``known`` are the facts that ds-lint is told."""

    config: dict[str, Any]
    fields: dict[str, Any]
    world_size: int
    model: dict[str, Any]
    known: frozenset[str]

    def __str__(self) -> str:
        return f"{json.dumps(self.config)} {self.fields} x{self.world_size} {self.model} knowing {sorted(self.known)}"


def pair(seed: int) -> Pair:
    """The pair of a seed."""
    dice = random.Random(seed)
    fields = {
        name: dice.choice(values)
        for name, values in ARGUMENTS.items()
        if dice.random() < (0.08 if name in RARELY else 0.4)
    }
    if dice.random() < 0.06:
        fields.update(dice.choice(ODD))
    if dice.random() < 0.9:
        fields["max_steps"] = dice.choice([10, 100])
    if fields.get("fp16") and dice.random() < 0.9:
        fields.pop("bf16", None)
    world_size = dice.choice([1, 2, 8])
    known = {fact for fact in ("world size", "model") if dice.random() < 0.9}
    config = _config(dice, fields, world_size)
    if dice.random() < 0.12:
        _break(dice, config)
    return Pair(config, fields, world_size, dice.choice(MODELS), frozenset(known))


def _config(dice: random.Random, fields: dict[str, Any], world_size: int) -> dict[str, Any]:
    def value(wanted: Any, others: list[Any]) -> Any:
        """Mostly "auto" or what the arguments say, sometimes another value or nothing."""
        return dice.choices([AUTO, wanted, dice.choice(others), ABSENT], [50, 30, 5, 15])[0]

    micro, steps = fields.get("per_device_train_batch_size", 8), fields.get("gradient_accumulation_steps", 1)
    rate = fields.get("learning_rate", 5e-5)
    config = {
        "train_micro_batch_size_per_gpu": value(micro, [1, 3]),
        "gradient_accumulation_steps": value(steps, [1, 3]),
        "train_batch_size": value(micro * steps * world_size, [16, 64]),
        "gradient_clipping": value(fields.get("max_grad_norm", 1.0), [1, 0.3]),
        "steps_per_print": dice.choice([ABSENT, 10]),
        "zero_optimization": _zero(dice),
    }
    for name in ("fp16", "bf16"):
        enabled = bool(fields.get(name) or fields.get(f"{name}_full_eval"))
        section = {"enabled": value(enabled, [True, False]), "loss_scale": dice.choice([ABSENT, 0])}
        config[name] = dice.choices([_present(section), ABSENT], [70, 30])[0]
    if dice.random() < 0.6:
        betas = [fields.get("adam_beta1", 0.9), fields.get("adam_beta2", 0.999)]
        config["optimizer"] = {"type": "AdamW", "params": _present({
            "lr": value(rate, [1e-3, 1e-5]), "betas": value(betas, [[0.9, 0.98]]),
            "eps": value(fields.get("adam_epsilon", 1e-8), [1e-7]),
            "weight_decay": value(fields.get("weight_decay", 0.0), [3e-7]),
        })}  # fmt: skip
    if dice.random() < 0.5:
        config["scheduler"] = {"type": "WarmupDecayLR", "params": _present({
            "warmup_min_lr": value(0, [1e-6]), "warmup_max_lr": value(rate, [1e-3]),
            "warmup_num_steps": value(max(1, fields.get("warmup_steps", 0)), [0, 7]),
            "total_num_steps": value(fields.get("max_steps", 100), [1000]),
        })}  # fmt: skip
    return _present(config)


def _zero(dice: random.Random) -> Any:
    if dice.random() < 0.02:
        return ABSENT
    section = {
        "stage": dice.choice([0, 1, 2, 2, 3, 3, AUTO, ABSENT, "3"]),
        "reduce_bucket_size": dice.choice([AUTO, AUTO, 5e8, ABSENT]),
        "stage3_prefetch_bucket_size": dice.choice([AUTO, ABSENT, 1000]),
        "stage3_param_persistence_threshold": dice.choice([AUTO, ABSENT, 1000]),
        "stage3_gather_16bit_weights_on_model_save": dice.choice([AUTO, True, ABSENT]),
        "offload_optimizer": dice.choice([ABSENT, ABSENT, {"device": AUTO}, {"device": "cpu", "nvme_path": AUTO}]),
        "offload_param": dice.choice([ABSENT, ABSENT, {"device": AUTO}]),
    }
    return _present(section)


def _present(section: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if value is not ABSENT}


def _break(dice: random.Random, config: dict[str, Any]) -> None:
    """One of the ways in which a config is wrong for the libraries that prepare it."""
    name = dice.choice(["bf16", "fp16", "optimizer", "scheduler", "zero_optimization"])
    dice.choice([
        lambda: config.update({name: None}),
        lambda: config.update({name: AUTO}),
        lambda: config.update({"unknown_key": AUTO}),
        lambda: config.update({"activation_checkpointing": {"number_checkpoints": AUTO}}),
        lambda: config.setdefault("optimizer", {"type": "AdamW"}).update(params=None),
        lambda: config.update({"gradient_accumulation_steps": str(config.get("gradient_accumulation_steps"))}),
        lambda: config.update({"fp16": {"enabled": True}, "bf16": {"enabled": True}}),
    ])()  # fmt: skip
