"""What the config, the model and the data define, broken on all ranks alike, so that the ranks agree."""

from __future__ import annotations

import os

import arithmetic
import deepspeed
import deepspeed.comm
import torch
from transformers import Trainer

from ds_lint.smoke.observe import probes
from ds_lint.smoke.rank import data, deepspeed_run, reference

# ------------------------------------------------------------------------------------------------- the model, the step


def _float_buffers(engine):
    return [one for one in engine.module.buffers() if one.is_floating_point()]


def _double_buffers(engine):
    for one in _float_buffers(engine):
        one.mul_(2)


def _round_buffers(engine):
    for one in _float_buffers(engine):
        one.data = one.data.bfloat16()


def _untie_the_head():
    """The head gets weights of its own before the engine sees the model."""
    initialize = deepspeed.initialize

    def initialized(*, model, **arguments):
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        return initialize(model=model, **{**arguments, "model_parameters": list(model.parameters())})

    deepspeed.initialize = initialized


def _change_a_buffer_later(engine):
    step = engine.step

    def changing():
        step()
        if engine.global_steps == 2:
            _double_buffers(engine)

    engine.step = changing


def _begin_elsewhere(engine):
    """The fp32 weights and those that the ranks compute with are off by the same."""
    for one in probes.masters(engine):
        one.data.mul_(2)
    for parameter in engine.module.parameters():
        getattr(parameter, "ds_tensor", parameter).data.mul_(2)


def _decay_all(engine):
    groups = probes.inner_optimizer(engine).param_groups
    for group in groups:
        group["weight_decay"] = max(one["weight_decay"] for one in groups)


def _swap_decays(engine):
    groups = probes.inner_optimizer(engine).param_groups
    decays = [one["weight_decay"] for one in groups]
    for group, decay in zip(groups, reversed(decays), strict=True):
        group["weight_decay"] = decay


def _before_inner_step(engine, change):
    optimizer = probes.inner_optimizer(engine)
    step = optimizer.step

    def stepped(*arguments, **more):
        change(optimizer)
        return step(*arguments, **more)

    optimizer.step = stepped


def _double_the_last_rate(engine):
    take_step = engine._take_model_step

    def taken(*arguments, **more):
        probes.inner_optimizer(engine).param_groups[-1]["lr"] *= 2
        return take_step(*arguments, **more)

    engine._take_model_step = taken


def _forget_a_gradient(engine):
    """The optimizer gets no gradient of one of its tensors."""

    def change(optimizer):
        optimizer.param_groups[0]["params"][0].grad = None

    _before_inner_step(engine, change)


def _correct_no_bias(engine):
    for group in probes.inner_optimizer(engine).param_groups:
        group["bias_correction"] = False


def _scale(engine, factor):
    for parameter in engine.module.parameters():
        parameter.register_hook(lambda gradient: gradient * factor())


def _sum_in_one_step(engine):
    _scale(engine, lambda: float(torch.distributed.get_world_size()) if engine.global_steps == 1 else 1.0)


def _lose_a_rank_in_one_step(engine):
    _scale(engine, lambda: float(engine.global_steps != 1 or torch.distributed.get_rank() != 0))


def _lose_micro_step(engine, *, is_last):
    """The backward pass of a micro step of each window is made for a loss of zero, or not made."""
    backward = engine.backward

    def losing(loss, **more):
        if engine.is_gradient_accumulation_boundary() == is_last:
            loss = loss * 0.0
        return backward(loss, **more)

    engine.backward = losing


def _skip_backward(engine):
    backward = engine.backward

    def skipping(loss, **more):
        return backward(loss, **more) if engine.is_gradient_accumulation_boundary() else loss

    engine.backward = skipping


def _clip_by_own_norm(engine):
    """Each rank clips its share by the norm of its share."""
    optimizer = engine.optimizer
    clip = optimizer.unscale_and_clip_grads

    def own(given, norm, *rest):
        gradients = given if isinstance(given, list) else [optimizer.fp32_partitioned_groups_flat[given].grad]
        own_norm = sum(float(one.double().square().sum()) for one in gradients) ** 0.5
        return clip(given, norm * 0 + own_norm, *rest)

    optimizer.unscale_and_clip_grads = own


def _follow_late(engine):
    """The weights that the ranks compute with are those of the step before."""
    step = engine.optimizer.step
    last = []

    def stepped(*arguments, **more):
        answer = step(*arguments, **more)
        live = [getattr(one, "ds_tensor", one).data for one in engine.module.parameters()]
        now = [one.clone() for one in live]
        for one, before in zip(live, last[-1] if last else now, strict=True):
            one.copy_(before)
        last.append(now)
        return answer

    engine.optimizer.step = stepped


def _skip_without_reason(engine):
    """The optimizer finds an overflow that is not there."""
    optimizer = engine.optimizer
    name = next(one for one in ("has_overflow", "_overflow_check_and_loss_scale_update") if hasattr(optimizer, one))
    calls = []
    if name == "has_overflow":
        look = optimizer.has_overflow

        def found(*arguments, **more):
            calls.append(look(*arguments, **more))
            return len(calls) == 2 or calls[-1]

        optimizer.has_overflow = found
        return
    update = optimizer._overflow_check_and_loss_scale_update

    def checked():
        calls.append(update())
        if len(calls) == 2:
            optimizer.zero_grad(set_to_none=True)
            optimizer.overflow = True
            return True
        return calls[-1]

    optimizer._overflow_check_and_loss_scale_update = checked


def _keep_whole_gradients(engine):
    """Between the micro steps, a rank keeps the whole gradient of each parameter, in a closure."""
    kept = []
    for parameter in engine.module.parameters():
        parameter.register_hook(lambda gradient: kept.append(gradient.clone()))
    step = engine.step

    def freeing():
        is_whole = engine.is_gradient_accumulation_boundary()
        step()
        if is_whole:
            kept.clear()

    engine.step = freeing


# --------------------------------------------------------------------------------------------------------- the scaler


def _scaler(engine):
    return engine.optimizer.loss_scaler


def _after_update(engine, change):
    """``change`` gets the scaler, its scale before the update, and whether a gradient overflows."""
    cls = type(_scaler(engine))  # the scaler itself is saved
    update = cls.update_scale

    def updated(scaler, overflow):
        scale = scaler.cur_scale
        update(scaler, overflow)
        change(scaler, scale, overflow)

    cls.update_scale = updated


def _never_grow(engine):
    _scaler(engine).scale_window = 10**9


def _know_no_hysteresis(engine):
    scaler = _scaler(engine)
    scaler.delayed_shift = scaler.cur_hysteresis = 1


def _halve_at_once(engine):
    """The scale falls in the first overflow, whatever is left of the hysteresis."""

    def change(scaler, scale, overflow):
        if overflow:
            scaler.cur_scale = scale / 2

    _after_update(engine, change)


def _never_fall(engine):
    def change(scaler, scale, _overflow):
        scaler.cur_scale = max(scale, scaler.cur_scale)

    _after_update(engine, change)


def _grow_too_early(engine):
    _scaler(engine).scale_window = 2


def _refill_hysteresis(engine):
    scaler = _scaler(engine)
    scaler.consecutive_hysteresis = not scaler.consecutive_hysteresis


def _fall_below_the_least(engine):
    _scaler(engine).min_scale = 0.0


def _fall_to_a_quarter(engine):
    def change(scaler, scale, _overflow):
        if scaler.cur_scale < scale:
            scaler.cur_scale /= 2

    _after_update(engine, change)


def _see_own_overflow_only(engine):
    """A rank does not hear of the overflow of another."""
    optimizer = engine.optimizer
    look = optimizer.has_overflow

    def own(*arguments, **more):
        with arithmetic.replaced(deepspeed.comm, "all_reduce", lambda *_arguments, **_more: None):
            return look(*arguments, **more)

    optimizer.has_overflow = own


IN_THE_ENGINE = {
    "doubled buffers": _double_buffers,
    "rounded buffers": _round_buffers,
    "a buffer changes later": _change_a_buffer_later,
    "other first weights": _begin_elsewhere,
    "decay on all": _decay_all,
    "decay on the wrong group": _swap_decays,
    "last rate doubled": _double_the_last_rate,
    "a gradient is missing": _forget_a_gradient,
    "no bias correction": _correct_no_bias,
    "summed in one step": _sum_in_one_step,
    "a rank lost in one step": _lose_a_rank_in_one_step,
    "first micro step lost": lambda engine: _lose_micro_step(engine, is_last=False),
    "last micro step lost": lambda engine: _lose_micro_step(engine, is_last=True),
    "first backward skipped": _skip_backward,
    "clips by own norm": _clip_by_own_norm,
    "weights follow late": _follow_late,
    "a step is skipped": _skip_without_reason,
    "keeps whole gradients": _keep_whole_gradients,
    "scale never grows": _never_grow,
    "no hysteresis": _know_no_hysteresis,
    "scale falls at once": _halve_at_once,
    "scale never falls": _never_fall,
    "scale grows too early": _grow_too_early,
    "hysteresis refilled": _refill_hysteresis,
    "scale falls below the least": _fall_below_the_least,
    "scale falls to a quarter": _fall_to_a_quarter,
    "own overflow only": _see_own_overflow_only,
}

# ------------------------------------------------------------------------------------------- the data, the definition


def _repeat_the_first_batch(*, of_rank=None):
    make, take = data.batch, data.Tokens.__getitem__

    def first(recipe, size, place, rank):
        return make(recipe, size, place if of_rank not in (None, rank) else 0, rank)

    def other(tokens, place):
        is_last = of_rank in (None, torch.distributed.get_rank())
        return take(tokens, place % 2 if is_last else place)

    data.batch, data.Tokens.__getitem__ = first, other


def _decay_by_other_names():
    Trainer.get_decay_parameter_names = lambda _trainer, model: [name for name, _ in model.named_parameters()]


def _decay_nothing():
    Trainer.get_decay_parameter_names = lambda _trainer, _model: []


IN_THE_DATA = {
    "first batch again": _repeat_the_first_batch,
    "first batch again on rank 1": lambda: _repeat_the_first_batch(of_rank=1),
    "the Trainer decays all": _decay_by_other_names,
    "the Trainer decays nothing": _decay_nothing,
    "untied head": _untie_the_head,
}


def _raise_in_the_reference():
    def repeat(_job):
        raise KeyError("lm_head.weight")

    reference.repeat = repeat


IN_THE_REFERENCE = {"the reference raises": _raise_in_the_reference}


def _leave_out_buffers(folder):
    """The weights file has the parameters alone."""
    path = os.path.join(folder, deepspeed_run.EXPORT, deepspeed_run.WEIGHTS)
    weights = torch.load(path, weights_only=True)
    torch.save({name: one for name, one in weights.items() if "e_score_correction_bias" not in name}, path)


IN_FILES = {"buffers are not saved": _leave_out_buffers}
