"""``accelerate launch``: a config that is in its flags, and flags beside a YAML."""

from __future__ import annotations

import json

import pytest
from newest import FLAGS

SCRIPT = """\
from accelerate import Accelerator

accelerator = Accelerator({})
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    with accelerator.accumulate(model):
        accelerator.backward(model(batch))
        optimizer.step()
model.save(accelerator.get_state_dict(model))
"""
YAML = """\
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 2
  gradient_accumulation_steps: 4
mixed_precision: bf16
num_processes: 8
"""
LAUNCH = "accelerate launch --use_deepspeed --num_processes 2"


@pytest.fixture
def project(run, tmp_path):
    """A function that checks a project with a launching script, and gives the findings."""

    def check(command, *, argument="", files=None, path=".", options=()):
        (tmp_path / "train.py").write_text(SCRIPT.format(argument))
        (tmp_path / "run.sh").write_text(command)
        for name, text in (files or {}).items():
            (tmp_path / name).write_text(text)
        done = run("check", path, "--output-format", "json", *FLAGS, *options)
        return json.loads(done.stdout)

    return check


def found(report):
    return [(one["code"], one["key"], one["path"]) for one in report["findings"]]


# ------------------------------------------------------------------------------------------- a config without a file


@pytest.mark.parametrize("path", [".", "run.sh"])
def test_the_flags_are_the_config(project, path):
    command = f"{LAUNCH} --zero_stage 3 --zero3_save_16bit_model false train.py\n"
    report = project(command, path=path)
    gathers = "zero_optimization.stage3_gather_16bit_weights_on_model_save"
    assert found(report) == [("DS703", gathers, report["files"][0]["path"])]
    assert report["files"][0]["path"].endswith("run.sh")
    span = report["findings"][0]["span"]
    assert command[span["start"]["offset"] : span["end"]["offset"]] == "false"
    assert "`--zero3_save_16bit_model`" in report["findings"][0]["help"]


def test_flags_in_a_variable_are_found_there(project):
    command = (
        f'ARGS="--zero_stage 3 --offload_optimizer_device gpu"\n{LAUNCH} $ARGS --zero3_save_16bit_model true train.py\n'
    )
    (finding,) = project(command)["findings"]
    assert (finding["code"], finding["key"]) == ("DS201", "zero_optimization.offload_optimizer.device")
    assert command[finding["span"]["start"]["offset"] :].startswith("gpu")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--zero_stage 2", []),
        ("--zero_stage two", [("DS652", "zero_stage")]),
        ("--gradient_clipping none", [("DS652", "gradient_clipping")]),
        ("--mixed_precision fp32", [("DS652", "mixed_precision")]),
        ("--zero_stage 3 --zero3_save_16bit_model yes", [("DS655", "zero3_save_16bit_model")]),
        ("--offload_optimizer_nvme_path /nvme", [("DS653", "offload_optimizer_nvme_path")]),
        ("--zero_stage $STAGE", []),
        ("$MORE --zero_stage 2 --mixed_precision fp32", []),  # further flags may name a file
        ("--deepspeed_config_file /data/ds.json", []),
    ],
)
def test_what_flags_say(project, flags, expected):
    codes = [(code, key) for code, key, _ in found(project(f"{LAUNCH} {flags} train.py\n")) if code != "DS703"]
    assert codes == expected


VARIABLES = "export ACCELERATE_USE_DEEPSPEED=true ACCELERATE_DEEPSPEED_ZERO_STAGE=3"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", ["DS703"]),
        (" ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL=true", []),
        (" ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL=yes", ["DS655", "DS703"]),
        (" ACCELERATE_DEEPSPEED_CONFIG_FILE=ds.json", []),
        (" ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE=gpu", ["DS201", "DS703"]),
    ],
)
def test_variables_are_a_config_for_torchrun(project, lines, expected):
    report = project(f"{VARIABLES}{lines}\ntorchrun --nproc_per_node 2 train.py\n")
    assert sorted(code for code, _, _ in found(report)) == expected


def test_variables_count_for_what_neither_flags_nor_file_set(project):
    variables = "export ACCELERATE_GRADIENT_CLIPPING=0 ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE=gpu\n"
    launch = "accelerate launch --config_file acc.yaml train.py\n"
    report = project(variables + launch, files={"acc.yaml": YAML})
    assert [code for code, _, _ in found(report)] == ["DS201"]


def test_two_launches_are_two_configs(project):
    command = f"{LAUNCH} --zero_stage 4 train.py\n{LAUNCH} --zero_stage 5 train.py\n"
    report = project(command)
    assert [one["span"]["start"]["line"] for one in report["findings"]] == [1, 2]
    assert len(report["files"]) == 2


def test_a_comment_suppresses_a_finding_at_a_flag(project):
    assert project(f"{LAUNCH} --zero_stage 4 train.py  # ds-lint: ignore[DS201] tried\n")["findings"] == []


@pytest.mark.parametrize("command", ["effective", "memory"])
def test_other_commands_know_it(project, run, command):
    project(f"{LAUNCH} --zero_stage 3 --mixed_precision bf16 train.py\n")
    options = ("--parameters", "1B") if command == "memory" else ()
    done = run(command, "run.sh", *options)
    assert done.returncode == 0, done.stderr
    assert ("ZeRO stage 3" if command == "memory" else "zero_optimization.stage = 3") in done.stdout


def test_the_steps_of_the_script_beside_those_of_the_flags(project):
    command = f"{LAUNCH} --zero_stage 2 --gradient_accumulation_steps 4 train.py\n"
    (finding,) = project(command, argument="gradient_accumulation_steps=8")["findings"]
    assert (finding["code"], finding["key"]) == ("DS860", "gradient_accumulation_steps")


# ------------------------------------------------------------------------------------------------ flags beside a YAML


def beside(project, flags, argument="", **known):
    command = f"accelerate launch --config_file acc.yaml {flags} train.py\n"
    return found(project(command, argument=argument, files={"acc.yaml": YAML}, **known))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", []),
        ("--num_processes 4", []),
        ("--zero_stage 1", ["DS663"]),
        ("--zero_stage 2", []),
        ("--zero-stage=1", ["DS663"]),
        ("--zero_stage $STAGE", []),
        ("--mixed_precision fp16", ["DS663"]),
        ("--multi_gpu", ["DS662"]),
        ("--cpu", ["DS662"]),
        ("--use_deepspeed", []),
    ],
)
def test_a_flag_counts_before_the_file(project, flags, expected):
    assert [code for code, _, _ in beside(project, flags)] == expected


def test_a_finding_about_a_flag_is_at_the_launch(project):
    ((code, key, path),) = beside(project, "--multi_gpu")
    assert (code, key, path) == ("DS662", "distributed_type", "./run.sh")


def test_older_releases_take_the_file(run, project, tmp_path):
    beside(project, "--zero_stage 1")
    report = json.loads(run("check", ".", "--output-format", "json", "--accelerate-version", "1.4.0").stdout)
    assert ("DS663", "warning") in [(one["code"], one["severity"]) for one in report["findings"]]


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ("zero_stage=1", ["DS663"]),
        ("zero_stage=2", []),
        ("gradient_clipping=1.0", []),
        ("hf_ds_config='ds.json'", ["DS654", "DS654", "DS654"]),
        ("**settings", []),
        ("zero_stage=choose()", []),
    ],
)
def test_a_plugin_of_the_script_counts_before_the_file(project, keywords, expected):
    report = beside(project, "", f"deepspeed_plugin=DeepSpeedPlugin({keywords})")
    assert [code for code, _, path in report if code in ("DS654", "DS663")] == expected


def test_flags_fill_the_auto_of_a_config(project, run):
    config = '{"zero_optimization": {"stage": "auto"}, "bf16": {"enabled": "auto"}, "gradient_clipping": "auto"}'
    command = f"{LAUNCH} --deepspeed_config_file ds.json --zero_stage 3 --mixed_precision bf16 train.py\n"
    project(command, files={"ds.json": config})
    done = run("memory", "run.sh", "--parameters", "1B")
    assert "ZeRO stage 3, bf16, 2 ranks" in done.stdout


# ---------------------------------------------------------------------------------------------------- the precision


@pytest.mark.parametrize(
    ("flags", "argument", "section", "expected"),
    [
        ("--mixed_precision bf16", "", '"fp16": {"enabled": true}', ["DS664"]),
        ("", 'mixed_precision="bf16"', '"fp16": {"enabled": true}', ["DS664"]),
        ("--mixed_precision bf16", 'mixed_precision="fp16"', '"fp16": {"enabled": true}', []),  # the script counts
        ("--mixed_precision fp16", "", '"fp16": {"enabled": true}', []),
        ("--mixed_precision fp16", "", '"fp16": {"enabled": false}', ["DS665"]),
        ("--mixed_precision fp16", "", '"fp16": {"enabled": "auto"}', []),
        ("--mixed_precision $P", "", '"fp16": {"enabled": true}', []),
        ("", "mixed_precision=choose()", '"fp16": {"enabled": true}', []),
    ],
)
def test_the_precision_of_the_launch_and_the_config(project, flags, argument, section, expected):
    sizes = '"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1'
    config = f'{{{sizes}, "zero_optimization": {{"stage": 2}}, {section}}}'
    command = f"{LAUNCH} --deepspeed_config_file ds.json {flags} train.py\n"
    assert [code for code, _, _ in found(project(command, argument=argument, files={"ds.json": config}))] == expected


def test_the_script_has_another_precision_than_the_yaml(project):
    assert [code for code, _, _ in beside(project, "", 'mixed_precision="fp16"')] == ["DS665"]
    assert beside(project, "", 'mixed_precision="bf16"') == []


# ----------------------------------------------------------------------------------------------------- the machines

MACHINES = "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 16\nnum_machines: 2\n"


@pytest.mark.parametrize(
    ("lines", "flags", "expected"),
    [
        ("main_process_ip: a\nmachine_rank: 1\n", "", []),
        ("main_process_ip: a\nmachine_rank: 2\n", "", ["DS666"]),
        ("main_process_ip: a\nmachine_rank: 2\n", "--machine_rank 1", []),
        ("main_process_ip: a\nmachine_rank: 0\n", "--machine_rank 2", ["DS666"]),
        ("main_process_ip: a\n", "--machine_rank $SLURM_NODEID", []),
        ("main_process_ip: a\nmachine_rank: 2\n", "--rdzv_backend c10d", []),
        ("machine_rank: 1\n", "", ["DS667"]),
        ("machine_rank: 1\n", "--main_process_ip $HOST", []),
        ("machine_rank: 1\n", "$MORE", []),
    ],
)
def test_machines_that_wait_for_each_other(project, lines, flags, expected):
    command = f"accelerate launch --config_file acc.yaml {flags} train.py\n"
    report = project(command, files={"acc.yaml": MACHINES + lines})
    assert [code for code, _, _ in found(report)] == expected
