"""The learning rates that the config asks for, step by step, for comparison with those of a run.

The formulas are ds-lint's own and call no library; those behind DeepSpeed's schedulers are in
``deepspeed/runtime/lr_schedules.py``, those of the Trainer's in ``transformers/optimization.py``. The first optimizer
step is step 0. A rate that is unknown, or for which the libraries raise, is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ds_lint.knowledge import keys
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.semantics.constructors import optimizer_constructor

if TYPE_CHECKING:
    from ds_lint.knowledge.keys import Knowledge

    ScheduleParameters = dict[str, Any]  # of a schedule, each of its own type

Rate = float | list[float]  # of all parameter groups, or of each
Shape = Callable[[int], float]  # the share of the full rate in a step

_BASE = "lr"  # the rate that the optimizer is built with, among the values of a scheduler
# May be a list with a value per parameter group; releases before 0.19.6 reject lists of OneCycle.
_BY_GROUP = (_BASE, "lr_range_test_min_lr", "warmup_max_lr", "warmup_min_lr")
_REFUSED = (ArithmeticError, TypeError, ValueError)  # what the libraries raise for the same values


# ------------------------------------------------------------------------------------------------------ DeepSpeed


def rates(
    kind: str, params: Mapping[str, Any], base: Rate, steps: int, knowledge: Knowledge | None = None
) -> list[Rate] | None:
    """The learning rate of each of the first optimizer steps with ``scheduler`` of a DeepSpeed config.

    ``base`` is the rate of the optimizer, a list if its parameter groups differ. Skipped steps do not count, because
    the engine does not advance the scheduler. ``knowledge`` is of the release that runs.
    """
    knowledge = knowledge or keys.knowledge()
    values = _with_defaults(kind, params, knowledge) if kind in _SCHEDULES else None
    if values is None or not _is_known(kind, values, base, knowledge):
        return None
    try:
        groups = _groups({**values, _BASE: base})
        each = [[_rate(_SCHEDULES[kind](step, group)) for group in groups] for step in range(steps)]
    except _REFUSED:
        return None
    has_lists = isinstance(base, list) or any(isinstance(values.get(name), list) for name in _BY_GROUP)
    return list(each) if has_lists else [rate for (rate,) in each]


def _with_defaults(kind: str, params: Mapping[str, Any], knowledge: Knowledge) -> ScheduleParameters | None:
    """The parameters of the scheduler with their defaults; None if its constructor rejects them."""
    for called in knowledge.constructors("scheduler.params", kind):
        defaults: ScheduleParameters = called["parameters"]
        values = {**defaults, **params}
        return None if len(values) > len(defaults) or "$required" in values.values() else values
    return None


def _is_known(kind: str, values: ScheduleParameters, base: Rate, knowledge: Knowledge) -> bool:
    """Whether the release uses the formulas here, which are those of the newest release."""
    if values["last_batch_iteration"] != -1:
        return False
    if kind.startswith("Warmup") and not knowledge.does("warmup-sets-the-first-rate"):
        return False
    if kind == "WarmupCosineLR" and not knowledge.does("cosine-holds-at-both-ends"):
        return False
    if kind == "OneCycle" and (values["cycle_first_stair_count"] or values["cycle_second_stair_count"]):
        return knowledge.does("one-cycle-has-stairs")
    if kind == "WarmupLR" and values["warmup_max_lr"] is None and isinstance(base, list):
        return knowledge.does("warmup-ends-at-the-rate-of-each-group")
    return True


def _groups(values: ScheduleParameters) -> list[ScheduleParameters]:
    """The values of each parameter group in a list; one for all groups without a list."""
    lists = {name: values[name] for name in _BY_GROUP if isinstance(values.get(name), list)}
    if not lists:
        return [values]
    return [{**values, **dict(zip(lists, own, strict=True))} for own in zip(*lists.values(), strict=True)]


def _rate(value: Any) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError("not a number")
    return value


def _warmup_lr(step: int, values: ScheduleParameters) -> float:
    return _between(_warmth(step, values), values)


def _warmup_decay_lr(step: int, values: ScheduleParameters) -> float:
    total, length = values["total_num_steps"], _warmup_length(values)
    if _place(step) < length:
        return _between(_warmth(step, values), values)
    return _between(max(0.0, (total - _place(step)) / max(1.0, total - length)), values)


def _warmup_cosine_lr(step: int, values: ScheduleParameters) -> float:
    base: float = values[_BASE]
    low: float = values["warmup_min_ratio"]
    floor: float = values["cos_min_ratio"]
    length = _warmup_length(values)
    if step == 0:
        return 0.0  # for any warmup_min_ratio
    if _place(step) < length:
        return base * (low + (1 - low) * _warmth(step, values))
    done = min(1.0, (_place(step) + 1 - length) / max(1, values["total_num_steps"] - length))
    return base * max(0.0, floor + (1 - floor) * _falling_cosine(done))


def _one_cycle(step: int, values: ScheduleParameters) -> float:
    low: float = values["cycle_min_lr"]
    high: float = values["cycle_max_lr"]
    decay: float = values["decay_lr_rate"]
    interval: float = values["decay_step_size"]
    first = float(values["cycle_first_step_size"])
    second = first if values["cycle_second_step_size"] is None else float(values["cycle_second_step_size"])
    if first <= 0 or second < 0:
        raise ValueError("not a valid cycle")
    if step - 1 < first + second:
        return low + (high - low) * _height(step % (first + second), first, second, values)
    if interval == 0 or decay == 0:
        return low
    return low / (1 + decay * (step - first - second) / interval)


def _height(place: float, first: float, second: float, values: ScheduleParameters) -> float:
    """How high the rate is at a place of the cycle, from 0 to 1."""
    stairs = values["cycle_first_stair_count"]
    travelled, way = (place, first) if place <= first else (first + second - place, second)
    if place > first and values["cycle_second_stair_count"] is not None:
        stairs = values["cycle_second_stair_count"]
    if stairs > 0:
        return float(math.floor(travelled * stairs / way) / stairs)
    return travelled / way


def _range_test(step: int, values: ScheduleParameters) -> float:
    size = _positive(values["lr_range_test_step_size"])
    rise: float = values["lr_range_test_step_rate"]
    risen = step // size if values["lr_range_test_staircase"] else step / size
    low: float = values["lr_range_test_min_lr"]
    return low * (1 + rise * risen)


_SCHEDULES: dict[str, Callable[[int, ScheduleParameters], float]] = {
    "LRRangeTest": _range_test,
    "OneCycle": _one_cycle,
    "WarmupCosineLR": _warmup_cosine_lr,
    "WarmupDecayLR": _warmup_decay_lr,
    "WarmupLR": _warmup_lr,
}


def _place(step: int) -> int:
    """The place of a step in the warm-up: the first place counts twice, in the constructor and after the first step."""
    return max(0, step - 1)


def _warmup_length(values: ScheduleParameters) -> int:
    return max(2, _positive(values["warmup_num_steps"]))


def _positive(value: Any) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError("not a positive integer")
    return value


def _warmth(step: int, values: ScheduleParameters) -> float:
    """The progress of the warm-up, from 0 to 1."""
    length = _warmup_length(values)
    if _place(step) >= length:
        return 1.0
    if values["warmup_type"] == "linear":
        return _place(step) / length
    return math.log(_place(step) + 1) / math.log(length)  # also for an unknown type


def _between(share: float, values: ScheduleParameters) -> float:
    low: float = values["warmup_min_lr"]
    high: float = values[_BASE] if values["warmup_max_lr"] is None else values["warmup_max_lr"]
    return low + (high - low) * share


def _falling_cosine(turned: float) -> float:
    """A cosine from 1 to 0, for ``turned`` from 0 to 1."""
    return (1 + math.cos(math.pi * turned)) / 2


# --------------------------------------------------------------------------------------------------- the Trainer


def trainer_rates(
    name: str, base: float, warmup_steps: int, total_steps: int, steps: int, kwargs: Mapping[str, Any] | None = None
) -> list[float] | None:
    """The learning rate of each of the first optimizer steps with ``lr_scheduler_type`` of the Trainer.

    ``kwargs`` are the ``lr_scheduler_kwargs``. Schedulers that need metrics are not known in advance. On any number of
    ranks each optimizer step advances it once: by the engine, or by the Trainer if it provides the optimizer too.
    """
    shape_of = _SHAPES.get(name)
    if shape_of is None or total_steps < 1:  # with max_steps -1, the epochs decide the number
        return None
    try:
        shape = shape_of(base, warmup_steps, total_steps, **({} if name in _WITHOUT_KWARGS else kwargs or {}))
        return [base * shape(step) for step in range(steps)]
    except _REFUSED:
        return None


def _after_warmup(warmup: int, shape: Shape) -> Shape:
    return lambda step: step / warmup if step < warmup else shape(step)


def _done(step: int, warmup: int, total: int) -> float:
    """The share of the steps after the warm-up that is done."""
    return (step - warmup) / max(1, total - warmup)


def _waves(cycles: float, done: float) -> float:
    """A cosine with this many cycles, from 1 to 0 and back."""
    return _falling_cosine(2 * cycles * done)


def _constant(_base: float, _warmup: int, _total: int) -> Shape:
    return lambda _: 1.0


def _constant_with_warmup(_base: float, warmup: int, _total: int) -> Shape:
    return _after_warmup(warmup, lambda _: 1.0)


def _linear(_base: float, warmup: int, total: int) -> Shape:
    return _after_warmup(warmup, lambda step: max(0.0, (total - step) / max(1, total - warmup)))


def _cosine(_base: float, warmup: int, total: int, *, num_cycles: float = 0.5) -> Shape:
    return _after_warmup(warmup, lambda step: _waves(num_cycles, _done(step, warmup, total)))


def _cosine_with_restarts(_base: float, warmup: int, total: int, *, num_cycles: float = 1) -> Shape:
    def shape(step: int) -> float:
        done = _done(step, warmup, total)
        return 0.0 if done >= 1 else _falling_cosine(num_cycles * done % 1.0)

    return _after_warmup(warmup, shape)


def _polynomial(base: float, warmup: int, total: int, *, lr_end: float = 1e-7, power: float = 1.0) -> Shape:
    if base <= lr_end:
        raise ValueError("the rate would rise")

    def shape(step: int) -> float:
        if step > total:
            return lr_end / base
        left = 1 - (step - warmup) / (total - warmup)
        return ((base - lr_end) * math.pow(left, power) + lr_end) / base

    return _after_warmup(warmup, shape)


def _inverse_sqrt(_base: float, warmup: int, _total: int, *, timescale: float | None = None) -> Shape:
    scale = (warmup or 10_000) if timescale is None else timescale
    return _after_warmup(warmup, lambda step: 1 / math.sqrt((step + scale - warmup) / scale))


def _lowest(base: float, min_lr: float | None, min_lr_rate: float | None) -> float:
    """The share of the rate at which a cosine ends; exactly one of the two sets it."""
    if min_lr is not None and min_lr_rate is None:
        return min_lr / base
    if min_lr is None and min_lr_rate is not None:
        return min_lr_rate
    raise ValueError("exactly one of min_lr and min_lr_rate must be set")


def _cosine_with_min_lr(
    base: float,
    warmup: int,
    total: int,
    *,
    num_cycles: float = 0.5,
    min_lr: float | None = None,
    min_lr_rate: float | None = None,
) -> Shape:
    low = _lowest(base, min_lr, min_lr_rate)
    return _after_warmup(
        warmup, lambda step: max(0.0, _waves(num_cycles, _done(step, warmup, total)) * (1 - low) + low)
    )


def _cosine_warmup_with_min_lr(
    base: float,
    warmup: int,
    total: int,
    *,
    num_cycles: float = 0.5,
    min_lr: float | None = None,
    min_lr_rate: float | None = None,
    warmup_lr_rate: float | None = None,
) -> Shape:
    low = _lowest(base, min_lr, min_lr_rate)

    def shape(step: int) -> float:
        if step < warmup:
            if warmup_lr_rate is None:
                return (step + 1) / warmup
            return warmup_lr_rate + (1 - warmup_lr_rate) * step / max(1, warmup - 1)
        return max(0.0, _waves(num_cycles, _done(step + 1, warmup, total)) * (1 - low) + low)

    return shape


_RISES: dict[str, Callable[[float], float]] = {
    "linear": lambda done: done,
    "cosine": lambda done: 1 - _falling_cosine(done),
    "1-sqrt": lambda done: 1 - math.sqrt(1 - done),
}
_FALLS: dict[str, Callable[[float, float], float]] = {
    "linear": lambda done, _: 1 - done,
    "cosine": lambda done, cycles: _waves(cycles, done),
    "1-sqrt": lambda done, _: 1 - math.sqrt(done),
}


def _warmup_stable_decay(
    _base: float,
    warmup: int,
    total: int,
    *,
    num_decay_steps: int,
    num_stable_steps: int | None = None,
    warmup_type: str = "linear",
    decay_type: str = "cosine",
    min_lr_ratio: float = 0,
    num_cycles: float = 0.5,
) -> Shape:
    if warmup_type not in _RISES or decay_type not in _FALLS:
        raise ValueError("unknown type")
    if warmup and min_lr_ratio:
        raise ValueError("releases start this warm-up at different rates")
    stable = total - num_decay_steps if num_stable_steps is None else warmup + num_stable_steps

    def shape(step: int) -> float:
        if step < warmup:
            return _RISES[warmup_type](step / warmup)
        if step < stable:
            return 1.0
        if step < stable + num_decay_steps:
            share = _FALLS[decay_type]((step - stable) / num_decay_steps, num_cycles)
            return max(0.0, share * (1 - min_lr_ratio) + min_lr_ratio)
        return min_lr_ratio

    return shape


_SHAPES: dict[str, Callable[..., Shape]] = {
    "constant": _constant,
    "constant_with_warmup": _constant_with_warmup,
    "cosine": _cosine,
    "cosine_warmup_with_min_lr": _cosine_warmup_with_min_lr,
    "cosine_with_min_lr": _cosine_with_min_lr,
    "cosine_with_restarts": _cosine_with_restarts,
    "inverse_sqrt": _inverse_sqrt,
    "linear": _linear,
    "polynomial": _polynomial,
    "warmup_stable_decay": _warmup_stable_decay,
}
_WITHOUT_KWARGS = ("constant", "constant_with_warmup")  # get_scheduler omits their arguments


# ------------------------------------------------------------------------------------------------- the optimizer


def default_rate(optimizer_type: str, knowledge: Knowledge | None = None) -> float | None:
    """The learning rate of an optimizer of DeepSpeed's config if ``optimizer.params.lr`` is missing.

    None for an unknown optimizer, and for Muon, whose two parameter groups have one rate each. It is the same for
    offloaded optimizers and those of torch.
    """
    basis = Basis(knowledge or keys.knowledge(), stack="deepspeed")
    constructor = optimizer_constructor(configs.from_dict({"optimizer": {"type": optimizer_type}}, basis))
    rate = constructor.default("lr") if constructor is not None else None
    return rate if isinstance(rate, (int, float)) else None
