"""The learning rates that ds-lint says a config asks for, against those of the real schedulers and engines."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

import torch
from deepspeed.runtime import lr_schedules
from installed import INSTALLED, knowledge
from oracle import HIDDEN, Job, Oracle
from training import train
from transformers import get_scheduler

from ds_lint.knowledge import tables
from ds_lint.smoke.expected.schedules import default_rate, rates, trainer_rates

pytestmark = pytest.mark.fidelity

STEPS = 40  # longer than most of the schedules that are drawn
DRAWS = 400

Draw = Callable[[Random], Any]
Parameters = dict[str, Draw]


def rate(random: Random) -> float:
    return random.choice([1e-7, 10 ** random.uniform(-6, 0), random.random()])


def share(random: Random) -> float:
    return random.choice([0.0, 1.0, random.random()])


def whole(first: int, last: int) -> Draw:
    return lambda random: random.randint(first, last)


def number(first: float, last: float) -> Draw:
    return lambda random: random.uniform(first, last)


def one_of(*values: Any) -> Draw:
    return lambda random: random.choice(values)


def of_two_groups(draw: Draw) -> Draw:
    return lambda random: random.choice([draw(random), [draw(random), draw(random)]])


def drawn(random: Random, required: Parameters, optional: Parameters) -> dict[str, Any]:
    """All the required parameters, and some of the others."""
    chosen = {name: draw for name, draw in optional.items() if random.random() < 0.6}
    return {name: draw(random) for name, draw in {**required, **chosen}.items()}


WARMUP = {"warmup_num_steps": whole(1, 30), "warmup_type": one_of("log", "linear", "unknown")}
ENDS = {"warmup_min_lr": of_two_groups(share), "warmup_max_lr": of_two_groups(rate)}
TOTAL = {"total_num_steps": whole(0, 60)}
# What each scheduler has to have, and what it may have.
SECTIONS: dict[str, tuple[Parameters, Parameters]] = {
    "WarmupLR": ({}, {**WARMUP, **ENDS}),
    "WarmupDecayLR": (TOTAL, {**WARMUP, **ENDS}),
    "WarmupCosineLR": (TOTAL, {**WARMUP, "warmup_min_ratio": share, "cos_min_ratio": share}),
    "OneCycle": (
        {
            "cycle_min_lr": rate,
            "cycle_max_lr": rate,
            "cycle_first_step_size": one_of(1, 2, 3, 5, 12, 22, 30, 0.5, 7.25),
        },
        {
            "cycle_second_step_size": one_of(0, 1, 2, 3, 5, 12, 22),
            "cycle_first_stair_count": one_of(0, 1, 2, 3, 7, 22),
            "cycle_second_stair_count": one_of(None, 0, 1, 2, 3, 7, 22),
            "decay_lr_rate": share,
            "decay_step_size": whole(0, 5),
            "cycle_momentum": one_of(True, False),
        },
    ),
    "LRRangeTest": (
        {},
        {
            "lr_range_test_min_lr": of_two_groups(rate),
            "lr_range_test_step_size": whole(1, 30),
            "lr_range_test_step_rate": number(-1.0, 5.0),
            "lr_range_test_staircase": one_of(True, False),
        },
    ),
}


def is_same(claimed: list[float], real: list[float]) -> bool:
    """Equal to rounding: a rate next to zero is the difference of larger ones."""
    rounding = 1e-12 * max(map(abs, real))
    pairs = zip(claimed, real, strict=True)
    return all(math.isclose(one, other, rel_tol=1e-12, abs_tol=rounding) for one, other in pairs)


def sgd_of_two_groups(bases: list[float]) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": base} for base in bases], lr=9.9)


def stepped(optimizer: torch.optim.Optimizer, scheduler: Any, steps: int = STEPS) -> list[list[float]]:
    """The rates of both groups with which each step is made, by series."""
    found = []
    for _ in range(steps):
        found.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return [list(series) for series in zip(*found, strict=True)]


def of_each_group(claimed: list[Any]) -> list[list[float]]:
    return [[rate[group] if isinstance(rate, list) else rate for rate in claimed] for group in (0, 1)]


# ------------------------------------------------------------------------------------------- DeepSpeed's schedulers


@pytest.mark.parametrize("kind", SECTIONS)
def test_each_step_has_the_rate_of_the_real_scheduler(kind):
    """DS513 too: `unknown` is one of the warm-up types."""
    random = Random(kind)
    compared = 0
    for _ in range(DRAWS):
        params = drawn(random, *SECTIONS[kind])
        bases = random.choice([[rate(random)] * 2, [rate(random), rate(random)]])
        claimed = rates(kind, params, bases[0] if bases[0] == bases[1] else bases, STEPS, knowledge())
        if claimed is None:
            continue
        optimizer = sgd_of_two_groups(bases)
        scheduler = getattr(lr_schedules, kind)(optimizer, **params)
        for of_group, real in zip(of_each_group(claimed), stepped(optimizer, scheduler), strict=True):
            assert is_same(of_group, real), params
        compared += 1
    assert compared == DRAWS or not knowledge().is_newest


@pytest.mark.parametrize(
    ("behaviour", "kind", "params", "expected"),
    [
        ("warmup-sets-the-first-rate", "WarmupLR", {}, [0.0, 0.0]),
        ("warmup-ends-at-the-rate-of-each-group", "WarmupLR", {"warmup_num_steps": 2}, [0.5, 0.25]),
        ("cosine-holds-at-both-ends", "WarmupCosineLR", {"warmup_num_steps": 2, "total_num_steps": 4}, [5e-5, 2.5e-5]),
        (
            "one-cycle-has-stairs",
            "OneCycle",
            {
                "cycle_min_lr": 0.1,
                "cycle_max_lr": 0.5,
                "cycle_first_step_size": 4,
                "cycle_second_step_size": 1000,
                "cycle_second_stair_count": 1,
            },
            [0.1, 0.1],
        ),
    ],
)
def test_the_releases_differ_where_the_overlay_says(behaviour, kind, params, expected):
    optimizer = sgd_of_two_groups([0.5, 0.25])
    scheduler = getattr(lr_schedules, kind)(optimizer, **params)
    steps = 1 if behaviour == "warmup-sets-the-first-rate" else 10
    last = [series[-1] for series in stepped(optimizer, scheduler, steps)]
    assert (last == pytest.approx(expected)) == knowledge().does(behaviour)


# ------------------------------------------------------------------------------------------------------ real engines

CONFIGS = {
    "WarmupLR": {"warmup_num_steps": 3, "warmup_min_lr": 0.01},
    "WarmupDecayLR": {"warmup_num_steps": 3, "total_num_steps": 6, "warmup_type": "linear"},
    "WarmupCosineLR": {"warmup_num_steps": 3, "total_num_steps": 6, "warmup_min_ratio": 0.1},
    "OneCycle": {
        "cycle_min_lr": 0.01,
        "cycle_max_lr": 0.2,
        "cycle_first_step_size": 3,
        "decay_lr_rate": 0.5,
        "decay_step_size": 1,
    },
    "LRRangeTest": {"lr_range_test_min_lr": 0.01, "lr_range_test_step_size": 2},
}
OVERFLOWS = {"enabled": True, "initial_scale_power": 26, "hysteresis": 1}  # in some steps


def rates_of_steps(engine: Any) -> dict[str, Any]:
    """The rates that the optimizer has when each step is made, and which of the steps were skipped."""
    found, skipped = [], []
    for _ in range(12):
        data = torch.randn(2, HIDDEN, dtype=next(engine.module.parameters()).dtype, requires_grad=True)
        engine.backward(engine(data).float().pow(2).mean())
        found.append([group["lr"] for group in engine.optimizer.param_groups])
        before = engine.skipped_steps
        engine.step()
        skipped.append(engine.skipped_steps > before)
    return {"rates": found, "skipped": skipped}


def first_rates(engine: Any) -> dict[str, Any]:
    return {"rates": [group["lr"] for group in engine.basic_optimizer.param_groups]}


@pytest.fixture(scope="module")
def oracle():
    with Oracle() as running:
        yield running


@pytest.mark.parametrize("stage", [0, 2])
def test_a_real_engine_makes_each_step_with_the_rate(oracle, stage):
    jobs = [
        Job(
            {
                "train_batch_size": 2,
                "zero_optimization": {"stage": stage},
                "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}},
                "scheduler": {"type": kind, "params": params},
            },
            level="initialize",
            look=rates_of_steps,
        )
        for kind, params in CONFIGS.items()
    ]
    for (kind, params), verdict in zip(CONFIGS.items(), oracle.run(jobs), strict=True):
        claimed = rates(kind, params, 0.05, 12, knowledge())
        assert verdict.error is None
        if claimed is not None:
            assert is_same(claimed, [rate for (rate,) in verdict.facts["rates"]]), kind


def test_a_skipped_step_does_not_move_the_scheduler(oracle):
    config = {
        "train_batch_size": 2,
        "fp16": OVERFLOWS,
        "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}},
        "scheduler": {"type": "LRRangeTest", "params": CONFIGS["LRRangeTest"]},
    }
    facts = oracle.verdict(config, level="initialize", look=rates_of_steps).facts
    made = [rate for (rate,), is_skipped in zip(facts["rates"], facts["skipped"], strict=True) if not is_skipped]
    claimed = rates("LRRangeTest", CONFIGS["LRRangeTest"], 0.05, len(made), knowledge())
    assert claimed is not None
    assert facts["skipped"].count(True) > 1
    assert len(made) > 1
    assert is_same(claimed, made)


@pytest.mark.parametrize("offload", [{}, {"offload_optimizer": {"device": "cpu"}}])
@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Lamb", "Lion", "Adagrad", "SGD", "OneBitAdam", "Muon", "RMSprop"])
def test_a_real_engine_gives_the_optimizer_its_default_rate(oracle, kind, offload):
    config = {
        "train_batch_size": 2,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 2, **offload},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "optimizer": {"type": kind},
    }
    verdict = oracle.verdict(config, level="initialize", look=first_rates)
    claimed = default_rate(kind, knowledge())
    if claimed is None:
        assert verdict.error is not None or len(set(verdict.facts["rates"])) > 1
    else:
        if verdict.error is not None:
            pytest.skip(verdict.error)
        assert set(verdict.facts["rates"]) == {claimed}


# ------------------------------------------------------------------------------------------------------- the Trainer

CYCLES = {"num_cycles": number(0.1, 4.0)}
# The lr_scheduler_kwargs that each has to have, and those that it may have.
KWARGS: dict[str, tuple[Parameters, Parameters]] = {
    "constant": ({}, {}),
    "constant_with_warmup": ({}, {}),
    "linear": ({}, {}),
    "cosine": ({}, CYCLES),
    "cosine_with_restarts": ({}, {"num_cycles": whole(1, 5)}),
    "cosine_with_min_lr": ({"min_lr_rate": share}, CYCLES),
    "cosine_warmup_with_min_lr": ({"min_lr": rate}, {**CYCLES, "warmup_lr_rate": share}),
    "inverse_sqrt": ({}, {"timescale": whole(1, 100)}),
    "polynomial": ({}, {"lr_end": rate, "power": number(0.1, 3.0)}),
    "warmup_stable_decay": (
        {"num_decay_steps": whole(0, 20)},
        {
            **CYCLES,
            "num_stable_steps": whole(0, 20),
            "warmup_type": one_of("linear", "cosine", "1-sqrt"),
            "decay_type": one_of("linear", "cosine", "1-sqrt"),
            "min_lr_ratio": share,
        },
    ),
}
IS_NEWEST = INSTALLED.transformers == tables.load("transformers")["releases"][-1]


@pytest.mark.parametrize("name", KWARGS)
@pytest.mark.filterwarnings("ignore:Both num_training_steps and num_stable_steps")
def test_each_step_has_the_rate_of_the_real_scheduler_of_the_trainer(name):
    random = Random(name)
    compared = 0
    for _ in range(DRAWS):
        base, warmup_steps, total_steps = rate(random), random.randint(0, 20), random.randint(0, 50)
        kwargs = drawn(random, *KWARGS[name])
        claimed = trainer_rates(name, base, warmup_steps, total_steps, STEPS, kwargs)
        if claimed is None:
            continue
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base)
        try:
            scheduler = get_scheduler(name, optimizer, warmup_steps, total_steps, kwargs)
        except (TypeError, ValueError):  # older releases do not have them all
            assert not IS_NEWEST, kwargs
            continue
        (real,) = stepped(optimizer, scheduler)
        assert is_same(claimed, real), kwargs
        compared += 1
    assert compared > DRAWS / 10 or not IS_NEWEST


@pytest.mark.parametrize(
    "brought", [{}, {"optimizer": {"type": "AdamW", "params": {"lr": "auto", "torch_adam": True}}}]
)
def test_a_real_trainer_makes_each_step_with_the_rate(brought):
    config = {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto", **brought}
    arguments = {"learning_rate": 0.01, "warmup_steps": 2, "lr_scheduler_type": "cosine"}
    run = train(config, arguments)
    assert run.error is None
    claimed = trainer_rates("cosine", 0.01, 2, 4, 4)
    assert claimed is not None
    assert is_same(claimed, run.rates)
