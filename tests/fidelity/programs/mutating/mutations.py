"""Promises broken in one rank of a smoke run: in the engine after its initialization, or in what was saved."""

from __future__ import annotations

import contextlib
import glob
import os

import adapters
import arithmetic
import deepspeed
import definitions
import torch
from arithmetic import replaced
from deepspeed.runtime.zero import partition_parameters

from ds_lint.smoke.observe import probes
from ds_lint.smoke.rank import data, deepspeed_run
from ds_lint.smoke.records.job import REFERENCE, RESUME, TRAIN


def mutated(work, name_file):
    """The work of a rank with the promise broken that the file names."""

    def broken(job, number, say):
        with open(name_file, encoding="utf-8") as file:
            name = file.read().strip()
        if job.fsdp is not None and job.part in (TRAIN, RESUME):
            _break_fsdp(name)
        if name in IN_THE_ENGINE and job.part in (TRAIN, RESUME):
            _after_initialize(IN_THE_ENGINE[name])
        if name in WHILE_MEASURED:
            _while_measured(WHILE_MEASURED[name])
        if name in IN_THE_CONFIG:
            _in_the_config(*IN_THE_CONFIG[name])
        if name in ON_RESUMING and job.part == RESUME:
            _after_initialize(ON_RESUMING[name])
        if name in IN_THE_DATA and job.part != REFERENCE:
            IN_THE_DATA[name]()
        if name in definitions.IN_THE_REFERENCE and job.part == REFERENCE:
            definitions.IN_THE_REFERENCE[name]()
        evidence = work(job, number, say)
        if name in IN_FILES and job.part == TRAIN and number == 0:
            IN_FILES[name](job.folder)
        return evidence

    return broken


def _break_fsdp(name):
    import fsdp_faults  # which imports what the other runs have no need of

    if name in fsdp_faults.BEFORE:
        fsdp_faults.BEFORE[name]()


def _after_initialize(change):
    initialize = deepspeed.initialize

    def initialized(**arguments):
        engine, *rest = initialize(**arguments)
        change(engine)
        return engine, *rest

    deepspeed.initialize = initialized


def _in_the_config(section, key, value):
    """DeepSpeed gets another value than was asked for, as if it had misread it."""
    initialize = deepspeed.initialize

    def initialized(*, config, **arguments):
        config[section][key] = value
        return initialize(config=config, **arguments)

    deepspeed.initialize = initialized


def _while_measured(change):
    """The engine is broken at the moment at which it is looked at, so that nothing else goes wrong."""
    for name in ("describe", "holdings"):
        looked = getattr(probes, name)

        def look(engine, looked=looked):
            with change(engine):
                return looked(engine)

        setattr(probes, name, look)


# ------------------------------------------------------------------------------------------------ while it is measured


@contextlib.contextmanager
def _unsharded_state(engine):
    (state,) = probes.inner_optimizer(engine).state.values()
    before = state["exp_avg"]
    state["exp_avg"] = torch.cat([before, before])
    yield
    state["exp_avg"] = before


@contextlib.contextmanager
def _lost_state(engine):
    (state,) = probes.inner_optimizer(engine).state.values()
    before = state.pop("exp_avg_sq")
    yield
    state["exp_avg_sq"] = before


def _unsharded_masters(engine):
    optimizer = engine.optimizer
    doubled = [torch.cat([part, part]) for part in optimizer.single_partition_of_fp32_groups]
    return replaced(optimizer, "single_partition_of_fp32_groups", doubled)


def _masters_in_16_bit(engine):
    optimizer = engine.optimizer
    rounded = [part.bfloat16() for part in optimizer.single_partition_of_fp32_groups]
    return replaced(optimizer, "single_partition_of_fp32_groups", rounded)


def _parameter_in_fp32(engine):
    parameter = next(iter(engine.module.parameters()))
    return replaced(parameter, "data", parameter.data.float())


@contextlib.contextmanager
def _whole_parameter(engine):
    parameter = next(iter(engine.module.parameters()))
    parameter.all_gather([parameter])
    yield
    parameter.partition()


def _no_offload(engine):
    return replaced(engine.optimizer, "cpu_offload", value=False)


WHILE_MEASURED = {
    "unsharded state": _unsharded_state,
    "lost state": _lost_state,
    "unsharded masters": _unsharded_masters,
    "masters in 16 bit": _masters_in_16_bit,
    "parameter in fp32": _parameter_in_fp32,
    "whole parameter": _whole_parameter,
    "offload flag off": _no_offload,
    "whole gradients": lambda engine: replaced(engine, "zero_optimization_stage", lambda: 2),  # which it is not
}

# -------------------------------------------------------------------------------------------------------- in the engine


def _clip_to_less(engine):
    engine.optimizer.clip_grad /= 2


def _do_not_clip(engine):
    """The optimizer says that it clips, and does not."""
    optimizer = engine.optimizer
    clip = optimizer.unscale_and_clip_grads

    def unscale(gradients, norm, *rest):
        with replaced(optimizer, "clip_grad", 1e9):
            return clip(gradients, norm, *rest)

    optimizer.unscale_and_clip_grads = unscale


def _double_rate(engine):
    for group in probes.inner_optimizer(engine).param_groups:
        group["lr"] *= 2


def _larger_batch(engine):
    engine.train_micro_batch_size_per_gpu = lambda: 3


def _no_loss(engine):
    forward = engine.module.forward

    def unlearning(*args, **kwargs):
        outputs = forward(*args, **kwargs)
        outputs.loss = outputs.loss * float("nan")
        return outputs

    engine.module.forward = unlearning


def _unscaled_loss(engine):
    engine.optimizer.scale_if_loss = lambda loss: loss


def _never_free_weights(engine):
    """ZeRO-3 says that a parameter is freed, and keeps all of it."""

    def free(parameter):
        parameter.ds_status = partition_parameters.ZeroParamStatus.NOT_AVAILABLE

    partition_parameters.free_param = free


def _whole_weights(engine):
    return sum(getattr(one, "ds_numel", one.numel()) for one in engine.module.parameters())


def _keep_a_copy(engine):
    engine.module.kept = torch.ones(_whole_weights(engine), dtype=torch.bfloat16)


def _keep_a_copy_in_a_hook(engine):
    copy = torch.ones(_whole_weights(engine), dtype=torch.bfloat16)

    def hook(*_arguments):
        assert copy.numel()

    engine.module.register_forward_hook(hook)


def _keep_a_partition(engine):
    engine.optimizer.kept = {"partition": [probes.masters(engine)[0].clone()]}


def _register_a_buffer(engine):
    engine.module.register_buffer("extra", torch.ones(1000), persistent=False)


def _keep_gradients(engine):
    """They are there after every step, as if nothing had freed them."""
    step = engine.step

    def stepped():
        step()
        for parameter in engine.module.parameters():
            parameter.grad = torch.zeros_like(parameter)

    engine.step = stepped


def _no_secondary_partitions(engine):
    partition_parameters.Init._partition_param_sec = lambda *_arguments, **_more: None
    for parameter in engine.module.parameters():
        parameter.ds_secondary_tensor = None


def _no_autocast(engine):
    engine.torch_autocast_enabled = lambda: False


def _recompute_nothing(engine):
    for module in engine.module.modules():
        if getattr(module, "gradient_checkpointing", False):
            module.gradient_checkpointing = False


def _recompute_the_head_only(engine):
    """Something runs again in the backward pass, but no layer does."""
    _recompute_nothing(engine)
    head = engine.module.lm_head
    forward = head.forward
    head.forward = lambda states: torch.utils.checkpoint.checkpoint(forward, states, use_reentrant=False)


IN_THE_ENGINE = {
    "nothing is recomputed": _recompute_nothing,
    "the head is recomputed": _recompute_the_head_only,
    "no secondary partitions": _no_secondary_partitions,
    "autocast does not cast": _no_autocast,
    "weights are never freed": _never_free_weights,
    "hidden copy": _keep_a_copy,
    "hidden copy in a hook": _keep_a_copy_in_a_hook,
    "hidden partition": _keep_a_partition,
    "hidden buffer": _register_a_buffer,
    "gradients are never freed": _keep_gradients,
    "clips to less": _clip_to_less,
    "does not clip": _do_not_clip,
    "double rate": _double_rate,
    "larger batch": _larger_batch,
    "loss is not a number": _no_loss,
    "unscaled loss": _unscaled_loss,
    **adapters.IN_THE_ENGINE,
    **arithmetic.IN_THE_ENGINE,
    **definitions.IN_THE_ENGINE,
}
IN_THE_CONFIG = {
    "other stage": ("zero_optimization", "stage", 1),
    "whole gradients": ("zero_optimization", "stage", 1),
    "persistent parameters": ("zero_optimization", "stage3_param_persistence_threshold", 100_000),
}


def _forget_schedule(engine):
    engine.lr_scheduler.load_state_dict = lambda state: None


def _forget_states(engine):
    load = engine.load_checkpoint
    engine.load_checkpoint = lambda folder: load(folder, load_optimizer_states=False)


ON_RESUMING = {"schedule is not restored": _forget_schedule, "states are not restored": _forget_states}
ON_RESUMING |= arithmetic.ON_RESUMING


def _drop_a_sample():
    """The engine's sizes are right, and a batch is not."""
    make = data.batch

    def smaller(recipe, size, place, rank):
        return {name: value[:-1] for name, value in make(recipe, size, place, rank).items()}

    data.batch = smaller


def _generate_other_tokens():
    from transformers import GenerationMixin

    generate = GenerationMixin.generate

    def other(model, *arguments, **more):
        tokens = generate(model, *arguments, **more)
        return tokens + 1 if more.get("synced_gpus") else tokens

    GenerationMixin.generate = other


IN_THE_DATA = {
    "a sample too few": _drop_a_sample,
    "other tokens": _generate_other_tokens,
    **arithmetic.IN_THE_DATA,
    **definitions.IN_THE_DATA,
}

# --------------------------------------------------------------------------------------------------- in what was saved


def _states_file(folder):
    (path,) = glob.glob(os.path.join(folder, deepspeed_run.CHECKPOINT, "*", "*zero_pp_rank_1_*optim_states.pt"))
    return path


def _weights_file(folder):
    return os.path.join(folder, deepspeed_run.EXPORT, deepspeed_run.WEIGHTS)


def _truncate(folder):
    path = _states_file(folder)
    os.truncate(path, os.path.getsize(path) // 2)


def _remove_states(folder):
    os.unlink(_states_file(folder))


def _change_masters(folder):
    path = _states_file(folder)
    saved = torch.load(path, weights_only=False)
    saved["optimizer_state_dict"]["single_partition_of_fp32_groups"][0].data[0] += 1
    torch.save(saved, path)


def _change_low_bits(folder):
    """A change that rounding to 16 bits hides."""
    path = _states_file(folder)
    saved = torch.load(path, weights_only=False)
    states = saved["optimizer_state_dict"]
    groups = states.get("single_partition_of_fp32_groups") or states["fp32_flat_groups"]
    groups[0].data[3:5] *= 1 + 2**-20
    torch.save(saved, path)


def _shuffle_partitions(folder):
    """Each rank's fp32 weights in the file of another one, whatever their size."""
    paths = sorted(glob.glob(os.path.join(folder, deepspeed_run.CHECKPOINT, "*", "*optim_states.pt")))
    saved = [torch.load(path, weights_only=False) for path in paths]
    key = "single_partition_of_fp32_groups"
    groups = [one["optimizer_state_dict"][key] for one in saved]
    for path, one, of_another in zip(paths, saved, [*groups[1:], groups[0]], strict=True):
        one["optimizer_state_dict"][key] = of_another
        torch.save(one, path)


def _shuffle_names(folder):
    """The parameters' names and shapes in another order than the partitions have."""
    for path in glob.glob(os.path.join(folder, deepspeed_run.CHECKPOINT, "*", "*model_states.pt")):
        saved = torch.load(path, weights_only=False)
        saved["param_shapes"] = [dict(reversed(shapes.items())) for shapes in saved["param_shapes"]]
        torch.save(saved, path)


def _change_weights(folder, change):
    path = _weights_file(folder)
    weights = torch.load(path, weights_only=True)
    name = "model.layers.1.mlp.up_proj.weight"
    changed = change(weights.pop(name))
    torch.save(weights | ({} if changed is None else {name: changed}), path)


def _untie(folder):
    """The head in the file is another tensor than the embedding, which alone is loaded."""
    path = _weights_file(folder)
    weights = torch.load(path, weights_only=True)
    torch.save(weights | {"lm_head.weight": weights["lm_head.weight"] + 1}, path)


IN_FILES = {
    **adapters.IN_FILES,
    **definitions.IN_FILES,
    "untied in the file": _untie,
    "truncated states": _truncate,
    "removed states": _remove_states,
    "changed masters": _change_masters,
    "changed low bits": _change_low_bits,
    "shuffled partitions": _shuffle_partitions,
    "shuffled names": _shuffle_names,
    "changed weight": lambda folder: _change_weights(folder, lambda weight: weight + 1),
    "empty weight": lambda folder: _change_weights(folder, lambda weight: weight[:0]),
    "removed weight": lambda folder: _change_weights(folder, lambda _: None),
    "removed weights": lambda folder: os.unlink(_weights_file(folder)),
}
