"""Notebooks as people write them: a config in one cell, the training or its launch in another."""

from __future__ import annotations

import json
import re

import pytest
from jsonschema import Draft7Validator

from ds_lint.commands.documents import linted_documents
from ds_lint.knowledge import resources
from ds_lint.session.options import Options
from ds_lint.session.session import Session

RANKS = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
DICT = 'ds_config = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}'
TEXT = '{"train_micro_batch_size_per_gpu": 4,\n "zero_optimization": {"stage": 2}}'
IMPORTS = "from transformers import Trainer, TrainingArguments"
FLAGS = "--output_dir out --do_train --per_device_train_batch_size 2"
TRAINS = (
    "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
    "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\nTrainer(model, args).train()"
)


def variables(**given):
    values = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    values |= given
    return f"import os\nos.environ.update({ {name: value for name, value in values.items() if value} })"


def arguments(config):
    return f"args = TrainingArguments('out', per_device_train_batch_size=2, deepspeed={config})"


@pytest.fixture
def check(tmp_path, monkeypatch):
    """What a check says of a notebook with these cells: the place, code and message of each finding."""
    monkeypatch.chdir(tmp_path)

    def check(*cells):
        found = [
            {"cell_type": "code", "metadata": {}, "outputs": [], "source": one.splitlines(keepends=True)}
            for one in cells
        ]
        notebook = {"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (tmp_path / "a.ipynb").write_text(json.dumps(notebook, indent=1), encoding="utf-8")
        options = Options(["a.ipynb"])
        return [
            f"{report.document.shown_place(one.span.start).removeprefix('cell ')}: {one.code} {one.message}"
            for report, _ in linted_documents(options, Session(options), [])
            for one in report.findings
        ]

    return check


def of(code, lines):
    return [line for line in lines if code in line]


@pytest.mark.parametrize(
    "config",
    [
        [DICT],
        [DICT.replace("4", "8"), DICT],
        [f"{DICT}\nfrom transformers import *"],
        [DICT.replace("4", "8"), 'ds_config["train_micro_batch_size_per_gpu"] = 4'],
    ],
)
def test_the_cells_are_one_module(check, config):
    (found,) = of("DS610", check(*config, IMPORTS, arguments("ds_config"), "Trainer(model, args).train()"))
    last = len(config) + 2
    assert "is 4, but `per_device_train_batch_size` is 2" in found
    assert f"(a.ipynb:cell {last}:1)" in found
    assert found.startswith(f"{len(config)}:")


def test_the_arguments_of_the_last_cell_are_those_of_the_trainer(check):
    first = arguments("ds_config").replace("=2", "=4")
    (found,) = of("DS610", check(DICT, IMPORTS, first, arguments("ds_config"), "Trainer(model, args).train()"))
    assert "`per_device_train_batch_size` is 2 (a.ipynb:cell 4:1)" in found


LAUNCH = f"!deepspeed --num_gpus 2 train.py {FLAGS} --deepspeed ds.json"
IN_PROCESS = [IMPORTS, arguments("'ds.json'"), "Trainer(model, args).train()"]


@pytest.mark.parametrize(
    ("writes", "uses"),
    [
        (f"%%writefile ds.json\n{TEXT}", [LAUNCH]),
        (f"%%writefile ds.json\n{TEXT}", IN_PROCESS),
        (f"%%bash\ncat <<EOT > ds.json\n{TEXT}\nEOT", [f"%%bash\n{LAUNCH[1:]}"]),
        (f"%%bash\ncat <<EOT > ds.json\n{TEXT}\nEOT", IN_PROCESS),
        (f"import json\n{DICT}\nwith open('ds.json', 'w') as file:\n    json.dump(ds_config, file)", [LAUNCH]),
        (f"config = '''\n{TEXT}\n'''\nwith open('ds.json', 'w') as file:\n    file.write(config)", [LAUNCH]),
    ],
)
def test_a_file_that_a_cell_writes_is_the_config(check, writes, uses):
    (found,) = of("DS610", check(writes, *uses))
    assert found.startswith("1:")
    assert "`train_micro_batch_size_per_gpu` is 4, but `per_device_train_batch_size` is 2 (a.ipynb:cell " in found


def test_only_the_file_that_is_named_is_the_config(check):
    other = f"%%writefile other.json\n{TEXT.replace('4', '8')}"
    (found,) = of("DS610", check(other, f"%%writefile ds.json\n{TEXT}", LAUNCH))
    assert found.startswith("2:2:36")


def test_a_file_is_as_the_last_cell_before_the_launch_leaves_it(check):
    first, second = TEXT.split("\n")
    found = check(f"%%writefile ds.json\n{first}", f"%%writefile -a ds.json\n{second}", LAUNCH)
    assert [line.partition(":")[0] for line in of("DS610", found)] == ["1"]
    found = check(f"%%writefile ds.json\n{TEXT.replace('4', '2')}", LAUNCH, f"%%writefile ds.json\n{TEXT}")
    assert of("DS610", found) == []


def test_a_cell_writes_the_yaml_of_accelerate_and_the_config_that_it_names(check):
    settings = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 2\n"
    yaml = f"%%writefile a.yaml\n{settings}deepspeed_config:\n  deepspeed_config_file: ds.json\n"
    config = TEXT.replace("4", '4, "train_batch_size": 4')
    found = check(f"%%writefile ds.json\n{config}", yaml, "!accelerate launch --config_file a.yaml train.py")
    assert "4 per GPU x 1 accumulation step x 2 ranks" in of("DS512", found)[0]


def test_a_config_for_a_launch_is_not_that_of_the_notebook(check):
    plain = f"{IMPORTS}\nTrainer(model, TrainingArguments('out', per_device_train_batch_size=2)).train()"
    dumped = f"import json\n{DICT}\njson.dump(ds_config, open('ds.json', 'w'))"
    script = f"%%writefile train.py\nimport deepspeed\n{DICT}\ndeepspeed.initialize(model=model, config=ds_config)"
    found = check(plain, dumped, "!deepspeed --num_gpus 2 train.py --deepspeed ds.json", script)
    assert of("DS610", found) + of("DS830", found) == []


def test_a_cell_writes_the_script_that_is_launched(check):
    launch = "!deepspeed --num_gpus 2 train.py --deepspeed ds.json"
    found = check(f"%%writefile train.py\n{TRAINS}", f"%%writefile ds.json\n{TEXT}", launch)
    assert "`per_device_train_batch_size` is 8 (default of transformers" in of("DS610", found)[0]
    script = f"%%writefile train.py\nimport deepspeed\n{DICT}\ndeepspeed.initialize(model=model, config=ds_config)"
    assert "`python` starts train.py without a launcher" in of("DS830", check(script, "!python train.py"))[0]
    assert of("DS830", check(script, variables(), "!python train.py")) == []


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ([], "without the variables of a rank: DeepSpeed finds no rank and raises unless mpi4py is installed"),
        ([variables(LOCAL_RANK="")], "without LOCAL_RANK: DeepSpeed finds no rank"),
        ([variables(MASTER_PORT="")], "without MASTER_PORT: torch finds no MASTER_PORT and raises a ValueError"),
        ([variables(WORLD_SIZE="2")], "with WORLD_SIZE 2: it waits for 2 ranks until a timeout"),
        ([variables(RANK="1")], "with RANK 1: it waits for rank 0 until a timeout"),
        ([variables()], None),
        (["\n".join(f"%env {name}=0" for name in RANKS).replace("SIZE=0", "SIZE=1")], None),
        (["from mine import prepare\nprepare()"], None),
        (["!pip install mpi4py"], None),
        (["from accelerate import notebook_launcher\nnotebook_launcher(train, num_processes=2)"], None),
    ],
)
def test_a_notebook_needs_the_variables_of_a_rank(check, before, message):
    found = of("DS830", check(DICT, *before, IMPORTS, arguments("ds_config"), "Trainer(model, args).train()"))
    expected = f"the notebook trains in its own process {message}"
    assert [expected in line for line in found] == ([True] if message else [])


@pytest.mark.parametrize(
    ("installs", "release", "cell"),
    [
        (["!pip install -q deepspeed==0.9.2 transformers==4.30.0"], "0.9.2", "1:1"),
        (["!pip install deepspeed==0.8.2\n%pip install deepspeed==0.9.2"], "0.9.2", "1:2"),
        (["print()", "%%bash\npip install \\\n  'deepspeed>=0.9,<0.9.3'"], "0.9.2", "2:2"),
        (["pip install deepspeed==0.9.2"], "0.9.2", "1:1"),
    ],
)
def test_a_notebook_is_checked_against_what_it_installs(check, run, tmp_path, installs, release, cell):
    (tmp_path / "requirements.txt").write_text("deepspeed==0.16.9\n", encoding="utf-8")
    config = f"{DICT[:-2]}, 'zero_hpz_partition_size': 2}}}}"
    (found,) = of("DS109", check(*installs, config))
    assert f"unknown to {release}" in found
    source = rf"deepspeed (?:0\.9\.0 to )?{release}[^(]*\(a\.ipynb:cell {cell}\)"
    assert re.search(source, run("check", "a.ipynb", "--verbose").stdout)


def test_what_says_no_release_leaves_the_pin_of_the_project(check, run, tmp_path):
    (tmp_path / "requirements.txt").write_text("deepspeed==0.16.9\n", encoding="utf-8")
    check("!pip install deepspeed>=0.9", "!pip install transformers[deepspeed]", DICT)  # the shell writes to =0.9
    assert "deepspeed 0.16.9 (requirements.txt:1)" in run("check", "a.ipynb", "--verbose").stdout


def test_launches_are_shown_with_their_cells(check, run, tmp_path):
    check("import os", "%%bash\ncd src\ndeepspeed --num_gpus 2 train.py --deepspeed ds.json")
    assert run("check", "--show-launches", "a.ipynb").stdout.startswith("a.ipynb:cell 2:3  deepspeed, 2 ranks")
    shown = json.loads(run("check", "--show-launches", "--output-format", "json", "a.ipynb").stdout)
    with open(resources.path("schemas", "shown_launches.schema.json"), encoding="utf-8") as schema:
        Draft7Validator(json.load(schema)).validate(shown)
    (launch,) = shown["launches"]
    assert (launch["cell"], launch["cell_line"]) == (2, 3)
    line = (tmp_path / "a.ipynb").read_text(encoding="utf-8").splitlines()[launch["line"] - 1]
    assert "deepspeed --num_gpus 2" in line


def test_a_notebook_may_have_large_outputs(check, tmp_path, run):
    check("!pip install deepspeed==0.9.2", DICT.replace("stage", "stag"))
    notebook = json.loads((tmp_path / "a.ipynb").read_text(encoding="utf-8"))
    notebook["cells"][0]["outputs"] = [{"output_type": "display_data", "data": {"image/png": "A" * 4_000_000}}]
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    assert "a.ipynb:cell 2:1:73: DS101" in run("check", "--output-format", "concise").stdout
