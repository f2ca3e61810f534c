"""Files that are named on the command line: each is checked as what its content says it is."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.command_line import write_into

ACCELERATE = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_machine: 1\nnum_processes: 8\n"
BRACELESS = "train_micro_batch_size_per_gpu: 4\nzero_optimization: {\n  stage: 2\n  overlap_com: true\n}\n"
CONFIG = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, "gradient_cliping": 1.0}
# Of TRL, and of axolotl before a config is named.
TRAINING_ARGUMENTS = "model_name_or_path: a/b\ngradient_accumulation_steps: 4\nbf16: true\nlearning_rate: 2.0e-5\n"
AXOLOTL = "base_model: a/b\ndatasets:\n  - path: x\n    type: alpaca\nmicro_batch_size: 2\nbf16: auto\n"


@pytest.fixture
def write(tmp_path):
    return lambda **files: write_into(tmp_path)(files)


def findings(result):
    return [(one["code"], one["key"]) for one in json.loads(result.stdout)["findings"]]


@pytest.mark.parametrize(
    "text",
    [
        ACCELERATE,
        f"---\n{ACCELERATE}",
        f"%YAML 1.1\n---\n{ACCELERATE}",
        json.dumps({"compute_environment": "LOCAL_MACHINE", "distributed_type": "DEEPSPEED", "num_machine": 1}),
    ],
    ids=["plain", "document", "directive", "JSON"],
)
def test_yaml_is_the_same_named_and_found_and_as_standard_input(run, write, text):
    write(**{"conf/accelerate.yaml": text})
    format_ = ("--output-format", "json", "--select", "DS651")
    named = run("check", "conf/accelerate.yaml", *format_)
    assert findings(named) == [("DS651", "num_machine")]
    for other in (("conf",), ("--detect", "conf/accelerate.yaml")):
        assert findings(run("check", *other, *format_)) == findings(named)
    for name in ((), ("--stdin-filename", "a.yaml")):
        assert findings(run("check", "-", *name, *format_, stdin=text)) == findings(named)


@pytest.mark.parametrize("text", [TRAINING_ARGUMENTS, AXOLOTL, "---\na: 1\n", "", "a: [\n"])
def test_yaml_that_is_no_config_is_named_in_one_line_and_never_changed(run, write, tmp_path, text):
    write(**{"other.yaml": text})
    result = run("check", "other.yaml", "--fix", "--unsafe-fixes")
    note = "note: other.yaml holds no DeepSpeed config and reaches none\n"
    assert (result.returncode, result.stdout) == (0, f"{note}No DeepSpeed configs found.\n")
    assert (tmp_path / "other.yaml").read_text(encoding="utf-8") == text


def test_a_config_in_yaml_is_one_finding_without_a_fix(run, write, tmp_path):
    nested = "train_micro_batch_size_per_gpu: 4\nzero_optimization:\n  stage: 2\n"
    flat = "train_micro_batch_size_per_gpu: 4\noptimizer: {type: AdamW} # fast\n"
    texts = {"nested.yaml": nested, "document.yaml": f"---\n{nested}", "flat.yml": flat, "a.json": f"---\n{nested}"}
    for name, text in texts.items():
        write(**{name: text})
        result = run("check", name, "--fix", "--unsafe-fixes", "--output-format", "json")
        assert findings(result) == [("DS011", None)], name
        assert (tmp_path / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["ds_config", "zero2.conf", "foo.txt", "a.hjson"])
def test_a_config_is_one_whatever_it_is_called(run, write, name):
    write(**{name: json.dumps(CONFIG)})
    assert ("DS101", "gradient_cliping") in findings(run("check", name, "--output-format", "json"))
    write(**{name: BRACELESS})
    options = ("--output-format", "json", "--stack", "deepspeed", "--ignore", "DS302")
    assert findings(run("check", name, *options)) == [("DS101", "zero_optimization.overlap_com")]


def test_a_script_without_an_ending_is_known_by_its_first_line(run, write):
    heredoc = f"cat > ds.json <<'EOF'\n{json.dumps(CONFIG)}\nEOF\n"
    write(launch=f"#!/usr/bin/env bash\n{heredoc}", train=f"#!/usr/bin/python3\nds_config = {CONFIG!r}\n")
    for name in ("launch", "train"):
        assert ("DS101", "gradient_cliping") in findings(run("check", name, "--output-format", "json"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("settings.toml", '[deepspeed]\nzero_optimization = 2\nconfig = """{}"""\n'),
        ("notes.qmd", '---\ntitle: x\n---\n\n```{python}\nds = {"zero_optimization": {"stage": 2}}\n```\n'),
        ("LICENSE", "Permission is hereby granted {free of charge}: use it.\n"),
        ("a.ini", "[ds]\nzero_optimization: 2\n"),
    ],
)
def test_what_is_not_read_is_said_in_one_line(run, write, name, text):
    write(**{name: text})
    result = run("check", name)
    said = f"ds-lint: {name}: neither a DeepSpeed config nor a file that launches with one or pins its releases\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", said)
    detected = run("check", "--detect", name)
    assert (detected.returncode, detected.stdout, detected.stderr) == (0, "", "")


def test_a_notebook_that_is_no_json_is_not_checked(run, write):
    write(**{"a.ipynb": '{"cells": [\n'})
    result = run("check", "a.ipynb")
    said = "ds-lint: a.ipynb: not a notebook: Expecting value: line 2 column 1 (char 12)\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", said)
    assert run("check", "--detect", "a.ipynb").returncode == 0


# Files that reach configs

LAUNCH = "deepspeed --hostfile hosts/two train.py --deepspeed conf/ds.json --args_file conf/sft.yaml\n"
PROJECT = {
    "conf/ds.json": {"train_micro_batch_size_per_gpu": 4, "gradient_cliping": 1.0},
    "conf/other.json": {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stag": 1}},
    "conf/sft.yaml": TRAINING_ARGUMENTS,
    "hosts/two": "one slots=8\ntwo slots=8\n",
    "scripts/run.sh": f"#!/bin/bash\nsource scripts/env.sh\n{LAUNCH}",
    "scripts/env.sh": "export NCCL_DEBUG=INFO\n",
    "Makefile": "train:\n\tbash scripts/run.sh\n",
    "Dockerfile": 'FROM python\nCMD ["bash", "scripts/run.sh"]\n',
    "train.py": "import deepspeed\nengine, *_ = deepspeed.initialize(model=model)\n",
    "alone.py": "import deepspeed\nengine, *_ = deepspeed.initialize(model=model, config='conf/other.json')\n",
    "requirements.txt": "deepspeed==0.16.9\n",
    "docs/pyproject.toml": "[project]\nname = 'docs'\n",
}
REACHED = {
    **{
        name: ["conf/ds.json"]
        for name in ("scripts/run.sh", "scripts/env.sh", "Makefile", "Dockerfile", "train.py", "hosts/two")
    },
    "conf/sft.yaml": ["conf/ds.json"],
    "alone.py": ["conf/other.json"],
    "requirements.txt": ["conf/ds.json", "conf/other.json"],
    "docs/pyproject.toml": [],
}


@pytest.mark.parametrize("is_repository", [True, False], ids=["repository", "folder"])
def test_a_file_that_only_helps_checks_the_configs_that_it_reaches(run, write, tmp_path, is_repository):
    write(**PROJECT)
    if is_repository:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name, configs in REACHED.items():
        result = run("check", "--detect", name, "--output-format", "json")
        report = json.loads(result.stdout)
        assert [file["path"] for file in report["files"]] == configs, name
        assert {one["path"] for one in report["findings"] if one["code"] == "DS101"} == set(configs)
        if configs:
            verb = "is" if len(configs) == 1 else "are"
            said = f"note: {name} reaches {' and '.join(configs)}, which {verb} checked too"
            assert said in " ".join(result.stderr.split())


def test_what_a_launch_says_counts_for_the_config_that_its_script_reaches(run, write):
    flags = "--per_device_train_batch_size 2 --output_dir out --logging_steps 1"
    write(**{"run.sh": f"deepspeed train.py --deepspeed ds.json {flags}\n", "ds.json": CONFIG})
    write(
        **{
            "train.py": "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
            "args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\nTrainer(args=args).train()\n"
        }
    )
    alone, reached = (run("check", name, "--output-format", "json") for name in ("ds.json", "run.sh"))
    key = ("DS610", "train_micro_batch_size_per_gpu")
    assert key not in findings(alone)
    assert key in findings(reached)


def test_a_file_with_pins_reaches_fifty_configs_and_a_note_tells(run, write):
    write(**{f"conf/{number:02}.json": CONFIG for number in range(53)}, **{"requirements.txt": "deepspeed==0.16.9\n"})
    result = run("check", "--detect", "requirements.txt", "--output-format", "json")
    assert len(json.loads(result.stdout)["files"]) == 50
    assert "reaches more than 50 files with configs: the first 50 are checked" in " ".join(result.stderr.split())


def test_what_is_excluded_is_not_reached(run, write):
    write(**PROJECT, **{"ds-lint.toml": 'extend-exclude = ["conf/ds.json"]\n'})
    for name in ("Makefile", "requirements.txt"):
        files = json.loads(run("check", name, "--output-format", "json").stdout)["files"]
        assert [file["path"] for file in files] == REACHED[name][1:]


def test_show_files_says_what_reaches_a_file(run, write):
    write(**PROJECT)
    shown = run("check", "--show-files", "Makefile").stdout
    assert (
        shown == "conf/ds.json  deepspeed: reached by Makefile; has `train_micro_batch_size_per_gpu`; stack deepspeed\n"
    )


@pytest.mark.parametrize("option", ["--trainer-args", "--model", "--baseline"])
def test_two_dashes_are_no_value_of_an_option(run, option):
    result = run("check", f"{option}=--")
    assert (result.returncode, result.stderr) == (
        2,
        f"ds-lint: {option}: expected one argument (see ds-lint check --help)\n",
    )


def test_two_dashes_end_the_flags_of_trainer_args(run):
    result = run("check", "--trainer-args", "--", "--add-ignore")
    assert result.returncode == 2
    assert result.stderr.startswith("ds-lint: --trainer-args: expected one argument")


@pytest.mark.parametrize("name", [".", "ds.json", "run.sh", "train.py"])
def test_the_launch_of_the_script_that_names_a_config_counts_whatever_is_named(run, write, tmp_path, name):
    config = {"train_batch_size": 6, "train_micro_batch_size_per_gpu": 4}
    script = "import deepspeed\nengine, *_ = deepspeed.initialize(model=model, config='ds.json')\n"
    write(**{"ds.json": config, "train.py": script, "run.sh": "deepspeed --num_gpus 2 train.py\n"})
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    found = json.loads(run("check", name, "--output-format", "json", "--select", "DS512").stdout)["findings"]
    assert [one["related"][-1]["path"].removeprefix("./") for one in found] == ["run.sh"]
