"""Keywords that a release refuses are found where they stand, and nothing that a release takes is reported."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

from ds_lint.cli import run

HEAD = "from transformers import Trainer, TrainingArguments  # with DeepSpeed\nfrom trl import SFTConfig, SFTTrainer\n"


@pytest.fixture
def found(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write = write_into(tmp_path)

    def check(script, pins="", *, head=HEAD, command=("check",), **files):
        write({"train.py": head + script, "requirements.txt": pins, **files})
        run([*command, ".", "--select", "DS683,DS684", "--output-format", "json"])
        return json.loads(capsys.readouterr().out)["findings"]

    return check


def names(findings):
    return [one["message"].split("`")[3] for one in findings]


REFUSED = {
    "removed": ("TrainingArguments('o', evaluation_strategy='no')\n", "transformers==5.0.0", ["evaluation_strategy"]),
    "not yet known": ("TrainingArguments('o', eval_strategy='no')\n", "transformers==4.40.0", ["eval_strategy"]),
    "misspelled": ("TrainingArguments('o', lerning_rate=1)\n", "", ["lerning_rate"]),
    "of a dict": ("kw = {'lerning_rate': 1}\nTrainingArguments('o', **kw)\n", "", ["lerning_rate"]),
    "beside an unknown dict": ("TrainingArguments('o', lerning_rate=1, **kw)\n", "", ["lerning_rate"]),
    "of the Trainer": ("Trainer(m, tokenizer=t)\n", "transformers==5.0.0", ["tokenizer"]),
    "of trl": ("SFTConfig('o', max_seq_length=8)\n", "trl==0.20.0", ["max_seq_length"]),
    "of transformers, in trl": ("SFTConfig('o', evaluation_strategy='no')\n", "", ["evaluation_strategy"]),
    "of a trainer of trl": ("SFTTrainer('m', dataset_text_field='t')\n", "trl==0.13.0", ["dataset_text_field"]),
    "of the newest trl, without a pin": ("SFTConfig('o', max_seq_length=8)\n", "", ["max_seq_length"]),
    "of a class of the script": (
        "@dataclass\nclass Own(TrainingArguments):\n    more: int = 1\nOwn('o', more=1, les=2)\n", "", ["les"],
    ),
    "of a trainer of the script": (
        "class Own(Trainer):\n    def train(self): ...\nOwn(m, tokenizer=t)\n", "transformers==5.0.0", ["tokenizer"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("script", "pins", "refused"), REFUSED.values(), ids=REFUSED)
def test_a_refused_keyword_is_found(found, script, pins, refused):
    findings = found(script, pins)
    assert names(findings) == refused
    assert {one["path"].removeprefix("./") for one in findings} == {"train.py"}


def test_a_copy_of_a_library_in_the_project_has_classes_of_its_own(found):
    script = "SFTTrainer('m', beta=1)\nTrainer(m, tokenizer=t)\n"
    assert len(found(script, "transformers==5.0.0")) == 2
    copied = {"trl/__init__.py": "from .core import SFTTrainer\n", "trl/core.py": "class SFTTrainer: ...\n"}
    assert names(found(script, "transformers==5.0.0", **copied)) == ["tokenizer"]


TAKEN = {
    "older releases": ("TrainingArguments('o', evaluation_strategy='no')\n", "transformers==4.40.0"),
    "a renamed parameter": ("Trainer(m, tokenizer=t)\n", "transformers==4.57.6"),
    "the trl that takes an older transformers": ("SFTConfig('o', max_seq_length=8)\n", "transformers==4.45.2"),
    "a branch for a release": ("if version > 4:\n    TrainingArguments('o', evaluation_strategy='no')\n", ""),
    "an error that is caught": (
        "try:\n    TrainingArguments('o', evaluation_strategy='no')\nexcept TypeError:\n    pass\n", "",
    ),
    "a class with its own constructor": (
        "class Own(Trainer):\n    def __init__(self, **kw): ...\nOwn(m, tokenizer=t)\n", "",
    ),
    "a class of unknown bases": ("class Own(Trainer, Mixed): ...\nOwn(m, tokenizer=t)\n", ""),
    "a name that means something else": ("TrainingArguments = other\nTrainingArguments('o', lerning_rate=1)\n", ""),
    "classes that are replaced": ("import unsloth\nSFTConfig('o', max_seq_length=8)\n", ""),
    "a dict that does not show": ("TrainingArguments('o', **kw)\n", ""),
}  # fmt: skip


@pytest.mark.parametrize(("script", "pins"), TAKEN.values(), ids=TAKEN)
def test_what_may_be_taken_is_not_found(found, script, pins):
    assert found(script, pins) == []


def test_a_script_that_has_nothing_to_do_with_partitions_is_not_read(found):
    assert found("TrainingArguments('o', lerning_rate=1)\n", head=HEAD.replace("  # with DeepSpeed", "")) == []


def test_a_range_names_the_releases(found):
    (one,) = found("TrainingArguments('o', evaluation_strategy='no')\n", "transformers>=4.50,<5")
    assert "4.51.0" in json.dumps(one["releases"])


@pytest.mark.parametrize(
    ("script", "advice"),
    [
        ("TrainingArguments('o', overwrite_output_dir=True)\n", "Delete the keyword."),
        ("TrainingArguments('o', adafactor=True)\n", "Use `optim adafactor` instead."),
        ("SFTTrainer('m', max_seq_length=8)\n", "Pass it to `SFTConfig` as `max_length`"),
        ("Trainer(m, fp16=True)\n", "Pass it to `TrainingArguments`"),
    ],
)
def test_the_advice_is_what_the_library_says(found, script, advice):
    (one,) = found(script, "transformers==5.0.0\ntrl==1.0.0")
    assert one["help"].startswith(advice)


def test_the_new_name_is_written(found, tmp_path, capsys):
    found("TrainingArguments('o', evaluation_strategy='no', warmup_ratio=0.1)\nTrainer(m, tokenizer=t)\n", "")
    run(["check", ".", "--fix"])
    capsys.readouterr()
    text = (tmp_path / "train.py").read_text()
    assert "TrainingArguments('o', eval_strategy='no', warmup_steps=0.1)\nTrainer(m, processing_class=t)" in text


def test_an_upgrade_reports_what_is_gone(found):
    command = ("upgrade", "--transformers-from", "4.57.6", "--transformers-to", "5.0.0", "--accelerate-from", "1.6.0")
    launch = "accelerate launch --use_tp train.py\n"
    findings = found("TrainingArguments('o', bf16=True, no_cuda=True)\n", command=command, **{"run.sh": launch})
    assert sorted(one["code"] for one in findings) == ["DS683", "DS684"]


LAUNCHES = {
    "torchrun --nproc_per_nodes 8 train_fsdp.py": ["--nproc_per_nodes"],
    "torchrun --nproc_per_node 8 train_fsdp.py --nproc_per_nodes": [],
    "deepspeed --num_gpu 8 train.py": [],  # argparse takes the beginning of an option for it
    "deepspeed --num 8 train.py": ["--num"],
    "deepspeed --num_gpuss 8 --num_nodess 2 train.py": ["--num_gpuss"],  # 8 is the script then
    "deepspeed --num_gpuss=8 --num_nodess=2 train.py": ["--num_gpuss", "--num_nodess"],
    "accelerate launch --num_process 8 train.py": ["--num_process"],
    "accelerate launch --num-processes 8 train.py": [],
    "accelerate launch $MORE --num_process 8 train.py": [],
    "deepspeed --num_gpus 8 -- train.py": [],
}


@pytest.mark.parametrize(("launch", "refused"), LAUNCHES.items(), ids=LAUNCHES)
def test_an_option_that_a_launcher_does_not_know_is_found(found, launch, refused):
    findings = found("", **{"run.sh": launch + "\n"})
    assert [launch[one["span"]["start"]["column"] - 1 :].split("=")[0].split()[0] for one in findings] == refused


def test_an_unknown_option_leaves_the_ranks_unknown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_into(tmp_path)({"run.sh": "torchrun --nproc_per_nodes 8 train.py --deepspeed ds.json\n", "ds.json": {}})
    run(["check", ".", "--show-launches"])
    assert "number of ranks unknown" in capsys.readouterr().out
