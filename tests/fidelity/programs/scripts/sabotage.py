"""Breaks one promise of DeepSpeed in the process of a script: in the engine, in the data, or in what it saves."""

from __future__ import annotations

import glob
import os
import sys

import deepspeed
import engine_faults
import torch
from deepspeed.runtime.engine import DeepSpeedEngine

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mutating"))

import mutations

NAMES = set(os.environ["SABOTAGE"].split(", "))


def seed(rank):
    """Of the data of a rank."""
    return 0 if "same data" in NAMES else rank


def place(number):
    """Of a sample in the data set, which a process of the data of a rank asks for."""
    asked[0] += 1
    if "same data later" in NAMES and asked[0] > ROWS * MICRO_STEPS:
        return asked[0]
    return 0 if "same data" in NAMES else number


asked = [0]
ROWS, MICRO_STEPS = 2, 2  # that are right


# ---------------------------------------------------------------------------------------------------------- the engine


def _lose_the_loss(engine):
    """After the first step."""
    backward = engine.backward
    engine.backward = lambda loss, *more, **others: backward(
        loss * float("nan") if engine.global_steps else loss, *more, **others
    )


def _end_windows_early(engine):
    engine.is_gradient_accumulation_boundary = lambda: True


def _drop_a_micro_step(engine):
    """The backward pass of every second micro step is not made."""
    backward = engine.backward
    engine.backward = lambda loss, *more, **others: (
        backward(loss, *more, **others) if engine.is_gradient_accumulation_boundary() else loss
    )


def _keep_states(engine):
    """Every rank keeps the states of the whole model."""
    engine.optimizer.kept = [torch.zeros(2 * mutations._whole_weights(engine)) for _ in range(2)]


IN_THE_ENGINE = {
    **mutations.IN_THE_ENGINE,
    "loss is not a number": _lose_the_loss,
    "windows end early": _end_windows_early,
    "a micro step is dropped": _drop_a_micro_step,
    "whole states": _keep_states,
}

# ----------------------------------------------------------------------------------------------------------- the config


def _other_config(**sections):
    """DeepSpeed gets other values than it is asked for, as if it misread them."""
    initialize = deepspeed.runtime.config.DeepSpeedConfig._initialize_params

    def misread(config, values):
        for name, value in sections.items():
            values[name] = {**(values.get(name) or {}), **value} if isinstance(value, dict) else value
        initialize(config, values)

    deepspeed.runtime.config.DeepSpeedConfig._initialize_params = misread


IN_THE_CONFIG = {
    "other stage": {"zero_optimization": {"stage": 1}},
    "no offload": {"zero_optimization": {"offload_optimizer": None}},
    "fp32": {"bf16": {"enabled": False}},
    "other norm": {"gradient_clipping": 1.0},
    "rate": {"optimizer": {"params": {"lr": 2e-3}}},
}

# ----------------------------------------------------------------------------------------------------------- the files


def _first(folder, pattern):
    return sorted(glob.glob(os.path.join(folder, "**", pattern), recursive=True))


def _in_states(change):
    def changed(folder):
        paths = _first(folder, "*optim_states.pt")
        saved = [torch.load(path, weights_only=False) for path in paths]
        for path, one in zip(paths, change(saved), strict=True):
            torch.save(one, path)

    return changed


def _lose_a_state(saved):
    """The first moments of a rank are zero."""
    for group in saved[1]["optimizer_state_dict"]["base_optimizer_state"]["state"].values():
        group["exp_avg"].zero_()
    return saved


def _of_another_rank(saved):
    return saved[::-1]


def _changed_masters(saved):
    states = saved[1]["optimizer_state_dict"]
    (states.get("single_partition_of_fp32_groups") or states["fp32_flat_groups"])[0].data[3:9] *= 1 + 2**-18
    return saved


def _shuffled_names(folder):
    for path in _first(folder, "*model_states.pt"):
        saved = torch.load(path, weights_only=False)
        if saved.get("param_shapes"):
            saved["param_shapes"] = [dict(reversed(shapes.items())) for shapes in saved["param_shapes"]]
        torch.save(saved, path)


def _forgotten_step(saved):
    for one in saved:
        for group in one["optimizer_state_dict"]["base_optimizer_state"]["state"].values():
            group["step"] = 0
    return saved


AFTER_CHECKPOINT = {
    "a lost state": _in_states(_lose_a_state),
    "states of another rank": _in_states(_of_another_rank),
    "other masters": _in_states(_changed_masters),
    "shuffled names": _shuffled_names,
    "forgotten step in the file": _in_states(_forgotten_step),
}


WEIGHTS = ("pytorch_model.bin", "model.safetensors", "adapter_model.safetensors")


def _in_weights(change):
    def changed(folder):
        for path in [path for pattern in WEIGHTS for path in _first(folder, pattern)]:
            if path.endswith(".bin"):
                torch.save(change(torch.load(path, weights_only=True)), path)
            else:
                from safetensors.torch import load_file, save_file

                save_file(change(load_file(path)), path, {"format": "pt"})

    return changed


def _one(weights, value):
    name = next(name for name in weights if "layer" in name and name.endswith("weight"))
    return {**weights, name: value(weights[name]).contiguous()}


def _without_tied(weights):
    return {name: one for name, one in weights.items() if not name.startswith(("words", "head", "model.embed", "lm_"))}


def _with_empty_base(weights):
    """As ZeRO-3 leaves them beside the adapters of a model."""
    return weights | {f"base_model.{name.replace('lora_A', 'base_layer')}": one[:0] for name, one in weights.items()}


def _of_one_rank(weights):
    """The partition of a rank in the place of each tensor."""
    return {name: one.flatten()[: one.numel() // 2].clone() for name, one in weights.items()}


AFTER_EXPORT = {
    "empty base weights": _in_weights(_with_empty_base),
    "weights of one rank": _in_weights(_of_one_rank),
    "empty weights": _in_weights(lambda weights: _one(weights, lambda one: one[:0])),
    "stale weights": _in_weights(lambda weights: _one(weights, lambda one: one * 0.99)),
    "no tied weight": _in_weights(_without_tied),
    "untied weights": _in_weights(
        lambda weights: weights | {name: one + 1 for name, one in weights.items() if name.startswith(("head", "lm_"))}
    ),
}


def _after(owner, method, change):
    before = getattr(owner, method)

    def changed(one, folder, *arguments, **more):
        answer = before(one, folder, *arguments, **more)
        torch.distributed.barrier()
        if torch.distributed.get_rank() == 0:
            change(folder)
        torch.distributed.barrier()
        return answer

    setattr(owner, method, changed)


# ------------------------------------------------------------------------------------------------------------- loading


def _load_nothing(load):
    return lambda engine, folder, *more, **others: (folder, {})


def _load_no_states(load):
    return lambda engine, folder, *more, **others: load(engine, folder, load_optimizer_states=False)


def _load_no_schedule(load):
    return lambda engine, folder, *more, **others: load(engine, folder, load_lr_scheduler_states=False)


def _load_other_values(load):
    def other(engine, folder, *more, **others):
        answer = load(engine, folder, *more, **others)
        mutations.probes.masters(engine)[0].data.view(-1)[:1] += 1
        return answer

    return other


def _forget_the_step(load):
    def forgetful(engine, folder, *more, **others):
        answer = load(engine, folder, *more, **others)
        for group in mutations.probes.inner_optimizer(engine).param_groups:
            group.pop("step", None)
        for state in mutations.probes.inner_optimizer(engine).state.values():
            state["step"] = state["step"] * 0
        return answer

    return forgetful


WHILE_LOADING = {
    "nothing is loaded": _load_nothing,
    "states are not loaded": _load_no_states,
    "schedule is not loaded": _load_no_schedule,
    "other masters are loaded": _load_other_values,
    "step is forgotten": _forget_the_step,
}

# --------------------------------------------------------------------------------------------------------------- apply

for name in NAMES & IN_THE_ENGINE.keys():
    mutations._after_initialize(IN_THE_ENGINE[name])
for name in NAMES & mutations.WHILE_MEASURED.keys():
    mutations._while_measured(mutations.WHILE_MEASURED[name])
for name in NAMES & IN_THE_CONFIG.keys():
    _other_config(**IN_THE_CONFIG[name])
for name in NAMES & AFTER_CHECKPOINT.keys():
    _after(DeepSpeedEngine, "save_checkpoint", AFTER_CHECKPOINT[name])
for name in NAMES & AFTER_EXPORT.keys():
    _after(DeepSpeedEngine, "save_16bit_model", AFTER_EXPORT[name])
    if sys.argv[0].endswith("trainer.py"):
        _after(sys.modules["transformers"].Trainer, "save_model", AFTER_EXPORT[name])
    elif "transformers" in sys.modules:
        _after(sys.modules["transformers"].PreTrainedModel, "save_pretrained", AFTER_EXPORT[name])
for name in NAMES & WHILE_LOADING.keys():
    DeepSpeedEngine.load_checkpoint = WHILE_LOADING[name](DeepSpeedEngine.load_checkpoint)
engine_faults.break_engines(NAMES)
