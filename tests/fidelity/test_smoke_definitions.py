"""A fault that is the same on all ranks is seen: a run is compared with the config, the model and the data."""

from __future__ import annotations

import json
import os

import pytest
from command_line import ROOT
from installed import measured_with_the_newest

from ds_lint.smoke.small_run.options import RunOptions

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

GATHERED = {"stage3_gather_16bit_weights_on_model_save": True}
BASE = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.25,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01, "betas": [0.8, 0.95]}},
}
ARGUMENTS = {"bf16": True, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "weight_decay": 0.1}
AUTO = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}}


def config(stage, dtype="bf16", **section):
    """A config at a stage, in a dtype, with more in the section of the dtype."""
    precision = {} if dtype == "fp32" else {dtype: {"enabled": True, **section}}
    return {**BASE, **precision, "zero_optimization": {"stage": stage, **(GATHERED if stage == 3 else {})}}


def failed(verdict):
    """The failed checks, by their id."""
    assert (verdict.error, verdict.status) == (None, "fail")
    return {check.id: check.message for check in verdict.checks if check.status == "fail"}


def long(*one):
    return pytest.param(*one, marks=pytest.mark.long)


WHERE = [(1, "bf16", 2), (2, "fp16", 2), (3, "bf16", 3), (0, "fp32", 2)]
# Every fault, with the check that is about it and what its message says, and where it cannot be.
FAULTS = {
    "doubled buffers": ("weights", "another buffer model.rotary_emb.inv_freq", ()),
    "rounded buffers": ("weights", "another buffer model.rotary_emb.inv_freq", ()),
    "a buffer changes later": ("weights", "step 3 changes the buffer", ()),
    "other first weights": ("update", "they are not those of the model's definition", (0,)),
    "a gradient is missing": ("update", "no weight changes", (0,)),
    "no bias correction": ("update", "step 1 ", (0,)),
    "summed in one step": ("averaging", "step 2 ", ()),
    "a rank lost in one step": ("averaging", "rank 0 does not count", ()),
    "first micro step lost": ("averaging", "micro step 1 does not count", ()),
    "last micro step lost": ("averaging", "micro step 2 does not count", ()),
    "first backward skipped": ("averaging", "micro step 1 does not count", ()),
    "clips by own norm": ("clipping", "0.25", (0,)),
    "weights follow late": ("weights", "after step 2", (0,)),
    "first batch again": ("samples", "rank 0 trains", ()),
    "first batch again on rank 1": ("samples", "rank 1 trains", ()),
    "keeps whole gradients": ("memory", "between two micro steps", ()),
}
SOON = {("doubled buffers", 1), ("first backward skipped", 2), ("first batch again on rank 1", 1)}
SOON |= {("keeps whole gradients", 2)}
BROKEN = [
    pytest.param(name, *where, marks=() if (name, where[0]) in SOON else pytest.mark.long)
    for name, (_, _, impossible) in FAULTS.items()
    for where in WHERE
    if where[0] not in impossible
]


@pytest.mark.parametrize(("name", "stage", "dtype", "ranks"), BROKEN)
def test_a_fault_on_all_ranks_fails_its_check(prove, mutating, name, stage, dtype, ranks):
    verdict = prove(config(stage, dtype), pool=mutating(name), options=RunOptions(ranks=ranks))
    check, words, _ = FAULTS[name]
    assert words in failed(verdict)[check]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("the Trainer decays all", "step 1 "),
        long("the Trainer decays nothing", "without weight decay"),
        long("decay on all", "step 1 "),
        long("decay on the wrong group", "step 1 "),
    ],
)
@pytest.mark.parametrize("stage", [2, long(3)])
def test_the_trainer_decays_what_it_says_it_does(prove, mutating, name, words, stage):
    trained = {**AUTO, "zero_optimization": {"stage": stage, **GATHERED}}
    verdict = prove(trained, stack="trainer", arguments=ARGUMENTS, pool=mutating(name))
    assert words in failed(verdict)["update"]


@pytest.mark.long
def test_each_parameter_group_has_the_learning_rate(prove, mutating):
    trained = {**AUTO, "zero_optimization": {"stage": 2}}
    verdict = prove(trained, stack="trainer", arguments=ARGUMENTS, pool=mutating("last rate doubled"))
    assert "parameter group 1 of rank 0" in failed(verdict)["learning-rate"]


@pytest.mark.parametrize(
    ("name", "section", "words"),
    [
        ("scale never grows", {}, "after step 6, the loss scale of rank 0 is 2^16, not 2^17"),
        ("no hysteresis", {}, "is 2^16, not 2^17"),
        long("scale falls at once", {"hysteresis": 3}, "is 2^16, not 2^17"),
        long("scale never falls", {}, "is 2^17, not 2^16"),
        long("scale grows too early", {}, "after step 3, "),
        long("hysteresis refilled", {}, "is 2^17, not 2^16"),
        long("hysteresis refilled", {"consecutive_hysteresis": True}, "is 2^16, not 2^17"),
        long("scale falls to a quarter", {}, "is 2^15, not 2^16"),
        long("scale falls below the least", {"min_loss_scale": 8192}, "is 2^12, not 2^13"),
        long("own overflow only", {}, ""),
    ],
)
@pytest.mark.parametrize("stage", [2, *(long(stage) for stage in (1, 3))])
def test_the_course_of_the_loss_scale_is_that_of_the_config(prove, mutating, name, section, words, stage):
    assert words in failed(prove(config(stage, "fp16", **section), pool=mutating(name)))["loss-scale"]


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_head_that_is_not_tied_any_more_is_named(prove, mutating, tmp_path, ranks):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "tie_word_embeddings": true}')
    verdict = prove(config(2), model=str(tmp_path), pool=mutating("untied head"), options=RunOptions(ranks=ranks))
    assert "has the parameter lm_head.weight" in failed(verdict)["weights"]


@pytest.mark.long
def test_buffers_that_are_not_saved_are_named(prove, mutating, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "deepseek_v3"}')
    verdict = prove(config(2), model=str(tmp_path), pool=mutating("buffers are not saved"))
    assert "e_score_correction_bias" in failed(verdict)["export"]


@pytest.mark.parametrize("stage", [long(1), 2, long(3)])
def test_a_step_that_is_skipped_without_an_overflow_fails(prove, mutating, stage):
    verdict = prove(config(stage, "fp16"), pool=mutating("a step is skipped"))
    assert failed(verdict)["averaging"] == "step 2 is skipped, but no gradient overflows"


def test_a_reference_that_raises_leaves_the_failures_that_were_found(prove, mutating):
    pool = mutating("the reference raises")
    verdict = prove({**config(1), "gradient_clipping": 0.25, "zero_optimizations": {"stage": 2}}, pool=pool)
    assert {"error", "pass"} < {check.status for check in verdict.checks}
    assert (verdict.arithmetic, verdict.status) == ("not compared", "error")
    verdict = prove({**BASE, "bf16": {"enabled": True}, "zero_optimizations": {"stage": 2}}, pool=pool)
    assert "stage" in failed(verdict)


# ---------------------------------------------------------------------------------------------------------------- right


@pytest.mark.long
@pytest.mark.parametrize("stack", ["deepspeed", "trainer", "accelerate"])
@pytest.mark.parametrize("model", ["llama", "gpt2", "t5", "vision_text"])
@pytest.mark.parametrize(("stage", "dtype"), [(2, "bf16"), (3, "bf16"), (2, "fp32")])
def test_an_engine_that_does_what_it_should_passes(prove, stack, model, stage, dtype):
    given = config(stage, dtype)
    arguments = None
    if stack == "trainer":
        given = {**AUTO, "zero_optimization": given["zero_optimization"]}
        arguments = {**ARGUMENTS, "bf16": dtype == "bf16"}
    folder = os.path.join(ROOT, "tests", "models", model)
    verdict = prove(given, stack=stack, arguments=arguments, model=folder)
    wrong = {check.id: check.message for check in verdict.checks if check.status in ("fail", "error")}
    assert (wrong.keys() & {"samples", "averaging", "update", "weights", "memory"}, verdict.arithmetic) == (
        set(),
        "compared",
    )


@pytest.mark.parametrize(
    ("stage", "section"),
    [
        (1, {"hysteresis": 3, "consecutive_hysteresis": True, "min_loss_scale": 4096}),
        long(3, {"initial_scale_power": 20, "hysteresis": 1}),
        long(2, {"loss_scale": 128}),
        long(2, {"loss_scale_window": 2}),
        long(2, {"initial_scale_power": 32}),
    ],
)
def test_a_loss_scale_that_is_right_passes(prove, stage, section):
    verdict = prove(config(stage, "fp16", **section))
    (course,) = (one for one in verdict.checks if (one.id, one.unit) == ("loss-scale", "steps"))
    assert course.status == "pass", course.message
    assert not {one.key for one in verdict.checks if one.id == "coverage"} & {f"fp16.{name}" for name in section}


@pytest.mark.parametrize("name", ["llama", "gpt2", "t5", "mixtral", "olmoe", "phimoe", "qwen3_moe"])
def test_the_rule_of_decay_is_that_of_the_trainer(name):
    """The reference has the rule itself, since a run may have changed that of the Trainer."""
    transformers = pytest.importorskip("transformers")

    from ds_lint.smoke.rank import definition, training_model

    with open(os.path.join(ROOT, "tests", "models", name, "config.json"), encoding="utf-8") as file:
        model = training_model.build(training_model.recipe(json.load(file)))
    named = transformers.Trainer.get_decay_parameter_names(None, model)
    decayed = definition._decayed(model)
    assert decayed == set(named)
    assert 0 < len(decayed) < len(list(model.parameters()))
