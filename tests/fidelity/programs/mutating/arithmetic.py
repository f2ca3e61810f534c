"""Arithmetic that is broken in the engine: in the gradients, in the step, in the weights, and in the data."""

from __future__ import annotations

import contextlib

import deepspeed.comm
import torch

from ds_lint.smoke.observe import probes
from ds_lint.smoke.rank import data

# ---------------------------------------------------------------------------------------------------------- gradients


def _scale_gradients(engine, factor):
    """Each parameter's gradient, before the engine sees it; ``factor`` says by how much."""
    for parameter in engine.module.parameters():
        parameter.register_hook(lambda gradient: gradient * factor())


def _double_gradients(engine):
    _scale_gradients(engine, lambda: 2.0)


def _sum_over_ranks(engine):
    _scale_gradients(engine, lambda: float(torch.distributed.get_world_size()))


def _count_the_last_micro_step(engine):
    _scale_gradients(engine, lambda: float(engine.is_gradient_accumulation_boundary()))


def _forget_the_last_rank(engine):
    last = torch.distributed.get_world_size() - 1
    _scale_gradients(engine, lambda: float(torch.distributed.get_rank() != last))


def _count_a_rank_less(engine):
    """So little that no element shows it."""
    _scale_gradients(engine, lambda: 0.97 if torch.distributed.get_rank() == 0 else 1.0)


def _do_not_divide_the_loss(engine):
    backward = engine.backward
    engine.backward = lambda loss, **more: backward(loss * engine.gradient_accumulation_steps(), **more)


def _exchange_nothing(engine):
    """The collectives of the backward pass leave each rank with its own gradients."""
    backward = engine.backward

    def kept(tensor, *_arguments, **_more):
        return None

    def cut(output, whole, *_arguments, **_more):
        output.copy_(whole.chunk(torch.distributed.get_world_size())[torch.distributed.get_rank()])

    def alone(loss, **more):
        with contextlib.ExitStack() as stack:
            for name in ("all_reduce", "reduce", "inference_all_reduce"):
                stack.enter_context(replaced(deepspeed.comm, name, kept))
            for name in ("reduce_scatter_fn", "reduce_scatter_tensor"):
                stack.enter_context(replaced(deepspeed.comm, name, cut))
            stack.enter_context(
                replaced(deepspeed.runtime.comm.coalesced_collectives, "torch_reduce_scatter_fn", _cut_whole)
            )
            return backward(loss, **more)

    engine.backward = alone


def _cut_whole(whole, output, *_arguments, **_more):
    output.copy_(whole.chunk(torch.distributed.get_world_size())[torch.distributed.get_rank()])


@contextlib.contextmanager
def replaced(record, name, value):
    """Another value for an attribute of a record, if it has one, for as long as the block runs."""
    if not hasattr(record, name):
        yield
        return
    before = getattr(record, name)
    setattr(record, name, value)
    yield
    setattr(record, name, before)


# ------------------------------------------------------------------------------------------------------------ the step


def _set(name, value):
    def change(engine):
        for group in probes.inner_optimizer(engine).param_groups:
            group[name] = value

    return change


def _never_move(engine):
    probes.inner_optimizer(engine).step = lambda *_arguments, **_more: None


def _never_call(engine):
    engine.optimizer.step = lambda *_arguments, **_more: None


def _couple_the_decay(engine):
    """Adam in place of AdamW: the weight decay goes into the gradient."""
    probes.inner_optimizer(engine).adam_w_mode = 0


def _never_follow(engine):
    """The weights that the ranks compute with stay as they were."""
    step = engine.optimizer.step

    def stay(*arguments, **more):
        live = [getattr(parameter, "ds_tensor", parameter).data for parameter in engine.module.parameters()]
        before = [one.clone() for one in live]
        answer = step(*arguments, **more)
        for parameter, value in zip(engine.module.parameters(), before, strict=True):
            getattr(parameter, "ds_tensor", parameter).data.copy_(value)
        return answer

    engine.optimizer.step = stay


def _change_between_steps(engine):
    """The fp32 weights of a rank move by a digit after a step."""
    step = engine.optimizer.step

    def changing(*arguments, **more):
        answer = step(*arguments, **more)
        probes.masters(engine)[0].data.view(-1)[7] *= 1 + 2**-20
        return answer

    engine.optimizer.step = changing


IN_THE_ENGINE = {
    "double gradients": _double_gradients,
    "summed over ranks": _sum_over_ranks,
    "last micro step": _count_the_last_micro_step,
    "last rank missing": _forget_the_last_rank,
    "a rank counts less": _count_a_rank_less,
    "undivided loss": _do_not_divide_the_loss,
    "nothing exchanged": _exchange_nothing,
    "no weight decay": _set("weight_decay", 0.0),
    "other betas": _set("betas", (0.9, 0.999)),
    "other epsilon": _set("eps", 1e-4),
    "Adam for AdamW": _couple_the_decay,
    "weights never move": _never_move,
    "optimizer is not called": _never_call,
    "weights never follow": _never_follow,
    "fp32 weights change": _change_between_steps,
}


def _forget_the_scaler(engine):
    load = engine.load_checkpoint

    def forgetting(folder, **more):
        scaler = engine.optimizer.loss_scaler
        answer = load(folder, **more)
        engine.optimizer.loss_scaler = scaler
        return answer

    engine.load_checkpoint = forgetting


ON_RESUMING = {"lost loss scaler": _forget_the_scaler}


def _same_data():
    make = data.batch
    data.batch = lambda recipe, size, place, _rank: make(recipe, size, place, 0)
    take = data.Tokens.__getitem__
    data.Tokens.__getitem__ = lambda tokens, place: take(tokens, place // 8)


IN_THE_DATA = {"same data": _same_data}
