"""Scripts whose DeepSpeed breaks promises, started as users start them: each broken promise fails its check."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys

import pytest
from command_line import ROOT, clean_environment
from installed import measured_with_the_newest

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]
SCRIPTS = os.path.join(ROOT, "tests", "fidelity", "programs", "scripts")
SECONDS = 240

BASE = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.05,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
}
BF16 = {**BASE, "bf16": {"enabled": True}}
STAGE_2 = {**BF16, "zero_optimization": {"stage": 2}}
WHOLE = {"stage": 3, "stage3_param_persistence_threshold": 0, "stage3_gather_16bit_weights_on_model_save": True}
STAGE_3 = {**BF16, "zero_optimization": WHOLE}
OFFLOADED = {**BF16, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
FP16 = {**BASE, "fp16": {"enabled": True, "initial_scale_power": 8}, "zero_optimization": {"stage": 2}}
SCHEDULED = {**STAGE_2, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 9, "warmup_type": "linear"}}}
SCHEDULED_3 = {**SCHEDULED, "zero_optimization": WHOLE}
GROWING = {**FP16, "fp16": {"enabled": True, "initial_scale_power": 8, "loss_scale_window": 1}}
STATIC = {**FP16, "fp16": {"enabled": True, "loss_scale": 128}}
TOO_HIGH = {**FP16, "fp16": {"enabled": True, "initial_scale_power": 26, "hysteresis": 1}}
STAGE_0 = {**BASE, "zero_optimization": {"stage": 0}}
OF_TRAINER = {
    **dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"), "auto"),
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
    "zero_optimization": WHOLE,
}


PLAIN, LOOP, TRAINER, PIPELINE = "plain.py", "accelerated_loop.py", "trainer.py", "stages.py"
COURSES = "courses.py"
SINGLE = {**BASE, "gradient_accumulation_steps": 1, "gradient_clipping": 0.0}
NO_AVERAGE = "not the average over ranks and micro steps"
OTHER_WEIGHTS = "computes with other weights than the fp32 weights of that step"
# Script, ranks, config, and for each fault the check that names it, with its words; faults that do not hide each other
# share a run. What these break in another check has no name.
FAULTS = [
    (PLAIN, 2, SCHEDULED, {
        "rates are a step late": ("learning-rate", "step 2 has the learning rate 0.0001111111, but the config asks"),
        "divided twice": ("averaging", "the loss of a micro step is multiplied by 0.25, not by 1/2"),
        "decay for all": ("update", "by 0.1, but the script asks for 0"),
        "evaluation changes weights": ("weights", "a forward pass without training changes what rank 0 trains"),
        "same data later": ("samples", "ranks 0 and 1 train on the same inputs from micro step 3 on"),
    }),
    (LOOP, 3, SCHEDULED_3, {
        "never divided": ("averaging", "the loss of a micro step is multiplied by 1, not by 1/2"),
        "decay for all": ("update", "by 0.1, but the script asks for 0.01"),
        "stale copy later": ("weights", f"rank 2 {OTHER_WEIGHTS}"),
        "": ("recovery", "wrong values"),
    }),
    (PLAIN, 5, STAGE_2, {
        "other rate on the last rank": ("learning-rate", "rank 4 steps with the learning rate 0.002 in step 1"),
        "norm of a rank": ("clipping", "a step used a gradient of norm"),
        "average without a rank": ("averaging", NO_AVERAGE),
        "some weights stay": ("update", "other fp32 weights than the documented arithmetic of FusedAdam"),
    }),
    (TRAINER, 3, OF_TRAINER, {
        "rates are a step late": ("learning-rate", "step 1 has the learning rate 0.00099, but"),
        "norm of a rank": ("clipping", "`max_grad_norm` asks for at most 0.05"),
        "average without a rank": ("averaging", NO_AVERAGE),
        "same data later": ("samples", "train on the same inputs from micro step 3 on"),
    }),
    (PLAIN, 2, GROWING, {
        "scale never grows": ("loss-scale", "after step 2, the loss scale of rank 0 is 2^8, not 2^9"),
    }),
    (PLAIN, 2, STATIC, {
        "other loss scale": ("loss-scale", "is 2^10, not 2^7"),
        "scale is not undone": ("averaging", NO_AVERAGE),
        "": ("clipping", "a step used a gradient of norm"),
    }),
    (PLAIN, 2, STATIC, {
        "unscaled on the last rank": ("loss-scale", "multiplied by 1, but the gradients are divided by 128"),
    }),
    (LOOP, 2, STAGE_2, {
        "weights of one rank": ("export", "of the saved model have another shape than the trained ones"),
        "some weights stay": ("update", "other fp32 weights than the documented arithmetic of FusedAdam"),
    }),
    (LOOP, 3, STAGE_0, {
        "optimizer lacks a parameter": ("averaging", "without gradients of parameters that the script gives it"),
    }),
]  # fmt: skip


@pytest.fixture
def said(tmp_path):
    """Starts a script whose DeepSpeed breaks promises; the status, and what the checks say that fail."""
    if any(importlib.util.find_spec(one) is None for one in ("torch", "deepspeed", "transformers", "accelerate")):
        pytest.skip("the libraries are not installed")  # importing them here would take seconds

    def said(script, broken, config, *options, arguments=None, ranks=2, variables=(), later=""):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # A shell script with a process for each rank: torchrun takes seconds to be imported itself.
        starts = (f'RANK={rank} LOCAL_RANK={rank} $PYTHON $SCRIPT & ranks="$ranks $!";' for rank in range(ranks))
        (tmp_path / "train.sh").write_text(
            f'{" ".join(starts)} for one in $ranks; do wait "$one" || exit 1; done\n{later}'
        )
        report = tmp_path / "report.json"
        variables = dict(variables) | {
            "PYTHON": sys.executable, "SCRIPT": os.path.join(SCRIPTS, script), "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "SABOTAGE": broken,
            "DS_CONFIG": json.dumps(config), "ARGUMENTS": json.dumps(arguments or {}),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "ds_lint", "smoke", "--isolated", "--output-format", "json", "--output-file",
             str(report), "--cpu", "--timeout", str(SECONDS), *options, "--", "sh", "train.sh"],
            cwd=tmp_path, env={**clean_environment(), **variables}, capture_output=True, text=True, check=False,
            timeout=3 * SECONDS,
        )  # fmt: skip
        assert report.exists(), done.stderr[-3000:]
        (verdict,) = json.loads(report.read_text())["smoke"]
        assert verdict["error"] is None, verdict["error"]
        failed = [one for one in verdict["checks"] if one["status"] not in ("pass", "skip")]
        return done.returncode, [(one["id"], one["message"]) for one in failed]

    return said


@pytest.fixture
def smoke(said):
    """The same; the status, and the ids of the checks that fail."""

    def smoke(*arguments, **more):
        status, failed = said(*arguments, **more)
        return status, {name for name, _ in failed}

    return smoke


OF_SCRIPT = {"BACKWARD": "of the script"}


@pytest.mark.parametrize(
    ("config", "ranks"),
    [
        pytest.param(STAGE_2, 2, id="bf16, stage 2", marks=pytest.mark.long),  # the next test has it too
        pytest.param(STAGE_3, 3, id="bf16, stage 3", marks=pytest.mark.long),
        pytest.param(FP16, 2, id="fp16, stage 2", marks=pytest.mark.long),
    ],
)
def test_a_script_that_calls_backward_of_the_loss_is_checked_to_its_end(said, config, ranks):
    status, failed = said(PLAIN, "", config, ranks=ranks, variables=OF_SCRIPT)
    assert (status, failed) == (0, [])


@pytest.mark.parametrize("variables", [pytest.param({}, marks=pytest.mark.long), OF_SCRIPT])
def test_a_script_that_recomputes_a_layer_in_its_backward_pass_passes(said, variables):
    assert said(PLAIN, "", STAGE_2, variables={**variables, "RECOMPUTES": "1"}) == (0, [])


@pytest.mark.long
def test_a_model_in_evaluation_mode_trains_too(said, tmp_path):
    assert said(PLAIN, "", STAGE_2, variables={"MODE": "eval"}) == (0, [])
    (run,) = json.loads((tmp_path / "report.json").read_text())["smoke"]
    passed = {check["id"] for check in run["checks"] if check["status"] == "pass"}
    assert {"batch", "samples", "averaging", "update", "resume"} <= passed


def test_a_fault_is_noticed_in_a_script_that_calls_backward_of_the_loss(said):
    _, failed = said(PLAIN, "average without a rank", STAGE_2, "--no-resume", ranks=3, variables=OF_SCRIPT)
    assert any(check == "averaging" and NO_AVERAGE in message for check, message in failed)


def test_promises_broken_in_a_plain_script_fail_their_checks(smoke):
    broken = "unsharded state, clips to less, same data, stale weights, shuffled names, rate"
    found = smoke("plain.py", broken, STAGE_2, "--no-resume")
    assert found == (
        1,
        {"optimizer-states", "clipping", "samples", "export", "recovery", "learning-rate"},
    )


def status_of(name, folder):
    """That of the first check with this id."""
    (run,) = json.loads((folder / "report.json").read_text())["smoke"]
    return next(one["status"] for one in run["checks"] if one["id"] == name)


@pytest.mark.long
def test_promises_broken_in_a_script_with_the_trainer_fail_their_checks(smoke):
    broken = "same data, clips to less, stale weights, rate"
    found = smoke("trainer.py", broken, OF_TRAINER, "--no-resume", arguments={"bf16": True})
    assert found == (1, {"samples", "clipping", "export", "learning-rate"})


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "config", "checks"),
    [
        (
            "whole parameter, does not clip, windows end early, empty weights, other masters",
            STAGE_3,
            {"parameters", "batch", "clipping", "averaging", "export", "recovery"},
        ),
        (
            "masters in 16 bit, a micro step is dropped, no tied weight, gradients are never freed",
            STAGE_2,
            {"memory", "dtypes", "batch", "export"},
        ),
    ],
)
def test_more_promises_broken_in_a_plain_script(smoke, broken, config, checks):
    assert smoke("plain.py", broken, config, "--no-resume") == (1, checks)


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "config"),
    [
        ("states are not loaded", STAGE_2),
        ("nothing is loaded", STAGE_2),
        ("other masters are loaded", STAGE_3),
        ("schedule is not loaded", SCHEDULED),
        ("step is forgotten", STAGE_2),
    ],
)
def test_a_checkpoint_that_is_not_brought_back_fails_to_resume(smoke, broken, config):
    assert smoke("plain.py", broken, config) == (1, {"resume"})


@pytest.mark.long
@pytest.mark.parametrize("config", [STAGE_2, STAGE_3, OFFLOADED, FP16, SCHEDULED])
def test_an_unbroken_plain_script_passes(smoke, tmp_path, config):
    assert smoke("plain.py", "nothing", config) == (0, set())
    assert status_of("resume", tmp_path) == "pass"


@pytest.mark.long
def test_an_unbroken_script_with_the_trainer_passes(smoke, tmp_path):
    assert smoke("trainer.py", "nothing", OF_TRAINER, arguments={"bf16": True}) == (0, set())
    assert status_of("resume", tmp_path) == status_of("export", tmp_path) == "pass"


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "ranks", "config", "faults"),
    FAULTS,
    ids=[f"{one[0]}, {one[1]} ranks, {', '.join(one[3])}" for one in FAULTS],
)
def test_each_fault_fails_the_check_that_names_it(said, script, ranks, config, faults):
    broken = ", ".join(filter(None, faults))
    status, failed = said(script, broken, config, "--no-resume", ranks=ranks, arguments={"bf16": True})
    assert status == 1
    assert {name for name, _ in failed} == {name for name, _ in faults.values()}
    for name, words in faults.values():
        assert any(words in message for id_, message in failed if id_ == name), failed


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "ranks", "config"),
    [(LOOP, 2, STAGE_2), (LOOP, 3, SCHEDULED_3), (LOOP, 5, STAGE_2), (PIPELINE, 2, STAGE_2), (PIPELINE, 4, STAGE_2)],
)
def test_unbroken_loops_of_accelerate_and_a_pipeline_pass(smoke, tmp_path, script, ranks, config):
    stage = {**config, "zero_optimization": {"stage": 1}} if script == PIPELINE else config
    assert smoke(script, "nothing", stage, ranks=ranks) == (0, set())
    assert status_of("resume", tmp_path) == "pass"


@pytest.mark.long
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_precision_that_only_accelerate_knows_counts(smoke, tmp_path, precision):
    config = {name: value for name, value in STAGE_2.items() if name != "bf16"}
    assert smoke(LOOP, "nothing", config, variables={"ACCELERATE_MIXED_PRECISION": precision}) == (0, set())
    assert status_of("dtypes", tmp_path) == "pass"


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "ranks", "config", "broken"),
    [
        (LOOP, 2, STAGE_2, "checkpoint before the step"),
        (PLAIN, 3, STAGE_3, "states of another rank"),
        (TRAINER, 2, OF_TRAINER, "a file is lost"),
    ],
)
def test_a_checkpoint_of_another_step_or_rank_or_without_a_file_fails(smoke, script, ranks, config, broken):
    status, failed = smoke(script, broken, config, ranks=ranks, arguments={"bf16": True})
    assert (status, "resume" in failed, failed <= {"resume", "recovery"}) == (1, True, True)


@pytest.mark.long
def test_adapters_beside_base_weights_without_elements_fail(said):
    variables = {"ADAPTERS": "1"}
    more = {"arguments": {"bf16": True}, "variables": variables}
    status, failed = said(TRAINER, "empty base weights", OF_TRAINER, "--no-resume", **more)
    assert (status, [name for name, _ in failed]) == (1, ["export"])
    assert "the weights file holds 8 empty tensors" in failed[0][1]


@pytest.mark.long
@pytest.mark.parametrize("config", [STAGE_0, OF_TRAINER])
def test_an_unbroken_script_without_zero_and_with_adapters_passes(smoke, config):
    script, more = (TRAINER, {"variables": {"ADAPTERS": "1"}}) if config is OF_TRAINER else (LOOP, {})
    assert smoke(script, "nothing", config, arguments={"bf16": True}, **more) == (0, set())


@pytest.mark.long
@pytest.mark.parametrize(
    ("config", "variables"),
    [
        pytest.param(
            {**STAGE_2, "managed_gradient_accumulation": False}, {}, id="the script finds the last micro step"
        ),
        pytest.param({**STAGE_3, "managed_gradient_accumulation": False}, {}, id="the same at stage 3"),
        pytest.param({**STAGE_2, "gradient_accumulation_steps": 1}, {"BACKWARD": "coalesced"}, id="coalesced"),
        pytest.param(STAGE_2, {"INPUTS": "embedded"}, id="inputs with a graph"),
        pytest.param(STAGE_3, {"INPUTS": "embedded"}, id="inputs with a graph at stage 3"),
    ],
)
def test_unbroken_scripts_that_train_in_other_ways_pass(smoke, config, variables):
    assert smoke(PLAIN, "nothing", config, variables=variables) == (0, set())


@pytest.mark.long
def test_only_the_first_launch_of_a_shell_script_runs(smoke, tmp_path):
    """What it has trained is led away, so a second one cannot start from it."""
    later = "for rank in 0 1; do RANK=$rank LOCAL_RANK=$rank $PYTHON evaluate.py; done; touch over\n"
    (tmp_path / "evaluate.py").write_text("import torch\ntorch.load('out/model.pt')\n")
    assert smoke(PLAIN, "nothing", STAGE_2, later=later) == (0, set())
    assert (tmp_path / "over").exists()


@pytest.mark.long
def test_a_state_of_a_stage_that_is_not_divided_among_its_ranks_is_noticed(said):
    config = {**STAGE_2, "zero_optimization": {"stage": 1}}
    status, failed = said(PIPELINE, "unsharded state", config, "--no-resume", ranks=4)
    assert (status, [name for name, _ in failed]) == (1, ["optimizer-states"])
    assert "the share of its part of the model at stage 1 on 2 ranks is 272" in failed[0][1]


# What a script does to the model by itself, the check that cannot be made then, and why.
OWN_COURSES = [
    ("freezes", "resume", "the script itself changes the model by its step (requires_grad of body.weight)"),
    ("anneals", "resume", "the script itself changes the model by its step (temperature)"),
    ("clamps", "resume", "the script changes weights between `engine.step` and its next forward pass"),
    ("a teacher follows", "frozen", "the script itself changes 2 of them outside `engine.step` (teacher.bias"),
    ("clips by itself", "averaging", "the script changes the gradients between its backward pass and its step"),
    ("two backward passes of one output", None, ""),
]


@pytest.mark.long
@pytest.mark.parametrize(("course", "check", "why"), OWN_COURSES, ids=[one[0] for one in OWN_COURSES])
def test_what_a_script_does_to_its_model_is_no_failure_of_deepspeed(said, tmp_path, course, check, why):
    _, failed = said(COURSES, "", {**SINGLE, "zero_optimization": {"stage": 0}}, variables={"COURSE": course})
    assert [name for name, _ in failed] == (["batch"] if check is None else [])  # a warning of two backward passes
    (run,) = json.loads((tmp_path / "report.json").read_text())["smoke"]
    skipped = {one["id"]: one["message"] for one in run["checks"] if one["status"] == "skip"}
    assert why in skipped.get(check, "")
    assert check is not None or "resume" not in skipped


@pytest.mark.long
def test_steps_of_other_numbers_of_micro_steps_are_not_repeated(said, tmp_path):
    """Of 11 rows, the epochs of 2 ranks end with a step of one micro step; the second start begins one."""
    variables = {"ROWS": "11"}
    status, failed = said(TRAINER, "nothing", OF_TRAINER, arguments={"bf16": True}, variables=variables)
    assert (status, failed) == (0, [])
    (run,) = json.loads((tmp_path / "report.json").read_text())["smoke"]
    (resume,) = [one for one in run["checks"] if one["id"] == "resume"]
    assert (resume["status"], "other numbers of micro steps" in resume["message"]) == ("skip", True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("adapters", "status"),
    [("modules_to_save", "pass"), ("named", "pass"), ("dora", "pass"), ("prompt", "skip")],
)
def test_adapters_are_found_under_the_names_that_peft_gives_them(said, tmp_path, adapters, status):
    variables = {"ADAPTERS": adapters}
    stage_2 = {**OF_TRAINER, "zero_optimization": {"stage": 2}}
    assert said(TRAINER, "nothing", stage_2, arguments={"bf16": True}, variables=variables) == (0, [])
    (run,) = json.loads((tmp_path / "report.json").read_text())["smoke"]
    export = next(one for one in run["checks"] if one["id"] == "export")  # the tied weights are another one
    assert export["status"] == status, export["message"]


@pytest.mark.long
def test_a_trainer_that_saves_in_its_own_way_is_no_failure(said, tmp_path):
    assert said(TRAINER, "nothing", OF_TRAINER, arguments={"bf16": True}, variables={"SAVES": "head"}) == (0, [])
    (run,) = json.loads((tmp_path / "report.json").read_text())["smoke"]
    export = next(one for one in run["checks"] if one["id"] == "export")
    assert (export["status"], export["message"]) == ("skip", "the Trainer of the script saves its model in its own way")


@pytest.mark.long
def test_gradients_that_the_script_sets_are_no_failure_of_zero(said, tmp_path):
    assert said(
        COURSES, "", {**SINGLE, "zero_optimization": {"stage": 2}}, variables={"COURSE": "halves gradients"}
    ) == (
        0,
        [],
    )
    (run,) = json.loads((tmp_path / "report.json").read_text())["smoke"]
    (averaging,) = [one for one in run["checks"] if one["id"] == "averaging"]
    assert averaging["message"] == "the script changes the gradients between its backward pass and its step"


@pytest.mark.long
def test_zero_does_not_add_up_two_backward_passes(said):
    """DeepSpeed itself loses the first: the optimizer gets another gradient than their sum."""
    variables = {"COURSE": "two backward passes of one output"}
    status, failed = said(
        COURSES, "", {**SINGLE, "zero_optimization": {"stage": 2}}, "--no-resume", variables=variables
    )
    assert (status, {name for name, _ in failed}) == (1, {"averaging", "batch"})
    assert "at stage 2 their gradients are not added up" in dict(failed)["batch"]


EVALUATION = {"train_micro_batch_size_per_gpu": 2}
SHARDED = {**EVALUATION, "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}}
OFFLOADED_3 = {**SHARDED, "zero_optimization": {**SHARDED["zero_optimization"], "offload_param": {"device": "cpu"}}}


@pytest.mark.long
@pytest.mark.parametrize(
    ("config", "case"),
    [(SHARDED, ""), (OFFLOADED_3, ""), (EVALUATION, "a rank has fewer batches"), (EVALUATION, "init_inference")],
)
def test_a_script_that_evaluates_passes(said, tmp_path, config, case):
    assert said("evaluates.py", "", config, variables={"CASE": case}) == (0, [])
    assert {status_of(name, tmp_path) for name in ("start", "parameters", "weights", "dtypes")} == {"pass"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "check", "words"),
    [
        ("a prefix", "weights", "4 of 4 parameters are in nothing that the script loads"),
        ("a rank has fewer batches", "start", "rank 0 waits in its 4th, and rank 1 makes 3"),
    ],
)
def test_an_evaluation_that_is_broken_fails(said, case, check, words):
    status, failed = said("evaluates.py", "", SHARDED, variables={"CASE": case})
    assert (status, [name for name, _ in failed]) == (1, [check])
    assert words in failed[0][1]
