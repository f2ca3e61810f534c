"""What the rules predict of a config is held against the run of the user's script."""

from __future__ import annotations

import json

import pytest
from linted import lint_dict
from newest import NEWEST
from smoke_runs import verdict

from ds_lint.facts import Facts
from ds_lint.output.secrets import MASK
from ds_lint.smoke.records.job import Raised
from ds_lint.smoke.script.command_start import CommandEnd
from ds_lint.smoke.script.predictions import (
    CONFIRMED,
    CONTRADICTED,
    NOT_TESTED,
    SeenRun,
    is_refusal,
    predictions,
    seen_run,
    with_predictions,
)
from ds_lint.smoke.script.processes import ScriptProcess
from ds_lint.smoke.script.restore import Restored

COMMAND = ["torchrun", "--nproc-per-node", "2", "train.py", "--hub_token", "hf_abcdefghijklmnopqrst"]
MICRO = {"train_micro_batch_size_per_gpu": 1}
NO_STAGE = {**MICRO, "zero_optimization": {"stage": 9}}
TWO_DTYPES = {**MICRO, "bf16": {"enabled": True}, "fp16": {"enabled": True}}
MISSPELLED = {**MICRO, "gradient_cliping": 1.0}
REFUSAL = Raised(
    "ValidationError", "1 validation error for DeepSpeedZeroConfig\nstage\n  Input should be less", "initialize",
    where="deepspeed/runtime/config_utils.py:57 __init__",
)  # fmt: skip


def report(config):
    return lint_dict(config, stack="deepspeed", facts=Facts(world_size=2))


def seen(**changes):
    """A run that made its steps on two CPU ranks, or what the changes make of it."""
    usual = {
        "stack": "deepspeed",
        "is_on_gpus": False,
        "has_engine": True,
        "is_whole": True,
        "is_over": True,
        "world_size": 2,
        "raised": None,
        "parted": "",
        "given": {},
        "unread": frozenset(),
        "versions": NEWEST,  # which the config is linted for
    }
    return SeenRun(**(usual | changes))


STOPPED = {"stack": None, "has_engine": False, "is_whole": False, "is_over": False, "world_size": None, "versions": {}}


def outcomes(found, run, *, size=2, is_by_all=True):
    return [
        (one.finding.code if one.finding else None, one.outcome)
        for one in predictions(found, run, size, is_by_all=is_by_all)
    ]


def test_a_rejection_is_confirmed_if_the_libraries_raise():
    assert outcomes(report(NO_STAGE), seen(**STOPPED, raised=REFUSAL)) == [("DS201", CONFIRMED)]


def test_a_rejection_is_contradicted_if_there_is_an_engine():
    assert outcomes(report(NO_STAGE), seen()) == [("DS201", CONTRADICTED)]
    assert outcomes(report(TWO_DTYPES), seen()) == [("DS401", CONTRADICTED)]


def test_an_error_of_the_script_itself_tests_nothing():
    raised = Raised("KeyError", "'stage'", "before initialize", where="train.py:31 main")
    assert outcomes(report(NO_STAGE), seen(**STOPPED, raised=raised)) == [("DS201", NOT_TESTED)]


@pytest.mark.parametrize(
    ("kind", "text", "where"),
    [
        ("ValueError", "--stage is not used by the HfArgumentParser", "transformers/hf_argparser.py:1 f"),
        ("ValidationError", "1 validation error for Recipe\nstage\n  Missing", "train.py:3 <module>"),
    ],
)
def test_an_error_of_a_library_that_is_not_about_the_config_tests_nothing(kind, text, where):
    raised = Raised(kind, text, "before initialize", where=where)
    assert outcomes(report(NO_STAGE), seen(**STOPPED, raised=raised)) == [("DS201", NOT_TESTED)]
    assert outcomes(report(MICRO), seen(**STOPPED, raised=raised)) == []


@pytest.mark.parametrize(
    ("where", "is_of_config"),
    [
        ("accelerate/utils/dataclasses.py:1277 __post_init__", True),
        ("deepspeed/runtime/engine.py:1 _configure", True),
        ("deepspeed/launcher/launch.py:1 main", False),
        ("transformers/modeling_utils.py:1 from_pretrained", False),
        ("train.py:31 main", False),
    ],
)
def test_what_is_raised_where_the_libraries_act_on_the_config_is_a_refusal(where, is_of_config):
    assert is_refusal(Raised("ValueError", "no", "before initialize", where=where)) is is_of_config


def test_a_model_that_the_script_wraps_contradicts_nothing():
    text = "The model's config file has neither `hidden_size` nor `hidden_sizes` entry, therefore ..."
    raised = Raised("ValueError", text, "before initialize", where="transformers/integrations/deepspeed.py:1 f")
    assert outcomes(report(MICRO), seen(**STOPPED, raised=raised)) == [(None, NOT_TESTED)]


def test_of_several_rejections_one_error_confirms_those_that_it_names():
    config = {**NO_STAGE, **TWO_DTYPES}
    assert outcomes(report(config), seen(**STOPPED, raised=REFUSAL)) == [("DS201", CONFIRMED), ("DS401", NOT_TESTED)]


LAMB = {**MICRO, "bf16": {"enabled": True}, "optimizer": {"type": "Lamb", "params": {"lr": 1e-3}}}


@pytest.mark.parametrize(
    ("where", "outcome"),
    [
        ("deepspeed/ops/lamb/fused_lamb.py:163 step", CONFIRMED),
        ("ds_lint/smoke/standins/kernels.py:300 lamb", CONFIRMED),
        ("train.py:31 main", NOT_TESTED),
    ],
)
def test_a_rejection_in_training_is_confirmed_if_the_engine_raises(where, outcome):
    raised = Raised("RuntimeError", '"lamb_cuda_kernel" not implemented for torch.bfloat16', "step", where=where)
    run = seen(raised=raised, is_whole=False, is_over=False)
    assert outcomes(report(LAMB), run) == [("DS530", outcome)]


def test_what_nothing_reads_is_confirmed_and_what_is_read_is_a_contradiction():
    found = report(MISSPELLED)
    unread = seen(given=MISSPELLED, unread=frozenset(["gradient_cliping"]))
    assert outcomes(found, unread) == [("DS101", CONFIRMED)]
    assert outcomes(found, seen(given=MISSPELLED)) == [("DS101", CONTRADICTED)]
    assert outcomes(found, seen(given=MICRO)) == [("DS101", NOT_TESTED)]  # the framework has left it out
    assert outcomes(found, seen(given=MISSPELLED, is_whole=False, is_over=False)) == [("DS101", NOT_TESTED)]


def test_a_name_with_dots_in_the_config_of_a_model_that_is_not_trained():
    dotted = {**MICRO, "zero_optimization.reduce_bucket_size": 1e6}
    run = seen(given=dotted, unread=frozenset(["zero_optimization.reduce_bucket_size"]), is_whole=False)
    assert outcomes(report(dotted), run) == [("DS101", CONFIRMED)]


@pytest.mark.parametrize(
    ("changes", "size"),
    [({"versions": {**NEWEST, "deepspeed": "0.14.5"}}, 2), ({}, 8)],
    ids=["another release", "another number of ranks"],
)
def test_a_run_of_something_else_contradicts_nothing(changes, size):
    assert outcomes(report(NO_STAGE), seen(**changes), size=size) == [("DS201", NOT_TESTED)]


def test_silence_about_a_config_that_the_libraries_reject_is_a_contradiction():
    good = report(MICRO)
    assert outcomes(good, seen()) == []
    stopped = seen(**STOPPED, raised=REFUSAL)
    assert outcomes(good, stopped) == [(None, CONTRADICTED)]
    assert outcomes(good, stopped, is_by_all=False) == [(None, NOT_TESTED)]
    assert outcomes(lint_dict(MICRO, stack="deepspeed"), stopped) == [(None, NOT_TESTED)]  # no number of ranks
    of_script = seen(**STOPPED, raised=Raised("RuntimeError", "boom", "initialize", where="deepspeed/comm/comm.py:1 f"))
    assert outcomes(good, of_script) == []


def test_a_contradiction_tells_how_to_reproduce_it_without_secrets():
    config = {**NO_STAGE, "hub_token": "hunter2-hunter2"}
    found = report(config)
    made = with_predictions(verdict(), found, seen(), COMMAND, 2, is_by_all=True)
    assert made.status == "warn"
    (check,) = (one for one in made.checks if one.id == "prediction" and one.status == "warn")
    assert check.message == "DS201 (refused-value) is contradicted: deepspeed.initialize made the engine"
    told = json.loads(check.help.partition("reproduction: ")[2])
    assert told == check.observed
    assert told["finding"] == "DS201"
    assert told["command"] == f"ds-lint smoke -- torchrun --nproc-per-node 2 train.py --hub_token {MASK}"
    assert told["config"]["hub_token"] == MASK
    assert told["config"]["zero_optimization"] == {"stage": 9}
    assert told["versions"] == NEWEST
    assert "hunter2" not in str(made)


def test_a_confirmed_finding_names_the_run():
    found = report(MISSPELLED)
    run = seen(given=MISSPELLED, unread=frozenset(["gradient_cliping"]))
    made = with_predictions(verdict(), found, run, COMMAND, 2, is_by_all=True)
    assert made.status == "pass"
    assert found.findings[0].confirmed == "nothing read `gradient_cliping`"


def stopped_at(*phases, status=None, unobserved=None):
    """A start of ranks in these phases, at the end of its time."""
    ranks = [
        ScriptProcess(number, number, None, phase, None, None, None, None, {}, [], [])
        for number, phase in enumerate(phases)
    ]
    return CommandEnd(status, 60.0, ranks, {}, [], [], Restored([], [], [], []), unobserved)


def test_one_rank_that_saves_alone_confirms_that_the_run_hangs():
    hung = seen_run(stopped_at("save", "step"), None).parted
    assert hung == "rank 0 while it saves, rank 1 in a training step"
    found = report(MISSPELLED)
    found.findings[0].code = "DS822"
    found.findings[0].effect = "risk"
    (one,) = predictions(found, seen(parted=hung), 2, is_by_all=True)
    assert (one.outcome, one.why) == (CONFIRMED, f"the run hangs: {hung}")
    assert list(predictions(found, seen(), 2, is_by_all=True)) == []


@pytest.mark.parametrize(
    "end",
    [
        stopped_at("save", "save"),
        stopped_at("step", "step"),
        stopped_at("save", "step", status=1),
        stopped_at("save", "step", unobserved="`python train.py`"),
    ],
)
def test_ranks_that_do_the_same_or_end_confirm_no_hang(end):
    assert seen_run(end, None).parted == ""
