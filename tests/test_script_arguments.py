"""A config is compared with the training arguments that a script makes, however it makes them and names the config."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

DS = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}
OF_TRAINER = "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
TRAIN = "Trainer(model=model, args=args).train()\n"
PARSE = "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def mismatches(run, *arguments):
    found = json.loads(run("check", *(arguments or (".",)), "--output-format", "json").stdout)["findings"]
    return [one for one in found if one["code"] == "DS610"]


def called(config, *, before="", batch="4"):
    """A script that calls TrainingArguments with this expression for the config."""
    call = f"args = TrainingArguments('out', deepspeed={config}, per_device_train_batch_size={batch})\n"
    return OF_TRAINER + before + call + TRAIN


OWN_CLASS = """\
from dataclasses import dataclass, field
import transformers
@dataclass
class TrainingArguments(transformers.TrainingArguments):
    cache_dir: str = field(default=None)
    per_device_train_batch_size: int = field(default=4)
"""
PARSE_OWN = OWN_CLASS + "from transformers import HfArgumentParser, Trainer\n" + PARSE + TRAIN
FLAGS = "deepspeed train.py --output_dir out --deepspeed ds.json\n"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"train.py": PARSE_OWN, "run.sh": FLAGS}, id="own class of the same name"),
        pytest.param(
            {
                "train.py": OF_TRAINER.replace(", TrainingArguments", "")
                + "from project.arguments import TrainingArguments\n"
                + PARSE
                + TRAIN,
                "project/arguments.py": OWN_CLASS,
                "run.sh": FLAGS,
            },
            id="class of another module",
        ),
        pytest.param(
            {
                "train.py": "from project.train import train\nif __name__ == '__main__':\n    train()\n",
                "project/train.py": PARSE_OWN.replace(PARSE + TRAIN, f"def train():\n    {PARSE}    {TRAIN}"),
                "run.sh": FLAGS,
            },
            id="function of another module",
        ),
        pytest.param(
            {
                "train.py": "import argparse\nparser = argparse.ArgumentParser()\n"
                "parser.add_argument('--batch', type=int, default=1)\nown = parser.parse_args()\n"
                + called("'ds.json'", batch="own.batch * 2"),
                "run.sh": "deepspeed train.py --batch 2\n",
            },
            id="argument of the script",
        ),
        pytest.param({"train.py": called("CONFIG", before="CONFIG = 'ds.json'\n")}, id="variable"),
        pytest.param(
            {
                "src/train.py": called(
                    "str(ROOT / 'ds.json')",
                    before="from pathlib import Path\nROOT = Path(__file__).resolve().parent.parent\n",
                )
            },
            id="path beside the script",
        ),
        pytest.param(
            {"train.py": called("config", before="import json\nconfig = json.load(open('ds.json'))\nprint(config)\n")},
            id="loaded",
        ),
        pytest.param(
            {
                "train.py": called(
                    "config", before="import json\nconfig = json.load(open('ds.json'))\nconfig['steps_per_print'] = 5\n"
                )
            },
            id="loaded with another key changed",
        ),
        pytest.param(
            {
                "train.py": OF_TRAINER
                + "(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file('args.yaml')\n"
                + TRAIN,
                "args.yaml": "output_dir: out\ndeepspeed: ds.json\nper_device_train_batch_size: 4\n",
            },
            id="file of fields",
        ),
        pytest.param(
            {
                "train.py": OF_TRAINER
                + "parser = HfArgumentParser(TrainingArguments)\n"
                + "words = ['--output_dir', 'out', '--deepspeed', 'ds.json', '--per_device_train_batch_size', '4']\n"
                + "(args,) = parser.parse_args_into_dataclasses(args=words)\n"
                + TRAIN
            },
            id="words of the script's own",
        ),
        pytest.param(
            {
                "train.py": "from trl import SFTConfig, SFTTrainer, TrlParser\n"
                "(args,) = TrlParser(SFTConfig).parse_args_and_config()\nSFTTrainer(model=model, args=args).train()\n",
                "recipe.yaml": "output_dir: out\ndeepspeed: ds.json\nper_device_train_batch_size: 2\n",
                "run.sh": "accelerate launch train.py --config recipe.yaml --per_device_train_batch_size 4\n",
            },
            id="recipe under flags",
        ),
        pytest.param(
            {"src/task/__main__.py": called("'ds.json'"), "run.sh": "torchrun --nproc_per_node 2 -m task\n"},
            id="package in src",
        ),
        pytest.param(
            {
                "mine.py": "from transformers import TrainingArguments\nclass Recipe(TrainingArguments):\n    pass\n",
                "train.py": "from mine import Recipe\n" + called("'ds.json'").replace("TrainingArguments(", "Recipe("),
            },
            id="own class of another module",
        ),
    ],
)
def test_a_mismatch_is_found(run, write, files):
    write({"ds.json": DS, **files})
    (found,) = mismatches(run)
    assert "`train_micro_batch_size_per_gpu` is 2, but `per_device_train_batch_size` is 4" in found["message"]


@pytest.mark.parametrize(
    "train",
    [
        pytest.param(called("make()"), id="unknown config"),
        pytest.param(called("'ds.json'", batch="pick()"), id="unknown value"),
        pytest.param(
            called("config", before="import json\nconfig = json.load(open('ds.json'))\nprepare(config)\n"),
            id="config changed elsewhere",
        ),
        pytest.param(
            called(
                "config",
                before="import json\nconfig = json.load(open('ds.json'))\n"
                "config['train_micro_batch_size_per_gpu'] = 4\nconfig['hidden_size'] = 64\n",
            ),
            id="key changed",
        ),
        pytest.param(
            called("'ds.json'").replace(
                TRAIN, "other = TrainingArguments('out', per_device_train_batch_size=2)\n" + TRAIN
            ),
            id="two calls that differ",
        ),
        pytest.param(
            OF_TRAINER
            + "from elsewhere import TrainingArguments\nargs = TrainingArguments('out', deepspeed='ds.json')\n"
            + TRAIN,
            id="one of two imports of the name",
        ),
        pytest.param(
            OWN_CLASS
            + "from transformers import Trainer\nargs = TrainingArguments(deepspeed='ds.json', **read())\n"
            + TRAIN,
            id="unknown keywords over a default",
        ),
        pytest.param(PARSE_OWN.replace("(default=4)", "(default='4x')").replace("@dataclass\n", ""), id="no dataclass"),
    ],
)
def test_what_is_not_known_is_no_mismatch(run, write, train):
    write({"ds.json": DS, "train.py": train})
    found = json.loads(run("check", ".", "--output-format", "json").stdout)["findings"]
    assert {one["code"] for one in found}.isdisjoint({"DS102", "DS511", "DS610"})


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": "import sys\nsys.argv += ['--per_device_train_batch_size', '2']\n" + PARSE_OWN},
        {"train.py": PARSE_OWN, "train.args": "--per_device_train_batch_size 2\n"},
    ],
    ids=["the script adds them", "a file beside the script has them"],
)
def test_flags_from_elsewhere_may_be_any(run, write, files):
    write({"ds.json": DS, "run.sh": FLAGS, **files})
    assert mismatches(run) == []


def test_a_flag_of_false_is_given(run, write):
    config = {"bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
    write({"ds.json": config, "train.py": PARSE_OWN, "run.sh": f"{FLAGS.strip()} --bf16 False\n"})
    (found,) = mismatches(run)
    assert "`bf16.enabled` is true" in found["message"]
    write({"run.sh": f"{FLAGS.strip()} --bf16 True\n"})
    assert mismatches(run) == []


def test_an_argument_in_a_dict_has_its_value_of_the_launch(run, write):
    train = (
        "import argparse, deepspeed\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--batch', type=int, default=32)\nargs = parser.parse_args()\n"
        "config = {'train_batch_size': args.batch, 'train_micro_batch_size_per_gpu': 2, "
        "'gradient_accumulation_steps': 4}\ndeepspeed.initialize(model=model, config=config)\n"
    )
    for flags, is_wrong in (("", False), (" --batch 16", True), (" --batch $SIZE", False)):
        write({"train.py": train, "run.sh": f"deepspeed --num_gpus 4 train.py{flags}\n"})
        found = json.loads(run("check", ".", "--output-format", "json").stdout)["findings"]
        assert [one["code"] for one in found if one["code"] == "DS512"] == ["DS512"] * is_wrong


def test_a_script_alone_reaches_the_config_that_it_names(run, write):
    write({"ds.json": DS, "train.py": called("'ds.json'")})
    (found,) = mismatches(run, "train.py")
    assert found["path"].endswith("ds.json")


IMPORTED = f"OTHER = {DS!r}\nCONFIG = { {**DS, 'train_micro_batch_size_per_gpu': 3}!r}\n"


@pytest.mark.parametrize(
    ("before", "is_found"),
    [
        ("from configs import CONFIG\n", True),
        ("from configs import CONFIG\nCONFIG['train_micro_batch_size_per_gpu'] = 4\n", False),
        ("from elsewhere import CONFIG\n", False),
    ],
)
def test_a_config_that_another_module_has_is_checked_as_the_script_uses_it(run, write, before, is_found):
    write({"configs.py": IMPORTED, "train.py": called("CONFIG", before=before)})
    found = [(one["path"].rpartition("/")[2], one["message"][:38]) for one in mismatches(run)]
    assert found == [("configs.py", "`train_micro_batch_size_per_gpu` is 3,")] * is_found


QUANTIZED = """\
from dataclasses import dataclass
import transformers
@dataclass
class Own:
    int8: bool = False
own, args = transformers.HfArgumentParser((Own, transformers.TrainingArguments)).parse_args_into_dataclasses()
if own.int8:
    model = transformers.AutoModelForCausalLM.from_pretrained("a", load_in_8bit=True)
else:
    model = transformers.AutoModelForCausalLM.from_pretrained("a")
transformers.Trainer(model=model, args=args).train()
"""


def test_a_branch_that_the_launch_does_not_take_quantizes_nothing(run, write):
    config = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}}
    for flags, is_quantized in (("", False), (" --int8", True)):
        write({"ds.json": config, "train.py": QUANTIZED, "run.sh": FLAGS.strip() + flags + "\n"})
        found = json.loads(run("check", ".", "--output-format", "json").stdout)["findings"]
        assert ("DS352" in {one["code"] for one in found}) == is_quantized
