"""Training arguments: from a file, from flags, from an object, and with the defaults of a release."""

from __future__ import annotations

import json
from enum import Enum

import pytest
from linted import config_of_dict
from newest import NEWEST

import ds_lint
from ds_lint.facts import Facts, Sources
from ds_lint.facts.readers import gather
from ds_lint.facts.training import arguments_of
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge.keys import Target
from ds_lint.semantics.arguments import refusals
from ds_lint.semantics.config import Config


def config_with(source, **target) -> Config:
    return config_of_dict({}, target=Target(**target), facts=Facts(training=arguments_of(source)))


def value(source, name, **target):
    argument = config_with(source, **target).argument(name)
    return argument and argument.value


@pytest.mark.parametrize(
    ("flags", "name", "expected"),
    [
        ("--bf16", "bf16", True),
        ("--bf16 True", "bf16", True),
        ("--bf16=false", "bf16", False),
        ("--bf16 --fp16 no", "fp16", False),
        ("--no_dataloader_pin_memory", "dataloader_pin_memory", False),
        ("--learning_rate 1e-4", "learning_rate", 1e-4),
        ("--learning-rate=1e-4", "learning_rate", 1e-4),
        ("--learning_rate 1e-4 --learning_rate 2e-4", "learning_rate", 2e-4),
        ("--max_steps -1 --bf16", "max_steps", -1),
        ("--label_names a b", "label_names", ["a", "b"]),
        ("--deepspeed 'a file.json'", "deepspeed", "a file.json"),
        ("--bf16 \\\n  --max_grad_norm 0.5", "max_grad_norm", 0.5),
    ],
)
def test_a_flag_becomes_what_its_field_takes(flags, name, expected):
    assert value(flags, name) == expected


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ("--learning_rate $LR", "learning_rate"),  # known when the shell runs
        ("--warmup_steps ten", "warmup_steps"),  # refused
        ("--tf32", "tf32"),  # refused: a flag that may be None needs a value
        ("--bf16", "optim"),  # the default is not a constant
        ("--bf16", "adafactor"),  # gone in this release
    ],
)
def test_what_is_unknown_before_the_run(flags, name):
    assert config_with(flags).argument(name) is None


def test_what_is_not_given_is_the_default_of_the_release():
    argument = config_with("--bf16", transformers="4.44.2").argument("max_grad_norm")
    assert (argument.value, argument.origin) == (1.0, "default of transformers 4.44.2")
    assert value("--bf16", "warmup_ratio", transformers="4.44.2") == 0.0
    assert value("--bf16", "warmup_ratio", transformers="5.15.0") is None


def test_flags_that_no_release_has_are_the_scripts_own():
    training = arguments_of("--bf16 --dataset alpaca --lora-rank 8")
    assert (list(training.given), list(training.others)) == (["bf16"], ["dataset", "lora_rank"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("args.json", '{\n  "model": "x",\n  "learning_rate": 0.0001,\n  "bf16": true\n}\n'),
        ("args.yaml", "model: x\n# faster\nlearning_rate: 0.0001\nbf16: true\n"),
        ("args.cfg", "model: x\n\nlearning_rate: 0.0001\nbf16: true\n"),
    ],
)
def test_a_file_says_where_each_field_stands(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    argument = config_with(str(path)).argument("learning_rate")
    assert argument.value == 0.0001
    assert argument.origin == f"{path}:3"
    assert "learning_rate" in text[argument.span.start : argument.span.end]


def test_yaml_keeps_what_yaml_takes_for_a_text(tmp_path):
    """5e-5 has no point, and so PyYAML makes no number of it; the Trainer gets the text."""
    path = tmp_path / "args.yaml"
    path.write_text("learning_rate: 5e-5\n", encoding="utf-8")
    assert value(str(path), "learning_rate") == "5e-5"


@pytest.mark.parametrize(
    ("source", "release", "said"),
    [
        ("--warmup_ratio 0.1", "5.15.0", ["warmup_ratio is removed in transformers 5.15.0"]),
        ({"warmup_ratio": 0.1}, "5.22.2", ["warmup_ratio is removed in transformers 5.15.0"]),
        ("--warmup_ratio 0.1", "5.14.1", []),
        ("--no_save_safetensors", "4.57.6", []),
        (
            "--no_save_safetensors",
            "5.0.0",
            ["no_save_safetensors is removed in transformers 5.0.0"],
        ),
        ("--eval_strategy no", "4.40.2", ["eval_strategy is new in transformers 4.41.0"]),
        ("--bf16 --lora_rank 8", NEWEST["transformers"], []),
    ],
)
def test_fields_of_other_releases_are_refused(source, release, said):
    assert [message for _, message in refusals(config_with(source, transformers=release))] == said


def test_an_object_has_what_its_class_gives_it():
    class Arguments:
        def __init__(self):
            self.bf16 = True
            self.warmup_ratio = 0.1  # declared by the script

    assert list(refusals(config_with(Arguments()))) == []


class OfNumpy(float):
    def item(self):
        return float(self)


def test_an_object_is_read_by_its_fields():
    class Strategy(Enum):
        NO = "no"

    class TrainingArguments:
        def __init__(self):
            self.bf16 = True
            self.eval_strategy = Strategy.NO
            self.learning_rate = OfNumpy(1e-4)
            self.label_names = ("a", "b")
            self.parallelism_config = object()
            self._n_gpu = 1

    assert value(TrainingArguments(), "bf16") is True
    assert value(TrainingArguments(), "eval_strategy") == "no"
    assert type(value(TrainingArguments(), "learning_rate")) is float
    assert value(TrainingArguments(), "label_names") == ["a", "b"]
    assert value(TrainingArguments(), "parallelism_config") is None
    assert value({"bf16": True}, "bf16") is True


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"bf16": true,}', r"args.json:1:15: .+"),
        ("[1]", "args.json: training arguments must be a JSON object of fields"),
        ('{"zero_optimization": {}}', "args.json names no field of TrainingArguments"),
        (
            '{"bf16": {"enabled": true}, "gradient_accumulation_steps": 4}',
            "args.json is a DeepSpeed config; training arguments are fields of TrainingArguments",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, monkeypatch, text, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "args.json").write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableFact, match=f"^{complaint}$"):
        arguments_of("args.json")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("missing.json", "missing.json: No such file or directory"),
        ("train.py --bf16", "train.py --bf16: No such file or directory; flags begin with --"),
        ("", "--trainer-args is empty; give a file, or flags such as --bf16"),
        ('--run_name "a', '--trainer-args: no closing quotation: --run_name "a'),
        ("--rank 8", "--trainer-args names no field of TrainingArguments"),
        (8, "training arguments must be a path, flags or an object, not int"),
    ],
)
def test_arguments_that_tell_nothing_are_one_line(source, complaint):
    with pytest.raises(UnreadableFact) as caught:
        arguments_of(source)
    assert str(caught.value) == complaint


def test_with_training_arguments_the_trainer_loads_the_config():
    facts = gather(Sources(trainer_args="--bf16"))
    assert facts.origins == {"training arguments": "--trainer-args"}
    config = {"train_batch_size": 1}
    assert [finding.name for finding in ds_lint.check(config, training_args={"bf16": False})] == [
        "zero-section-missing"
    ]
    assert "zero-section-missing" not in {
        finding.name for finding in ds_lint.check(config, training_args={"bf16": False}, stack="deepspeed")
    }


def test_python_says_what_cannot_be_read():
    with pytest.raises(ValueError, match="names no field"):
        ds_lint.check({}, training_args={"nothing": 1})


def test_the_command_line_takes_flags_after_the_option(tmp_path, run):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"train_batch_size": 1, "zero_optimization": {}}), encoding="utf-8")
    for arguments in (["--trainer-args", "--bf16"], ["--trainer-args=--bf16"], ["--trainer-args", "--bf16 True"]):
        result = run("check", *arguments, "-v", str(path))
        assert "training arguments: --trainer-args" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "slips"),
    [
        ("--learnin_rate 5 --bf16", {"learnin_rate": "learning_rate"}),
        ("--bf16 --gradient-accumulation-step 4", {"gradient_accumulation_step": "gradient_accumulation_steps"}),
        ("--bf16 --lora_rank 8 --train_batch_size 4 --num_epochs 3 --max_seq_length 512 --batch_size 4", {}),
        ("--bf16 --adam_beta3 0.9 --lr 1e-4 --sp_size 2 --max_train_samples 8 --use_liger_loss", {}),
        ("--learning_rate 5e-5 --learning_rates 5e-5", {}),  # whoever gives both means both
    ],
)
def test_only_a_name_next_to_a_field_is_doubted(arguments, slips):
    assert arguments_of(arguments).slips == slips


def test_an_object_has_the_fields_that_its_class_has():
    class Arguments:
        def __init__(self):
            self.bf16, self.learning_rat = True, 5

    assert arguments_of(Arguments()).slips == {}


def test_a_misspelled_argument_is_a_note_and_a_finding(run, tmp_path):
    (tmp_path / "args.yaml").write_text("bf16: true\nlearnin_rate: 5\n", encoding="utf-8")
    (tmp_path / "ds.json").write_text('{"train_micro_batch_size_per_gpu": "auto"}', encoding="utf-8")
    result = run("check", "ds.json", "--trainer-args", "args.yaml")
    assert (
        "note: args.yaml: learnin_rate is not a training argument, so it counts as one of the script's own; did "
        "you mean learning_rate?"
    ) in result.stdout
    report = json.loads(run("check", "ds.json", "--trainer-args", "args.yaml", "--output-format", "json").stdout)
    (found,) = [one for one in report["findings"] if one["code"] == "DS611"]
    assert (found["severity"], found["related"][0]["path"]) == ("warning", "args.yaml")
    assert "`learning_rate`" in found["help"]
    alone = run("check", "ds.json", "--trainer-args", "--learnin_rate 5")
    assert alone.returncode == 2
    assert alone.stderr.endswith("names no field of TrainingArguments; did you mean learning_rate?\n")
