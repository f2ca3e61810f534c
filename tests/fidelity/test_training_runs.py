"""What the rules say of training arguments, schedules and saving is what becomes of a run with the real Trainer.

A run takes some five seconds, in a process of its own.
"""

from __future__ import annotations

import json

import pytest
from linted import lint_dict, lint_document

from ds_lint.source import documents

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from installed import INSTALLED, measured_with_the_newest
from training import train

from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.linter.engine import every_rule

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

BASE = {"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto"}
STAGE_2 = {**BASE, "zero_optimization": {"stage": 2}}
STAGE_3 = {**BASE, "zero_optimization": {"stage": 3}}
GATHERED = {**BASE, "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}}
OFFLOADED = {**BASE, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
ADAMW = {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}}
SAVED = {"save_strategy": "steps", "save_steps": 4}
LEARNING_RATE = 5e-5  # the default of TrainingArguments


def scheduler(kind, **params):
    return {"type": kind, "params": {"warmup_min_lr": "auto", "warmup_num_steps": "auto", **params}}


def findings(config, arguments):
    """The findings about the config, also of the rules that are off by default, by their names."""
    report = lint_document(
        documents.from_bytes(json.dumps(config).encode(), "config.json"),
        stack="trainer",
        target=INSTALLED,
        facts=gather(Sources(trainer_args=arguments)),
        rules=every_rule(),
    )
    return {finding.name: finding for finding in report.findings}


# ------------------------------------------------------------------------------------------- what the Trainer refuses

REFUSED = {
    "auto-find-batch-size-at-stage-3": (GATHERED, {"auto_find_batch_size": True}, "Trainer"),
    "best-model-without-states": (
        STAGE_2,
        {"save_only_model": True, "load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 4},
        "Trainer",
    ),
    "fsdp-beside-deepspeed": (STAGE_2, {"fsdp": "full_shard"}, "Trainer"),
    "learning-rate-of-the-scheduler": (
        {
            **STAGE_2,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
            "scheduler": scheduler("WarmupLR", warmup_max_lr=1e-3),
        },
        None,
        "train",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_trainer_refuses(name):
    config, arguments, at = REFUSED[name]
    assert train(config, {**SAVED, **(arguments or {})}).at == at
    finding = findings(config, arguments)[name]
    assert (finding.effect, finding.stage) == ("rejected", "initialize")


AS_SAID = {  # config, arguments, where it stops, a part of the error, the stage that the finding names
    "adagrad-at-zero": (STAGE_2, {"optim": "adagrad"}, "train", "index out of range", "train"),
    "schedule-of-wrapped-optimizer": (STAGE_2, {"lr_scheduler_type": "polynomial"}, "train", "defaults", "initialize"),
    "training-arguments-refused": (
        {**STAGE_2, "optimizer": ADAMW},
        {"lr_scheduler_type": "cosine_with_min_lr"},
        "train",
        "min_lr_rate should be set",
        "initialize",
    ),
    "optimizer-without-type": (
        {**STAGE_2, "optimizer": {"params": {"lr": "auto"}}},
        {},
        "train",
        "requires an optimizer",
        "initialize",
    ),
    "scheduler-without-type": (
        {**STAGE_2, "scheduler": {"params": {"warmup_num_steps": "auto"}}},
        {},
        "train",
        "get_last_lr",
        "train",
    ),
    "precision-null": ({**STAGE_2, "bf16": None}, {}, "Trainer", "mixed_precision", "initialize"),
    "refused-parameter": (
        {**STAGE_2, "optimizer": {**ADAMW, "params": {"lr": None}}},
        {},
        "train",
        "NoneType",
        "initialize",
    ),
    "old-offload-with-own-optimizer": (
        {**BASE, "zero_optimization": {"stage": 2, "cpu_offload": True}},
        {},
        "train",
        "client provided optimizer",
        "initialize",
    ),
    "stage-missing-on-save": ({**BASE, "zero_optimization": {}}, {}, "train", "KeyError: 'stage'", None),
}


@pytest.mark.parametrize("name", AS_SAID)
def test_a_run_stops_where_the_finding_says(name):
    config, arguments, at, error, stage = AS_SAID[name]
    run = train(config, {**SAVED, **arguments})
    assert (run.at, error in str(run.error)) == (at, True), run.error
    assert findings(config, arguments or {"seed": 1})[name].stage == stage


@pytest.mark.parametrize(("section", "dtype"), [("bf16", "torch.bfloat16"), ("bfloat16", "torch.float32")])
def test_the_old_name_of_bf16_switches_nothing_on(section, dtype):
    config = {**STAGE_2, section: {"enabled": True}}
    arguments = {"bf16": True} if section == "bf16" else {}
    assert train(config, arguments).dtype == dtype
    unread = {
        finding.key
        for finding in lint_dict(config, target=INSTALLED, stack="trainer").findings
        if finding.effect == "ignored"
    }
    assert unread == ({"bfloat16"} if section == "bfloat16" else set())


def test_no_bf16_is_missed_beside_fp16():
    config = {**STAGE_2, "fp16": {"enabled": True}, "bf16": None}
    assert train(config, {"fp16": True}).at == "Trainer"
    assert findings(config, {"fp16": True})["precision-null"].stage == "initialize"


def test_a_schedule_is_built_before_the_optimizer_of_the_config_is_wrapped():
    config, arguments = {**STAGE_2, "optimizer": ADAMW}, {"lr_scheduler_type": "polynomial"}
    assert train(config, {**SAVED, **arguments}).error is None
    assert "schedule-of-wrapped-optimizer" not in findings(config, arguments)


def test_inputs_with_a_name_are_not_cast():
    config = {**STAGE_2, "fp16": {"enabled": False, "auto_cast": True}}
    assert train(config, SAVED).error is None
    assert "auto-cast-without-fp16" not in findings(config, {"seed": 1})


def test_evaluation_alone():
    run = train(STAGE_2, {}, evaluate=True)
    assert (run.at, "ZeRO inference" in str(run.error)) == ("evaluate", True)
    assert "evaluation-below-stage-3" in findings(STAGE_2, {"do_eval": True})
    assert train(GATHERED, {}, evaluate=True).error is None
    assert "evaluation-below-stage-3" not in findings(GATHERED, {"do_eval": True})


# ------------------------------------------------------------------------------------------------------- learning rate


def test_the_schedule_of_the_config_wins():
    config = {**STAGE_2, "optimizer": ADAMW, "scheduler": scheduler("WarmupLR", warmup_max_lr="auto")}
    arguments = {**SAVED, "lr_scheduler_type": "cosine", "warmup_steps": 2}
    run = train(config, arguments)
    assert run.scheduler == "WarmupLR"
    assert run.rates[2:] == [LEARNING_RATE, LEARNING_RATE]
    assert findings(config, arguments)["lr-scheduler-type-overridden"].effect == "overridden"
    del config["scheduler"]
    assert train(config, arguments).rates[-1] < LEARNING_RATE
    assert "lr-scheduler-type-overridden" not in findings(config, arguments)


def test_a_missing_maximum_is_a_learning_rate_of_its_own():
    config = {**STAGE_2, "optimizer": ADAMW, "scheduler": scheduler("WarmupDecayLR", total_num_steps="auto")}
    assert max(train(config, {**SAVED, "warmup_steps": 2}).rates) == 1e-3
    assert findings(config, {"warmup_steps": 2})["learning-rate-of-the-scheduler"].effect == "overridden"


def test_a_schedule_that_is_all_warm_up():
    params = {"warmup_max_lr": "auto", "warmup_type": "linear", "warmup_num_steps": 8, "total_num_steps": 4}
    config = {**STAGE_2, "optimizer": ADAMW, "scheduler": scheduler("WarmupDecayLR", **params)}
    rates = train(config, {**SAVED, "warmup_steps": 8}).rates
    assert rates == sorted(rates)
    assert rates[-1] == LEARNING_RATE / 4
    assert "schedule-is-all-warm-up" in findings(config, {"warmup_steps": 8, "max_steps": 4})


@pytest.mark.parametrize(("kind", "share"), [(None, 0.5), ("linear", 0.25)])
def test_half_of_a_logarithmic_warm_up_is_done_in_the_square_root_of_its_steps(kind, share):
    params = {"warmup_max_lr": "auto"} | ({"warmup_type": kind} if kind else {})
    config = {**STAGE_2, "scheduler": scheduler("WarmupLR", **params)}
    rates = train(config, {**SAVED, "warmup_steps": 4, "learning_rate": 1.0}).rates
    # The scheduler begins with 0, and counts from 0: two steps of four are done before the third is taken.
    assert rates[2] == pytest.approx(share)
    assert ("logarithmic-warm-up" in findings(config, {"warmup_steps": 4})) == (kind is None)


# ----------------------------------------------------------------------------------------------------------- optimizer


def test_the_optimizer_of_the_config_wins():
    config, arguments = {**STAGE_2, "optimizer": ADAMW}, {"optim": "adafactor"}
    assert train(config, {**SAVED, **arguments}).optimizer == "FusedAdam"
    assert findings(config, arguments)["optim-overridden"].effect == "overridden"


def test_adam_is_adamw():
    config, arguments = {**STAGE_2, "optimizer": {**ADAMW, "type": "Adam"}}, {"weight_decay": 0.1}
    run = train(config, {**SAVED, **arguments})
    assert (run.optimizer, bool(run.decouples)) == ("FusedAdam", True)
    assert "adam-is-adamw" in findings(config, arguments)


def test_the_optimizer_of_the_config_has_one_group():
    arguments = {"weight_decay": 0.1}
    config = {**STAGE_2, "optimizer": ADAMW}
    assert train(config, {**SAVED, **arguments}).decays == [0.1]
    assert "weight-decay-on-all" in findings(config, arguments)
    assert train(STAGE_2, {**SAVED, **arguments}).decays == [0.1, 0.0]


@pytest.mark.parametrize(
    ("optim", "effect", "at"),
    [
        ("adamw_torch", None, None),
        ("adamw_torch_fused", None, None),
        ("sgd", "overridden", None),
        ("rmsprop", "overridden", None),
        ("adagrad", "rejected", "train"),
        ("adafactor", "rejected", "train"),
    ],
)
def test_offload_replaces_the_optimizer(optim, effect, at):
    run = train(OFFLOADED, {**SAVED, "optim": optim})
    finding = findings(OFFLOADED, {"optim": optim}).get("optim-replaced-by-offload")
    assert (finding and finding.effect, run.at) == (effect, at), run.error
    if finding is None or finding.effect == "overridden":
        assert run.optimizer == "DeepSpeedCPUAdam"
        assert run.decouples == (finding is None)
    else:
        assert finding.stage == ("initialize" if run.optimizer is None else "train")


def test_an_optimizer_that_is_kept():
    config = {**OFFLOADED, "zero_force_ds_cpu_optimizer": False}
    assert train(config, {**SAVED, "optim": "sgd"}).optimizer == "SGD"
    assert "optim-replaced-by-offload" not in findings(config, {"optim": "sgd"})


# -------------------------------------------------------------------------------------------------------------- saving


@pytest.mark.parametrize(
    ("config", "is_saved"), [(STAGE_2, True), (STAGE_3, False), (GATHERED, True)], ids=["2", "3", "3, gathered"]
)
def test_weights_are_saved_where_they_are_gathered(config, is_saved):
    run = train(config, SAVED)
    assert ("model.safetensors" in run.saved) == is_saved
    assert ("model.safetensors" in run.checkpoint) == is_saved
    assert ("weights-not-gathered-on-save" in findings(config, SAVED)) != is_saved


GATHER = "stage3_gather_16bit_weights_on_model_save"


@pytest.mark.parametrize(
    ("key", "written", "arguments"),
    [
        (GATHER, False, SAVED),
        (GATHER, "auto", {"save_strategy": "no"}),
        ("stage3_gather_fp16_weights_on_model_save", False, {**SAVED, "save_only_model": True}),  # its old name
    ],
    ids=["off", "auto", "old name"],
)
def test_a_key_that_is_off_leaves_no_model(key, written, arguments):
    config = {**BASE, "zero_optimization": {"stage": 3, key: written}}
    run = train(config, arguments)
    assert (run.at, run.error) == (None, None)
    assert "global_step4" in run.saved
    assert not [
        name for name in (*run.saved, *run.checkpoint) if name.endswith((".safetensors", ".bin")) and "args" not in name
    ]
    finding = findings(config, arguments)["weights-not-gathered-on-save"]
    assert (finding.severity, finding.effect) == ("warning", "risk")


def test_evaluation_alone_saves_nothing():
    assert train(STAGE_3, {}, evaluate=True).error is None
    assert "weights-not-gathered-on-save" not in findings(STAGE_3, {"do_eval": True})
    assert "weights-not-gathered-on-save" in findings(STAGE_3, {"do_eval": True, "do_train": True})
    assert "weights-not-gathered-on-save" in findings(STAGE_3, {"do_eval": True, "eval_strategy": "steps"})


def test_only_the_model_is_saved_where_it_can_be():
    arguments = {**SAVED, "save_only_model": True}
    assert "global_step4" not in train(STAGE_2, arguments).checkpoint
    assert "resume-without-states" in findings(STAGE_2, {**arguments, "resume_from_checkpoint": "True"})
    assert "global_step4" in train(STAGE_3, arguments).checkpoint
    assert "resume-without-states" not in findings(STAGE_3, {**arguments, "resume_from_checkpoint": "True"})


def test_a_model_alone_is_not_resumed_from():
    run = train(STAGE_2, {**SAVED, "save_only_model": True}, resume=True)
    assert (run.at, "Can't find a valid checkpoint" in str(run.error)) == ("resume", True)
