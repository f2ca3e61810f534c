"""Faults of FSDP, of accelerate and of loops: each a function that breaks one promise before a rank does its work."""

from __future__ import annotations

import glob
import os

import accelerate.accelerator
import accelerate.data_loader
import accelerate.optimizer
import accelerate.utils.fsdp_utils
import torch
import torch.distributed as dist
import torch.distributed.fsdp
from accelerate import Accelerator
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import ShardingStrategy, wrap

from ds_lint.smoke.observe.fsdp_shards import local
from ds_lint.smoke.observe.fsdp_watch import FsdpWatch


def rank():
    return dist.get_rank()


def ranks():
    return dist.get_world_size()


def after_prepare(change):
    """Change the model and the optimizer as soon as the loop has them, before anything watches them."""
    prepared = FsdpWatch.prepared

    def changed(self, model, optimizer):
        inner = optimizer
        while hasattr(inner, "optimizer"):
            inner = inner.optimizer
        change(model, inner)
        prepared(self, model, optimizer)

    FsdpWatch.prepared = changed


def after_plugin(change):
    """Change the plugin that accelerate has made of the environment."""
    made = Accelerator.__init__

    def changed(self, *args, **kwargs):
        made(self, *args, **kwargs)
        change(self.state.fsdp_plugin)

    Accelerator.__init__ = changed


def at_checkpoint(change):
    """Change what the rank holds just before it is measured."""
    measured = FsdpWatch.at_checkpoint

    def changed(self):
        change(self)
        measured(self)

    FsdpWatch.at_checkpoint = changed


def after_step(change):
    """Change the weights after each step of the optimizer."""

    def watched(_model, optimizer):
        step = optimizer.step

        def stepped(*args, **kwargs):
            answer = step(*args, **kwargs)
            for group in optimizer.param_groups:
                for one in group["params"]:
                    change(local(one))
            return answer

        optimizer.step = stepped

    after_prepare(watched)


# ------------------------------------------------------------------------------------------------ shares and units


def not_sharded():
    after_plugin(lambda plugin: setattr(plugin, "sharding_strategy", ShardingStrategy.NO_SHARD))
    shard = torch.distributed.fsdp.fully_shard

    def replicated(module, **kwargs):
        mesh = init_device_mesh("cpu", (ranks(), 1), mesh_dim_names=("copies", "shards"))
        return shard(module, **{**kwargs, "mesh": mesh})

    torch.distributed.fsdp.fully_shard = replicated


def larger_last_shard():
    def grow(watch):
        if rank() == ranks() - 1:
            kept = watch.optimizer.param_groups[0]["params"][0]
            kept = getattr(kept, "_local_tensor", kept)
            larger = torch.zeros(kept.numel() + 8)
            larger[: kept.numel()] = kept.detach().reshape(-1)
            kept.data = larger[: kept.numel()].view(kept.shape)

    at_checkpoint(grow)


def with_policy(choose):
    """Both versions wrap other modules."""

    def by_plugin(_plugin, _model):
        return choose

    accelerate.utils.fsdp_utils.fsdp2_prepare_auto_wrap_policy = by_plugin

    def by_torch(module, recurse, nonwrapped_numel, transformer_layer_cls):
        return True if recurse else choose(module)

    wrap.transformer_auto_wrap_policy = by_torch


def unit_is_missing():
    with_policy(lambda module: getattr(getattr(module, "self_attn", None), "layer_idx", None) == 0)


def one_unit():
    with_policy(lambda _module: False)


def units_of_linear_layers():
    with_policy(lambda module: isinstance(module, torch.nn.Linear))


def is_kept_after_forward():
    def keep(plugin):
        plugin.reshard_after_forward = False
        plugin.sharding_strategy = ShardingStrategy.SHARD_GRAD_OP if plugin.fsdp_version == 1 else None

    after_plugin(keep)


def whole_states():
    """Only while they are measured, so that nothing else goes wrong."""
    measured = FsdpWatch.at_checkpoint

    def changed(self):
        states = list(self.optimizer.state.values())
        kept = [state["exp_avg"] for state in states]
        for state in states:
            state["exp_avg"] = torch.zeros(local(state["exp_avg"]).numel() * ranks())
        measured(self)
        for state, one in zip(states, kept, strict=True):
            state["exp_avg"] = one

    FsdpWatch.at_checkpoint = changed


# ---------------------------------------------------------------------------------------------------- the gradients


def reduced(change):
    """What reduces gradients gives another result."""
    for name in ("reduce_scatter_tensor", "reduce_scatter_single"):
        if hasattr(dist, name):
            setattr(dist, name, changed_reduction(getattr(dist, name), change))


def changed_reduction(reduce, change):
    def changed(*args, **kwargs):
        handle = reduce(*args, **kwargs)
        if handle is not None:
            handle.wait()
        output = kwargs.get("output", args[0] if args else None)
        change(output)
        return handle

    return changed


def summed():
    reduced(lambda output: output.mul_(ranks()))


def averaged_twice():
    reduced(lambda output: output.div_(ranks()))


def with_backward(change):
    backward, calls = Accelerator.backward, []

    def changed(self, loss, **kwargs):
        calls.append(None)
        backward(self, change(loss, len(calls)), **kwargs)

    Accelerator.backward = changed


def first_micro_step_is_lost():
    zero = accelerate.optimizer.AcceleratedOptimizer.zero_grad

    def zeroed(self, set_to_none=None):
        for group in self.optimizer.param_groups:
            for one in group["params"]:
                one.grad = None
        zero(self, set_to_none)

    accelerate.optimizer.AcceleratedOptimizer.zero_grad = zeroed
    Accelerator.no_sync = lambda _self, _model: torch.enable_grad()


def last_micro_step_counts_nothing():
    with_backward(lambda loss, call: loss * 0 if call % 2 == 0 else loss)


def micro_step_counts_double_on_one_rank():
    with_backward(lambda loss, call: loss * 2 if call == 3 and rank() == 1 else loss)


def loss_is_not_divided():
    with_backward(lambda loss, _call: loss * 2)


def nothing_is_exchanged():
    def own_part(*args, **kwargs):
        output = kwargs.get("output", args[0] if args else None)
        given = kwargs.get("input", args[1] if len(args) > 1 else None)
        output.reshape(-1).copy_(given.reshape(-1).chunk(ranks())[rank()])

    for name in ("reduce_scatter_tensor", "reduce_scatter_single"):
        if hasattr(dist, name):
            setattr(dist, name, own_part)


def clips_by_own_norm():
    def clip(_self, parameters, most, *_args, **_kwargs):
        gradients = [local(one.grad) for one in parameters if one.grad is not None]
        norm = torch.stack([one.norm() for one in gradients]).norm()
        for one in gradients:
            one.mul_((most / (norm + 1e-6)).clamp(max=1.0))
        return norm

    Accelerator.clip_grad_norm_ = clip


def does_not_clip():
    clip = Accelerator.clip_grad_norm_
    Accelerator.clip_grad_norm_ = lambda self, parameters, _most, *args: clip(self, parameters, 1e9, *args)


# ------------------------------------------------------------------------------------------------------- precision


def mixed_precision_is_ignored():
    after_plugin(lambda plugin: setattr(plugin, "mixed_precision_policy", None))


def reduces_in_fp32():
    def change(plugin):
        policy = plugin.mixed_precision_policy
        if plugin.fsdp_version == 2:
            made = torch.distributed.fsdp.MixedPrecisionPolicy
            plugin.mixed_precision_policy = made(policy.param_dtype, torch.float32, policy.output_dtype)
        else:
            policy.reduce_dtype = torch.float32

    after_plugin(change)


def masters_are_rounded():
    after_step(lambda one: one.copy_(one.bfloat16().float()))


def buffers_are_changed(change):
    def changed(model, _optimizer):
        for name, one in model.named_buffers():
            if "inv_freq" in name:
                one.data = change(one.data)

    after_prepare(changed)


# ------------------------------------------------------------------------------------------------------- the steps


def old_parameters():
    def swap(_model, optimizer):
        for group in optimizer.param_groups:
            group["params"] = [torch.nn.Parameter(local(one).clone()) for one in group["params"]]

    after_prepare(swap)


def in_groups(**values):
    def change(_model, optimizer):
        for group in optimizer.param_groups:
            group.update(values)

    after_prepare(change)


def step_without_bias_correction():
    def change(_model, optimizer):
        step = optimizer.step

        def stepped(*args, **kwargs):
            answer = step(*args, **kwargs)
            for state in optimizer.state.values():
                state["step"] += 1000
            return answer

        optimizer.step = stepped

    after_prepare(change)


def other_weights_on_one_rank():
    def change(model, _optimizer):
        def hook(module, _inputs):
            if rank() == 1 and module.weight.numel():
                with torch.no_grad():
                    module.weight.data.mul_(1.01)

        next(one for one in model.modules() if isinstance(one, torch.nn.Embedding)).register_forward_pre_hook(hook)

    after_prepare(change)


def weights_are_not_sent():
    def change(plugin):
        plugin.sync_module_states = plugin.cpu_ram_efficient_loading = False

    after_plugin(change)


def same_samples():
    prepare = accelerate.accelerator.prepare_data_loader

    def prepared(*args, **kwargs):
        return prepare(*args, **{**kwargs, "num_processes": 1, "process_index": 0})

    accelerate.accelerator.prepare_data_loader = prepared


def first_batch_again():
    from ds_lint.smoke.rank.data import Tokens

    item = Tokens.__getitem__
    Tokens.__getitem__ = lambda self, place: item(self, place % (4 * ranks()))


def nothing_runs_again():
    accelerate.accelerator.fsdp2_apply_ac = lambda _accelerator, model: model
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper

    checkpoint_wrapper.apply_activation_checkpointing = lambda *_args, **_kwargs: None


# -------------------------------------------------------------------------------------------------------- the files


def saves_shards():
    after_plugin(lambda plugin: plugin.set_state_dict_type("SHARDED_STATE_DICT"))


def stale_model():
    collect = Accelerator.get_state_dict
    Accelerator.get_state_dict = lambda self, model, *args: {
        name: one - 1e-3 for name, one in collect(self, model, *args).items()
    }


def states_are_not_loaded():
    accelerate.accelerator.load_fsdp_optimizer = lambda *_args, **_kwargs: None


def weights_are_not_loaded():
    accelerate.accelerator.load_fsdp_model = lambda *_args, **_kwargs: None


def in_checkpoint(change):
    save = Accelerator.save_state

    def saved(self, folder, *args, **kwargs):
        answer = save(self, folder, *args, **kwargs)
        dist.barrier()
        if rank() == 0:
            change(folder)
        dist.barrier()
        return answer

    Accelerator.save_state = saved


def part_of_a_rank_is_missing():
    in_checkpoint(lambda folder: [os.remove(one) for one in glob.glob(f"{folder}/pytorch_model_fsdp_0/__1_*.distcp")])


def checkpoint_is_changed():
    def change(folder):
        path = os.path.join(folder, "pytorch_model_fsdp.bin")
        found = torch.load(path)
        next(iter(found.values())).reshape(-1)[-1] += 1e-3
        torch.save(found, path)

    in_checkpoint(change)


def model_lacks_a_tensor():
    collect = Accelerator.get_state_dict

    def less(self, model, *args):
        found = collect(self, model, *args)
        found.pop("lm_head.weight", None)
        return found

    Accelerator.get_state_dict = less


BEFORE = {
    "not sharded": not_sharded,
    "larger last shard": larger_last_shard,
    "a unit is missing": unit_is_missing,
    "one unit": one_unit,
    "units of linear layers": units_of_linear_layers,
    "kept after forward": is_kept_after_forward,
    "whole states": whole_states,
    "summed": summed,
    "averaged twice": averaged_twice,
    "lost first micro step": first_micro_step_is_lost,
    "lost last micro step": last_micro_step_counts_nothing,
    "double micro step": micro_step_counts_double_on_one_rank,
    "undivided loss": loss_is_not_divided,
    "nothing exchanged": nothing_is_exchanged,
    "own norm": clips_by_own_norm,
    "does not clip": does_not_clip,
    "no mixed precision": mixed_precision_is_ignored,
    "reduced in fp32": reduces_in_fp32,
    "rounded masters": masters_are_rounded,
    "doubled buffers": lambda: buffers_are_changed(lambda one: one * 2),
    "cast buffers": lambda: buffers_are_changed(lambda one: one.bfloat16()),
    "old parameters": old_parameters,
    "other betas": lambda: in_groups(betas=(0.8, 0.99)),
    "no decay": lambda: in_groups(weight_decay=0.0),
    "other epsilon": lambda: in_groups(eps=1e-6),
    "other rate": lambda: in_groups(lr=2e-3),
    "no bias correction": step_without_bias_correction,
    "other weights": other_weights_on_one_rank,
    "unsent weights": weights_are_not_sent,
    "same samples": same_samples,
    "first batch again": first_batch_again,
    "nothing runs again": nothing_runs_again,
    "saves shards": saves_shards,
    "stale model": stale_model,
    "unloaded states": states_are_not_loaded,
    "unloaded weights": weights_are_not_loaded,
    "missing part": part_of_a_rank_is_missing,
    "changed checkpoint": checkpoint_is_changed,
    "missing tensor": model_lacks_a_tensor,
}
