"""Random configs as people write and break them: seeded, so that a disagreement can be repeated from its number."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

from ds_lint.knowledge import keys
from ds_lint.knowledge.keys import Key, Knowledge, Target
from ds_lint.semantics.constructors import optimizer_types

Config = dict[str, Any]

_ADAMW = {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}}
_WARMUP = {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 3e-5, "warmup_num_steps": 100}}
_DECAY = {"type": "WarmupDecayLR", "params": {"total_num_steps": 1000, "warmup_num_steps": 10}}

# Configs of the shapes that the guides to DeepSpeed and the large training frameworks hand out.
BASES: list[Config] = [
    {"train_batch_size": 4, "gradient_accumulation_steps": 2, "optimizer": _ADAMW},
    {"train_micro_batch_size_per_gpu": 2, "optimizer": _ADAMW, "scheduler": _WARMUP, "gradient_clipping": 1.0},
    {
        "train_batch_size": 2,
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": 2,
            "allgather_partitions": True,
            "allgather_bucket_size": 5e8,
            "overlap_comm": True,
            "reduce_scatter": True,
            "reduce_bucket_size": 5e8,
            "contiguous_gradients": True,
        },
        "optimizer": _ADAMW,
        "scheduler": _DECAY,
        "steps_per_print": 2000,
        "wall_clock_breakdown": False,
    },
    {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": 3,
            "overlap_comm": True,
            "contiguous_gradients": True,
            "sub_group_size": 1e9,
            "reduce_bucket_size": 1e6,
            "stage3_prefetch_bucket_size": 0.9e6,
            "stage3_param_persistence_threshold": 1e4,
            "stage3_max_live_parameters": 1e9,
            "stage3_max_reuse_distance": 1e9,
            "stage3_gather_16bit_weights_on_model_save": True,
        },
        "optimizer": _ADAMW,
    },
    {
        "train_batch_size": 1,
        "fp16": {
            "enabled": True,
            "loss_scale": 0,
            "loss_scale_window": 1000,
            "initial_scale_power": 16,
            "hysteresis": 2,
            "min_loss_scale": 1,
        },
        "zero_optimization": {"stage": 1, "reduce_bucket_size": 5000000},
        "optimizer": {"type": "Adam", "params": {"lr": 0.001, "torch_adam": True}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3}},
        "prescale_gradients": False,
        "communication_data_type": "fp32",
    },
    {
        "train_batch_size": 2,
        "zero_optimization": {
            "stage": 2,
            "offload_optimizer": {"device": "cpu", "pin_memory": False},
            "offload_param": {"device": "none"},
        },
        "optimizer": _ADAMW,
        "zero_allow_untested_optimizer": True,
    },
    {
        "train_batch_size": 2,
        "fp16": {"enabled": False},
        "bf16": {"enabled": False},
        "zero_optimization": {"stage": 0},
        "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
        "scheduler": {"type": "StepLR", "params": {"step_size": 10}},
        "data_types": {"grad_accum_dtype": "fp32"},
    },
    {
        "train_batch_size": 2,
        "optimizer": {"type": "Lamb", "params": {"lr": 0.001, "max_coeff": 0.3, "min_coeff": 0.01}},
        "flops_profiler": {"enabled": False, "profile_step": 1, "module_depth": -1, "top_modules": 1, "detailed": True},
        "activation_checkpointing": {"partition_activations": True, "cpu_checkpointing": False},
        "tensorboard": {"enabled": False, "output_path": "runs", "job_name": "a"},
        "comms_logger": {"enabled": False, "verbose": False, "prof_all": True, "debug": False},
        "checkpoint": {"tag_validation": "Warn", "use_node_local_storage": False},
    },
    {
        "train_batch_size": 2,
        "zero_optimization": {"stage": 1},
        "optimizer": {"type": "Muon", "params": {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.01}},
        "torch_autocast": {"enabled": True, "dtype": "bfloat16"},
        "gradient_clipping": 0.5,
    },
    {
        "train_batch_size": 2,
        "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}},
        "optimizer": {"type": "Adam", "params": {"lr": 1e-4, "bias_correction": True}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 100, "warmup_num_steps": 5}},
        "aio": {"block_size": 1048576, "queue_depth": 8, "single_submit": False, "overlap_events": True},
        "zero_force_ds_cpu_optimizer": False,
    },
    {
        "train_batch_size": 2,
        "optimizer": {"type": "Lion", "params": {"lr": 1e-4, "betas": [0.9, 0.99], "weight_decay": 0.1}},
        "scheduler": {"type": "LRRangeTest", "params": {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 10}},
        "wandb": {"enabled": False, "project": "p"},
        "csv_monitor": {"enabled": False},
        "data_efficiency": {"enabled": False, "data_sampling": {"num_workers": 0}},
        "autotuning": {"enabled": False, "fast": True},
        "timers": {"throughput": {"enabled": True}},
    },
]

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 1.5, 0.5, -0.5, 2.0, 5e8, 1e10, 1e30, 2**63, math.nan, math.inf, "", "3",
    "-1", "5e8", "true", "auto", "abc", "cpu", "fp16", "3e-5", "nan", "None", [], [1], [None], ["a"], [0.9, 0.99],
    [[1, 2], 3], {}, {"enabled": True}, {"a": {"b": [None, {}]}},
]  # fmt: skip
OLDEST = "0.9.0"  # configs that name keys of older releases are rare
STRANGERS = ["_note", "//", "comment", "fp8", "monitor_config", "logging", "foo_bar", "lr_scheduler", "per_gpu_batch"]


def configs(seed: int, count: int, knowledge: Knowledge) -> Iterator[Config]:
    """``count`` configs, each a base with none to three mutations."""
    chance = random.Random(seed)
    for _ in range(count):
        config = copy.deepcopy(chance.choice(BASES))
        mutate(chance, config, knowledge)
        yield config


def mutate(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    """Break a config in none to three places."""
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        chance.choice(_MUTATIONS)(chance, config, knowledge)


def _mutations() -> list[Callable[[random.Random, Config, Knowledge], None]]:
    return [
        _misspell, _misspell, _move, _add_stranger, _set_bad_value, _set_bad_value, _delete, _add_known, _add_known,
        _add_of_another_release, _add_section, _other_optimizer, _other_scheduler, _without_optimizer,
    ]  # fmt: skip


def _misspell(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    section, key = _place(chance, config)
    if len(key) < 3:
        return
    at = chance.randrange(len(key))
    broken = chance.choice(
        (
            key[:at] + key[at + 1 :],
            key[:at] + key[at] + key[at:],
            key[:at] + chance.choice("abcdefgmnrst_") + key[at + 1 :],
            key.replace("_", "-"),
            key.upper(),
        )
    )
    if broken not in section:
        section[broken] = section.pop(key)


def _move(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    section, key = _place(chance, config)
    other = chance.choice([found for found in _sections(config) if found is not section] or [config])
    if other is not section[key] and key not in other and not _is_inside(other, section[key]):
        other[key] = section.pop(key)


def _add_stranger(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    section = chance.choice(_sections(config))
    section.setdefault(chance.choice(STRANGERS), copy.deepcopy(chance.choice(VALUES)))


def _set_bad_value(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    section, key = _place(chance, config)
    section[key] = copy.deepcopy(chance.choice(VALUES))


def _delete(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    section, key = _place(chance, config)
    del section[key]


def _add_known(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    section = chance.choice(_sections(config))
    path = _path_of(config, section)
    known = knowledge.find(path) if path is not None else None
    if known is None or not known.names():
        return
    name = chance.choice(known.names())
    key = known.child(name)
    assert key is not None
    section.setdefault(name, plausible(chance, key))


def _add_of_another_release(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    releases = knowledge.releases[knowledge.releases.index(OLDEST) :]
    _add_known(chance, config, keys.knowledge(Target(chance.choice(releases))))


def _add_section(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    """A section of the store with some of its keys, and what they hold."""
    sections = [name for name in knowledge.root.names() if (key := knowledge.root.child(name)) and key.is_section]
    _fill(chance, config.setdefault(chance.choice(sections), {}), knowledge, config)


def _fill(chance: random.Random, section: Any, knowledge: Knowledge, config: Config) -> None:
    path = _path_of(config, section) if isinstance(section, dict) else None
    known = knowledge.find(path) if path is not None else None
    names = known.names() if known is not None else []
    for name in chance.sample(names, min(len(names), chance.choice((1, 2, 4)))):
        key = known.child(name) if known is not None else None
        if key is not None and key.is_section and chance.random() < 0.8:
            _fill(chance, section.setdefault(name, {}), knowledge, config)
        elif key is not None:
            section.setdefault(name, True if name == "enabled" else plausible(chance, key))


def _other_optimizer(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    """Any optimizer of DeepSpeed or torch, with parameters that it has."""
    torch = knowledge.torch["optimizers"]
    name = chance.choice([*optimizer_types(knowledge), *torch])
    owners = [one.get("parameters") for one in knowledge.constructors("optimizer.params", name.lower())]
    config["optimizer"] = {
        "type": _in_some_case(chance, name),
        "params": _parameters(chance, [*owners, torch.get(name)]),
    }


def _other_scheduler(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    """Any scheduler of DeepSpeed or torch, with parameters that it has."""
    torch = knowledge.torch["schedulers"]
    name = chance.choice([*knowledge.types("scheduler.params"), *torch])
    owners = [one["parameters"] for one in knowledge.constructors("scheduler.params", name)]
    config["scheduler"] = {"type": name, "params": _parameters(chance, [*owners, torch.get(name)], required=0.9)}


def _in_some_case(chance: random.Random, name: str) -> str:
    return chance.choice((name, name, name, name.lower(), name.upper()))


# What people write for the parameters of optimizers and schedulers; others get their default or any value.
_USUAL = {
    "lr": 1e-3, "betas": [0.9, 0.95], "momentum": 0.9, "eps": 1e-8, "step_size": 10, "milestones": [10, 20],
    "gamma": 0.9, "T_max": 100, "T_0": 10, "total_iters": 5, "max_lr": 0.01, "base_lr": 0.001, "total_steps": 100,
    "total_num_steps": 100, "warmup_num_steps": 10, "cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3,
}  # fmt: skip


def _parameters(chance: random.Random, owners: list[Any], required: float = 0.0) -> Config:
    """Some of the parameters that one of these constructors has; those without a default with a chance of their own."""
    known: Config = chance.choice([one for one in owners if one is not None] or [{}])
    params: Config = {}
    for name, default in known.items():
        if chance.random() >= (required if default == "$required" else 0.3):
            continue
        usual = [_USUAL[name]] if name in _USUAL else [] if default == "$required" else [default]
        params[name] = copy.deepcopy(chance.choice(VALUES) if chance.random() < 0.15 or not usual else usual[0])
    return params


def _without_optimizer(chance: random.Random, config: Config, knowledge: Knowledge) -> None:
    """The script passes one in."""
    config.pop("optimizer", None)


def plausible(chance: random.Random, key: Key) -> Any:
    """A value of the kind that the key's documentation would lead to, now and then its default or any value."""
    if chance.random() < 0.2:
        return copy.deepcopy(chance.choice(VALUES))
    if "enum" in key.facts:
        return chance.choice(key.facts["enum"])
    if "one_of" in key.facts:
        return chance.choice(key.facts["one_of"])
    kind = key.facts.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    by_kind: dict[str | None, list[Any]] = {
        "boolean": [True, False],
        "integer": [0, 1, 2, 100, 5e8, 1000000],
        "number": [0, 0.5, 1.0, 2],
        "string": ["abc", "cpu"],
        "array": [[], ["a"], [0.9, 0.99]],
        "object": [{}],
    }
    default = key.facts.get("default")
    return copy.deepcopy(
        chance.choice(
            [*by_kind.get(kind, VALUES), *([default] if isinstance(default, (bool, int, float, str)) else [])]
        )
    )


def _sections(config: Config) -> list[Config]:
    found = [config]
    for section in found:
        found += [value for value in section.values() if isinstance(value, dict)]
    return found


def _place(chance: random.Random, config: Config) -> tuple[Config, str]:
    places = [(section, key) for section in _sections(config) for key in section]
    return chance.choice(places) if places else (config.setdefault("zero_optimization", {"stage": 1}), "stage")


def _is_inside(section: Config, value: Any) -> bool:
    return isinstance(value, dict) and any(found is section for found in _sections(value))


def _path_of(config: Config, wanted: Config, path: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    if config is wanted:
        return path
    for key, value in config.items():
        if isinstance(value, dict) and (found := _path_of(value, wanted, (*path, key))) is not None:
            return found
    return None


_MUTATIONS = _mutations()
