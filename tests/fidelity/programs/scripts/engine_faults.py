"""Faults of DeepSpeed that show in its tensors alone: patches of the engine, written without a line of ds-lint.

``BEFORE`` are made before there is an engine, and ``WITHIN`` in a new engine.
"""

from __future__ import annotations

import glob
import os

import deepspeed
import torch
from deepspeed.runtime.engine import DeepSpeedEngine


def _rank():
    return torch.distributed.get_rank()


def _is_last():
    return _rank() == torch.distributed.get_world_size() - 1


def _inner(engine):
    """The optimizer that makes the steps."""
    return getattr(engine.optimizer, "optimizer", engine.optimizer)


def _around(owner, name, before=lambda: None, after=lambda _kept: None):
    call = getattr(owner, name)

    def around(*arguments, **more):
        kept = before()
        answer = call(*arguments, **more)
        after(kept)
        return answer

    setattr(owner, name, around)


def _live(engine):
    """What the rank computes with."""
    return [getattr(one, "ds_tensor", one).data for one in engine.module.parameters()]


def _stepped(engine):
    """What the optimizer steps on."""
    named = ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups", "fp32_groups_flat_partition")
    found = next((getattr(engine.optimizer, name) for name in named if hasattr(engine.optimizer, name)), None)
    found = getattr(engine.optimizer, "fp32_groups_flat", None) if found is None else found
    return list(found) if found is not None else [p for group in _inner(engine).param_groups for p in group["params"]]


# ---------------------------------------------------------------------------------------------------------- the rates


def _rates_are_late(engine):
    """The schedule makes its step before the optimizer, not after it."""
    schedule, take = engine.lr_scheduler, engine._take_model_step
    step = schedule.step

    def early(*arguments, **more):
        step()
        schedule.step = lambda *_arguments, **_more: None
        take(*arguments, **more)
        schedule.step = step

    engine._take_model_step = early


def _rate_of_the_last_rank(engine):
    for group in _inner(engine).param_groups:
        group["lr"] *= 2 if _is_last() else 1


def _decay_in_the_step(engine):
    _around(_inner(engine), "step", lambda: [one.mul_(0.9999) for one in _stepped(engine)])


# -------------------------------------------------------------------------------------------------------- the gradients


def _divide_twice(engine):
    scale = engine.optimizer.scale_if_loss
    engine.optimizer.scale_if_loss = lambda loss: scale(loss) / engine.gradient_accumulation_steps()


def _divide_never(engine):
    scale = engine.optimizer.scale_if_loss
    engine.optimizer.scale_if_loss = lambda loss: scale(loss) * engine.gradient_accumulation_steps()


def _local_norm(engine):
    """Without the squares of the other ranks."""

    def norm(gradients, *_arguments, **_more):
        return torch.stack([one.float().norm() for one in gradients]).norm()

    engine.optimizer.get_grad_norm_direct = norm


def _without_a_rank(engine):
    """What the last rank has computed is not in the average."""
    optimizer = engine.optimizer
    of_stage_3 = "_DeepSpeedZeroOptimizer_Stage3__avg_scatter_grads"
    if hasattr(optimizer, of_stage_3):
        reduce = getattr(optimizer, of_stage_3)

        def scatter(parameters, *more):
            for one in parameters if _is_last() else ():
                one.grad.zero_()
            return reduce(parameters, *more)

        setattr(optimizer, of_stage_3, scatter)
        optimizer.contiguous_gradients = False
    elif hasattr(optimizer, "average_tensor"):
        average = optimizer.average_tensor
        optimizer.average_tensor = lambda one, *more: average(one.zero_() if _is_last() else one, *more)
    else:
        grads = [one for one in engine.module.parameters() if one.requires_grad]
        _around(
            engine, "allreduce_gradients",
            lambda: [one.grad.zero_() for one in grads if _is_last() and engine.is_gradient_accumulation_boundary()],
        )  # fmt: skip


def _lose_a_gradient(engine):
    """That of a parameter, on the way to the optimizer."""
    take = engine._take_model_step
    lost = next(one for one in engine.module.parameters() if one.requires_grad)

    def without(*arguments, **more):
        lost.grad = None
        return take(*arguments, **more)

    engine._take_model_step = without


# ---------------------------------------------------------------------------------------------------------- the weights


def _no_update_of_some(engine):
    """The first elements of what the optimizer of the last rank has stay as they were."""
    some = _stepped(engine)[0].data.view(-1)[:64]
    _around(_inner(engine), "step", some.clone, lambda kept: some.copy_(kept) if _is_last() else None)


def _stale_copy(engine, after=0):
    """The last rank goes on with the weights of the step before."""

    def put_back(kept):
        for one, old in zip(_live(engine), kept, strict=True) if _is_last() and engine.global_steps >= after else ():
            one.copy_(old)

    _around(engine.optimizer, "step", lambda: [one.clone() for one in _live(engine)], put_back)


def _stale_copy_later(engine):
    _stale_copy(engine, after=2)


def _change_while_evaluating(engine):
    forward = engine.module.forward

    def changing(*arguments, **more):
        if not torch.is_grad_enabled():
            _stepped(engine)[0].data.view(-1)[:8].add_(0.01)
        return forward(*arguments, **more)

    engine.module.forward = changing


# ------------------------------------------------------------------------------------------------------- the loss scale


def _do_not_unscale(engine):
    clip = engine.optimizer.unscale_and_clip_grads
    scale = engine.optimizer.loss_scale

    def unscaled(gradients, *more):
        answer = clip(gradients, *more)
        for one in gradients:
            one.mul_(scale)
        return answer

    engine.optimizer.unscale_and_clip_grads = unscaled


def _other_scale(engine):
    engine.optimizer.loss_scaler.cur_scale = 2.0**10


def _scale_never_grows(engine):
    engine.optimizer.loss_scaler.scale_window = 10**9


def _scale_never_falls(engine):
    type(engine.optimizer.loss_scaler).update_scale = lambda scaler, overflow: None


def _unscaled_on_the_last_rank(engine):
    if _is_last():
        engine.optimizer.scale_if_loss = lambda loss: loss


WITHIN = {
    "rates are a step late": _rates_are_late,
    "other rate on the last rank": _rate_of_the_last_rank,
    "decay in the step": _decay_in_the_step,
    "divided twice": _divide_twice,
    "never divided": _divide_never,
    "norm of a rank": _local_norm,
    "average without a rank": _without_a_rank,
    "lost gradient": _lose_a_gradient,
    "some weights stay": _no_update_of_some,
    "stale copy": _stale_copy,
    "stale copy later": _stale_copy_later,
    "evaluation changes weights": _change_while_evaluating,
    "scale is not undone": _do_not_unscale,
    "other loss scale": _other_scale,
    "scale never grows": _scale_never_grows,
    "scale never falls": _scale_never_falls,
    "unscaled on the last rank": _unscaled_on_the_last_rank,
}


# ------------------------------------------------------------------------------------------------- before and in saving


def _optimizer_lacks_a_parameter():
    make = DeepSpeedEngine._configure_optimizer

    def lacking(engine, optimizer, parameters):
        if isinstance(parameters[0], dict):
            parameters[0]["params"] = parameters[0]["params"][:-1]
        else:
            parameters = parameters[:-1]
        return make(engine, optimizer, parameters)

    DeepSpeedEngine._configure_optimizer = lacking


def _decay_for_all():
    """DeepSpeed forgets what the script has given each group."""
    make = DeepSpeedEngine._configure_optimizer

    def forgetful(engine, *arguments):
        make(engine, *arguments)
        for group in _inner(engine).param_groups:
            group["weight_decay"] = 0.1

    DeepSpeedEngine._configure_optimizer = forgetful


BEFORE = {"optimizer lacks a parameter": _optimizer_lacks_a_parameter, "decay for all": _decay_for_all}


def _state_before_the_step(engine):
    """A checkpoint gets the fp32 weights that were there before the last step."""
    before = {}

    def note():
        before.update({number: one.detach().clone() for number, one in enumerate(_stepped(engine))})

    def swap(_kept=None):
        for number, one in enumerate(_stepped(engine)):
            now = one.detach().clone()
            one.data.copy_(before[number])
            before[number] = now

    _around(engine, "_take_model_step", note)
    _around(engine, "save_checkpoint", swap, swap)


def _lose_a_file(engine):
    """Of the last rank, or the only one without ZeRO."""
    save = engine.save_checkpoint

    def saving(folder, *arguments, **more):
        answer = save(folder, *arguments, **more)
        torch.distributed.barrier()
        if _rank() == 0:
            os.unlink(max(glob.glob(os.path.join(folder, "*", "*states.pt"))))
        torch.distributed.barrier()
        return answer

    engine.save_checkpoint = saving


WITHIN |= {
    "checkpoint before the step": _state_before_the_step,
    "a file is lost": _lose_a_file,
}


def _after_initialize(change):
    initialize = deepspeed.initialize

    def initialized(*arguments, **more):
        made = initialize(*arguments, **more)
        change(made[0])
        return made

    deepspeed.initialize = initialized


def break_engines(names):
    """Break what these names say, in the engines that this process makes from now on."""
    for name in names & BEFORE.keys():
        BEFORE[name]()
    for name in sorted(names & WITHIN.keys()):
        _after_initialize(WITHIN[name])
