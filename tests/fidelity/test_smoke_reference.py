"""Arithmetic that is broken in the engine fails the check that is about it, and arithmetic that is right passes."""

from __future__ import annotations

import json
import os

import pytest
from command_line import ROOT
from installed import INSTALLED, measured_with_the_newest
from linted import lint_dict

from ds_lint.facts import Facts
from ds_lint.smoke.small_run.options import RunOptions

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

CHECKS = ("samples", "averaging", "update", "weights")
GATHERED = {"stage3_gather_16bit_weights_on_model_save": True}
CPU = {"offload_optimizer": {"device": "cpu"}}
ADAMW = {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01, "betas": [0.8, 0.95]}}
BASE = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.25,
    "optimizer": ADAMW,
    "zero_allow_untested_optimizer": True,
}


def config(stage, dtype="bf16", *, zero=None, **more):
    """A config at a stage, in a dtype."""
    section = {"stage": stage, **(GATHERED if stage == 3 else {}), **(zero or {})}
    precision = {} if dtype == "fp32" else {dtype: {"enabled": True}}
    return {**BASE, **precision, "zero_optimization": section, **more}


def found(verdict):
    """The checks that are not as they should be."""
    assert verdict.error is None
    return {check.id for check in verdict.checks if check.status not in ("pass", "skip")}


def said(verdict, name):
    """The check with this id."""
    (check,) = (check for check in verdict.checks if check.id == name)
    return check


def passes(verdict):
    """Whether all four checks looked and found nothing."""
    return {name: said(verdict, name).status for name in CHECKS} == dict.fromkeys(CHECKS, "pass")


# ------------------------------------------------------------------------------------------------------------- broken

# Every fault, with the check that is about it and what its message says; the stages and dtypes are those below.
FAULTS = {
    "double gradients": ("averaging", "2 times larger"),
    "summed over ranks": ("averaging", "the number of ranks"),
    "undivided loss": ("averaging", "the number of micro steps"),
    "last micro step": ("averaging", "micro step 1 does not count"),
    "last rank missing": ("averaging", "rank 1 does not count"),
    "nothing exchanged": ("averaging", "those of the rank alone"),
    "no weight decay": ("update", "without weight decay"),
    "other betas": ("update", "step 2 "),
    "other epsilon": ("update", "step 1 "),
    "Adam for AdamW": ("update", "step 1 "),
    "weights never move": ("update", "no weight changes"),
    "optimizer is not called": ("update", "the optimizer is not called"),
    "weights never follow": ("weights", "after step 1"),
    "fp32 weights change": ("update", "they change before the step"),
    "same data": ("samples", "ranks 0 and 1"),
}
WHERE = [(2, "bf16"), (3, "bf16"), (1, "fp32"), (0, "fp32"), (3, "fp16"), (1, "bf16"), (2, "fp16"), (3, "fp32")]
# What cannot be broken so: without ZeRO in fp32 there are no fp32 weights beside those that the ranks compute with, so
# that weights which do not follow do not move either.
IMPOSSIBLE = {(name, 0, "fp32") for name in ("weights never follow", "fp32 weights change", "optimizer is not called")}
FIRST = {"double gradients": (0, "fp32"), "nothing exchanged": (3, "bf16"), "weights never follow": (3, "fp16")}
BROKEN = [
    pytest.param(name, stage, dtype, marks=() if (stage, dtype) == FIRST.get(name, (2, "bf16")) else pytest.mark.long)
    for name in FAULTS
    for stage, dtype in WHERE
    if (name, stage, dtype) not in IMPOSSIBLE
]


@pytest.mark.parametrize(("name", "stage", "dtype"), BROKEN)
def test_broken_arithmetic_fails_its_check(prove, mutating, name, stage, dtype):
    verdict = prove(config(stage, dtype), pool=mutating(name))
    check, words = FAULTS[name]
    assert verdict.status == "fail"
    assert check in found(verdict)
    assert words in said(verdict, check).message
    assert {one for one in CHECKS if one in found(verdict)} <= {check, *({"weights"} if stage == 0 else ())}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("double gradients", "averaging"),
        ("same data", "samples"),
        *(
            pytest.param(name, check, marks=pytest.mark.long)
            for name, check in [("last micro step", "averaging"), ("last rank missing", "averaging")]
        ),
    ],
)
@pytest.mark.long
def test_broken_arithmetic_fails_under_the_trainer_and_on_three_ranks(prove, mutating, name, check):
    auto = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "bf16": {"enabled": True}}
    arguments = {"bf16": True, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    trained = {**auto, "zero_optimization": {"stage": 2}}
    pool, options = mutating(name), RunOptions(ranks=3)
    assert check in found(prove(trained, stack="trainer", arguments=arguments, pool=pool, options=options))
    assert check in found(prove(config(2), pool=pool, options=options))


def test_a_rank_that_counts_little_less_is_seen_though_no_element_shows_it(prove, mutating):
    verdict = prove(config(2), pool=mutating("a rank counts less"))
    assert found(verdict) == {"averaging"}


def test_a_lost_state_of_the_loss_scaler_is_seen_on_resuming(prove, mutating):
    verdict = prove(config(2, "fp16"), pool=mutating("lost loss scaler"))
    assert found(verdict) == {"resume"}
    assert "loss scaler's cur_iter" in said(verdict, "resume").help


@pytest.mark.parametrize(
    ("rate", "decay"),
    [(1e-5, 0.01), *(pytest.param(*one, marks=pytest.mark.long) for one in [(1e-4, 0.01), (2e-5, 0.1)])],
)
def test_a_weight_decay_below_the_last_digit_of_a_weight_is_missed(prove, mutating, rate, decay):
    optimizer = {"type": "AdamW", "params": {"lr": rate, "weight_decay": decay}}
    assert found(prove(config(2, optimizer=optimizer), pool=mutating("no weight decay"))) == {"update"}


def test_stage_3_forgets_to_multiply_by_a_factor_that_is_the_number_of_ranks(prove):
    """The rule about the text alone says the same for each factor."""

    def is_reported(given):
        found = lint_dict(given, target=INSTALLED, stack="deepspeed", facts=Facts(world_size=2)).findings
        return "DS329" in {finding.code for finding in found}

    divided = config(3, gradient_predivide_factor=2.0, zero={"reduce_scatter": False})
    check = said(prove(divided), "averaging")
    assert (check.status, check.key) == ("fail", "gradient_predivide_factor")
    assert "2 times smaller" in check.message
    assert is_reported(divided)
    for harmless in ({"gradient_predivide_factor": 4.0}, {"prescale_gradients": True}):
        assert passes(prove({**divided, **harmless}))
        assert not is_reported({**divided, **harmless})


# -------------------------------------------------------------------------------------------------------------- right

RIGHT = [
    *((stage, dtype, {}, 2) for stage in (1, 2, 3) for dtype in ("fp32", "bf16", "fp16")),
    *((0, dtype, {}, 2) for dtype in ("fp32", "bf16")),  # in fp16, its loss is not scaled
    *((stage, dtype, {"zero": CPU}, 2) for stage in (1, 2, 3) for dtype in ("fp32", "bf16", "fp16")),
    *((stage, "bf16", {}, ranks) for stage in (0, 1, 2, 3) for ranks in (3, 5, 8)),
    *((stage, "fp16", {}, ranks) for stage in (1, 2, 3) for ranks in (3, 8)),
    *((stage, "bf16", {"gradient_accumulation_steps": 1}, 2) for stage in (0, 3)),
    *((stage, "bf16", {"gradient_clipping": clipping}, 2) for stage in (0, 2, 3) for clipping in (0, 1e-3)),
    *((stage, "fp16", {"fp16": {"enabled": True, "loss_scale": 128}}, 2) for stage in (1, 2, 3)),
    *((stage, "fp16", {"fp16": {"enabled": True, "initial_scale_power": 20, "hysteresis": 1}}, 2) for stage in (1, 3)),
    *((2, dtype, {"communication_data_type": by}, 2) for dtype in ("fp32", "bf16") for by in ("fp32", "bf16", "fp16")),
    *((stage, "bf16", {"data_types": {"grad_accum_dtype": "fp32"}}, 2) for stage in (2, 3)),
    *((stage, "bf16", {"prescale_gradients": True}, 2) for stage in (0, 1)),
    (2, "bf16", {"zero": {"round_robin_gradients": True}}, 3),
    (2, "bf16", {"zero": {"overlap_comm": True, "contiguous_gradients": False}}, 2),
    (3, "bf16", {"zero": {"zero_hpz_partition_size": 2}}, 2),
    (3, "bf16", {"zero": {"offload_param": {"device": "cpu"}, **CPU}}, 2),
    (3, "bf16", {"zero": {"sub_group_size": 5000}}, 3),
    (2, "bf16", {"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4}}}, 2),
    (2, "bf16", {"optimizer": None}, 2),
    *(
        (stage, "bf16", {"optimizer": {"type": kind, "params": {"lr": 1e-3, "weight_decay": 0.1, **params}}}, 2)
        for stage in (1, 3)
        for kind, params in [
            ("Adam", {}),
            ("Adam", {"adam_w_mode": False}),
            ("AdamW", {"torch_adam": True}),
            ("AdamW", {"bias_correction": False, "eps": 1e-6}),
            ("Lion", {}),
            ("SGD", {"momentum": 0.9, "nesterov": True}),
        ]
    ),
]  # fmt: skip
SOON = [(0, "fp32", {}, 2), (2, "bf16", {}, 3), (3, "fp16", {}, 3)]


def without_nothing(changes):
    """A config without the keys that are None."""
    return {name: value for name, value in changes.items() if value is not None}


@pytest.mark.parametrize(
    ("stage", "dtype", "changes", "ranks"),
    [pytest.param(*one, marks=() if one in SOON else pytest.mark.long) for one in RIGHT],
    ids=str,
)
def test_right_arithmetic_passes(prove, stage, dtype, changes, ranks):
    verdict = prove(without_nothing(config(stage, dtype, **changes)), options=RunOptions(ranks=ranks))
    assert passes(verdict), [said(verdict, name).message for name in CHECKS]


@pytest.mark.parametrize(
    ("model", "stage", "ranks"),
    [
        ("t5", 2, 1),
        ("falcon", 0, 2),
        *(pytest.param(name, 0, 1, marks=pytest.mark.long) for name in ("llama", "gemma2")),
    ],
)
def test_the_factor_that_clips_is_rounded_for_all_elements_alike(prove, tmp_path, model, stage, ranks):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model}))
    made = config(stage, "fp32", gradient_clipping=1.0, optimizer={"type": "AdamW", "params": {"lr": 1e-3}})
    verdict = prove(made, model=str(tmp_path), options=RunOptions(ranks=ranks))
    assert said(verdict, "averaging").status == "pass", said(verdict, "averaging").message


@pytest.mark.parametrize("stage", [2, *(pytest.param(stage, marks=pytest.mark.long) for stage in (0, 1, 3))])
@pytest.mark.parametrize("dtype", ["fp32", pytest.param("bf16", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "arguments",
    [
        {"weight_decay": 0.1, "adam_beta1": 0.8, "adam_epsilon": 1e-6},
        pytest.param({"gradient_accumulation_steps": 1, "lr_scheduler_type": "cosine"}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_right_arithmetic_passes_under_the_trainer(prove, stage, dtype, arguments):
    auto = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
    section = {"stage": stage, **(GATHERED if stage == 3 else {})}
    given = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, **arguments}
    precision = {"bf16": True} if dtype == "bf16" else {}
    trained = {**auto, "bf16": {"enabled": "auto"}, "zero_optimization": section}
    verdict = prove(trained, stack="trainer", arguments={**given, **precision})
    assert passes(verdict), [said(verdict, name).message for name in CHECKS]


@pytest.mark.long  # bert and opt at stage 3 are below, falcon and t5 above; t5 at stage 3 is in test_smoke_generate.py
@pytest.mark.parametrize("name", ["t5", "gpt2", "mixtral"])
@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_right_arithmetic_of_other_models_passes(prove, name, stage, dtype):
    verdict = prove(config(stage, dtype), model=os.path.join(ROOT, "tests", "models", name))
    assert passes(verdict), [said(verdict, name).message for name in CHECKS]


@pytest.mark.parametrize("dtype", ["bf16", pytest.param("fp32", marks=pytest.mark.long)])
def test_the_gradient_of_a_bias_may_be_roundoff_alone(prove, tmp_path, dtype):
    """Softmax does not change if the bias moves all keys, and ZeRO-3 multiplies matrices in an order of its own."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": ["BertForMaskedLM"]}))
    verdict = prove(config(3, dtype), model=str(tmp_path))
    assert passes(verdict), [said(verdict, name).message for name in CHECKS]


def test_the_linear_layers_of_stage_3_are_repeated(prove, tmp_path):
    """Where the input of a ReLU is nearly zero, its last digit decides about a gradient."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "opt"}))
    verdict = prove(config(3, gradient_clipping=1.0), model=str(tmp_path))
    assert passes(verdict), [said(verdict, name).message for name in CHECKS]


def test_a_step_of_zeros_that_deepspeed_makes_first_is_told(prove):
    assert "after a step with zero gradients" in said(prove(config(0, "bf16")), "update").message


WARM_UP = {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 1e-3, "warmup_num_steps": 10}}


@pytest.mark.parametrize(
    "changes",
    [
        {"scheduler": WARM_UP},  # the first step, with a learning rate of 0, does not show it
        # Weight decay in the gradient, which is then not zero.
        {"optimizer": {"type": "SGD", "params": {"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.1}}},
        {"optimizer": {"type": "Adam", "params": {"lr": 1e-3, "weight_decay": 0.1, "adam_w_mode": False}}},
    ],
    ids=["warm-up", "SGD", "Adam"],
)
def test_a_step_of_zeros_is_found_in_any_later_step(prove, changes):
    update = said(prove(config(0, "bf16", **changes)), "update")
    assert update.status == "pass", update.message
    assert "after a step with zero gradients" in update.message


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"optimizer": {"type": "Muon", "params": {"lr": 1e-3}}}, "optimizer.type", "Muon"),
        ({"torch_autocast": {"enabled": True, "dtype": "bfloat16"}, "bf16": None}, "torch_autocast.enabled", "cast"),
    ],
)
def test_what_has_no_reference_is_skipped_by_name(prove, changes, key, words):
    verdict = prove(without_nothing(config(2, **changes)))
    assert {said(verdict, name).status for name in CHECKS} == {"skip"}
    assert (said(verdict, "update").key, words in said(verdict, "update").message) == (key, True)


def test_arguments_of_an_optimizer_have_no_reference(prove):
    auto = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
    arguments = {"optim_args": "foreach=False"}
    verdict = prove({**auto, "zero_optimization": {"stage": 1}}, stack="trainer", arguments=arguments)
    assert "no arithmetic for `--optim_args foreach=False`" in said(verdict, "update").message


def test_gradients_are_compared_where_the_update_is_not(prove):
    verdict = prove(config(1, optimizer={"type": "Lamb", "params": {"lr": 1e-3}}))
    assert {name: said(verdict, name).status for name in CHECKS} == {
        "samples": "pass",
        "averaging": "pass",
        "update": "skip",
        "weights": "pass",
    }


# ---------------------------------------------------------------------------------------------------------- the rules


def torchs(kind, weights):
    """An optimizer of torch, in float32, and the rule with its hyperparameters."""
    import torch

    from ds_lint.smoke.records.job import UpdateRule

    shared = {"lr": 1e-3, "weight_decay": 0.1}
    if kind in ("Adam", "AdamW"):
        rule = UpdateRule(kind, "adam", 0.1, (0.9, 0.999), 1e-8, is_decoupled=kind == "AdamW")
        return getattr(torch.optim, kind)([weights], **shared), rule
    if kind == "Adagrad":
        return torch.optim.Adagrad([weights], **shared), UpdateRule(kind, "adagrad", 0.1, epsilon=1e-10)
    more = {"momentum": 0.9, "nesterov": kind == "nesterov"} if kind != "SGD" else {}
    rule = UpdateRule("SGD", "sgd", 0.1, momentum=more.get("momentum", 0.0), is_nesterov=kind == "nesterov")
    return torch.optim.SGD([weights], **shared, **more), rule


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Adagrad", "SGD", "momentum", "nesterov"])
def test_the_bounds_hold_for_float32_and_are_near(kind):
    import torch

    from ds_lint.smoke.expected.update_rules import Optimizer

    torch.manual_seed(0)
    weights = (torch.randn(20_000) * 0.02).requires_grad_()
    optimizer, rule = torchs(kind, weights)
    reference = Optimizer(rule, weights.numel())
    rate, decay = torch.full((20_000,), 1e-3).double(), torch.full((20_000,), 0.1).double()
    for _ in range(6):
        before = weights.detach().double()
        weights.grad = torch.randn(20_000) * 10.0 ** torch.randint(-9, 1, (20_000,))
        stepped = reference.step(before, weights.grad.double(), rate, decay)
        optimizer.step()
        share = (weights.detach().double() - stepped.weights).abs() / stepped.bound
        assert 0.1 < float(share.max()) <= 1
        assert float((stepped.bound / stepped.weights.abs().clamp(min=1e-4)).median()) < 1e-5


def test_the_bounds_hold_for_kernels_that_divide_fast():
    """AdamW in float32, whose quotients are 2 units in the last place too large, and roots ``2**-23`` too small."""
    import torch

    from ds_lint.smoke.expected.update_rules import Optimizer
    from ds_lint.smoke.records.job import UpdateRule

    torch.manual_seed(0)
    many, rate, decay = 20_000, 0.1, 0.1
    first, second, epsilon = 0.5, 0.75, 1e-8  # the same in float32
    weights, m, v = torch.randn(many) * 0.02, torch.zeros(many), torch.zeros(many)
    exact, fast = (
        Optimizer(
            UpdateRule("AdamW", "adam", decay, (first, second), epsilon, is_decoupled=True, is_fast=is_fast), many
        )
        for is_fast in (False, True)
    )
    rates, decays = torch.full((many,), rate).double(), torch.full((many,), decay).double()
    for step in range(1, 7):
        before, gradient = weights.clone(), torch.randn(many) * 10.0 ** torch.randint(-6, 1, (many,))
        m, v = first * m + (1 - first) * gradient, second * v + (1 - second) * gradient * gradient
        root = ((v / (1 - second**step)) * (1 - 2**-22)).sqrt() * (1 - 2**-23)
        change = (m / (1 - first**step)) * (1 + 2**-22) / (root + epsilon) * (1 + 2**-22)
        weights = before - rate * (change + decay * before)
        narrow, wide = (one.step(before.double(), gradient.double(), rates, decays) for one in (exact, fast))
        share = (weights.double() - wide.weights).abs() / wide.bound
        assert 0.2 < float(share.max()) <= 1
        assert float((wide.bound / narrow.bound).max()) < 2.5


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_gradients_that_are_not_finite_are_a_sum_of_nothing(value):
    """LAPACK raises over them, so that the run would end with an error of ds-lint instead of its failures."""
    import torch

    from ds_lint.smoke.rank import deviations

    observed, parts, bound = (
        torch.tensor([2.0, 4.0]),
        torch.tensor([[1.0, 2.0], [1.0, 0.0]]),
        torch.tensor([1e-6, 1e-6]),
    )
    assert deviations.shares_of(observed, parts, bound) == pytest.approx([2, 0], abs=1e-5)
    assert deviations.shares_of(torch.tensor([2.0, value]), parts, bound) is None
    assert deviations.shares_of(observed, torch.tensor([[1.0, value], [1.0, 0.0]]), bound) is None
