"""Arguments of launches that the parser of the script rejects, at their words (DS611, DS681, DS682)."""

from __future__ import annotations

import json

import pytest
from command_line import write_into
from newest import NEWEST

from ds_lint.cli import run

HEAD = """\
import argparse, sys
from dataclasses import dataclass, field
from typing import List, Literal, Optional
import deepspeed, fire, click, typer
from transformers import HfArgumentParser, Seq2SeqTrainingArguments, Trainer, TrainingArguments
from trl import SFTConfig, TrlParser
"""
PARSED = HEAD + "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
OWN = (
    HEAD
    + """\
@dataclass
class DataArguments:
    data_path: str
    schedule: Literal["cosine", "linear"] = "cosine"
    packed: bool = True
    sizes: List[int] = field(default_factory=list)
    dtype: Optional[str] = field(default=None, metadata={"help": "a"})
@dataclass
class MyArguments(TrainingArguments):
    model_max_length: int = field(default=512)
def main():
    data_args, args = HfArgumentParser((DataArguments, MyArguments)).parse_args_into_dataclasses()
if __name__ == "__main__":
    main()
"""
)
ADDED = (
    HEAD
    + """\
parser = argparse.ArgumentParser()
group = parser.add_argument_group("sizes")
group.add_argument("--width", type=int, choices=[1, 2])
for name in ("lr", "beta"):
    parser.add_argument(f"--{name}", type=float)
parser.add_argument("--fast", action="store_true")
"""
)
ALL = ADDED + "args = parser.parse_args()\n"
SOME = ADDED + "args, _ = parser.parse_known_args()\n"
RETURNED = PARSED.replace("(args,)", "args, rest").replace(
    "dataclasses()\n", "dataclasses(return_remaining_strings=True)\n"
)
IN_FILE = PARSED.replace(
    "(args,) =",
    "parser = HfArgumentParser(TrainingArguments)\nif len(sys.argv) == 2 and sys.argv[1].endswith('.json'):\n"
    "    args = parser.parse_json_file(sys.argv[1])\nelse:\n    (args,) =",
)
FIRE = (
    HEAD
    + "def train(base_model: str = '', lr: float = 1e-4):\n    print(lr)\n"
    + "if __name__ == '__main__':\n    fire.Fire(train)\n"
)
CLICK = HEAD + "@click.command()\n@click.option('--lr', default=1e-4)\ndef main(lr):\n    print(lr)\nmain()\n"
TYPER = HEAD + "def main(name: str, batch_size: int = 1, fast: bool = False):\n    print(name)\ntyper.run(main)\n"
TRL = HEAD + "parser = TrlParser((SFTConfig,))\n(args,) = parser.parse_args_and_config()\n"
BASE = "--output_dir out "
CASES = [  # a script, its words, and the rules with the words that they are about
    (PARSED, BASE + "--learning_rate 1e-5 --bf16 --num-train-epochs 3", []),
    (PARSED, BASE + "--lerning_rate 1e-5", ["DS681 --lerning_rate"]),
    (PARSED, BASE + "--learning 1e-5 --gradient_acc 4", []),  # which argparse completes
    (PARSED, BASE + "--save 4", ["DS681 --save"]),
    (PARSED, BASE + "--bf16 True --no_tf32", ["DS681 --no_tf32"]),
    (PARSED, BASE + "--no_dataloader_pin_memory --no-remove-unused-columns", []),
    (PARSED, BASE + "--overwrite_output_dir", ["DS611 --overwrite_output_dir"]),
    (PARSED, BASE + "--warmup_ratio 0.03", ["DS611 --warmup_ratio"]),
    (PARSED, BASE + "--fsdp_transformer_layer_cls_to_wrap X", ["DS611 --fsdp_transformer_layer_cls_to_wrap"]),
    (PARSED, BASE + "--learning_rate fast", ["DS611 fast"]),
    (PARSED, BASE + "--bf16 Maybe", ["DS611 Maybe"]),
    (PARSED, BASE + "--lr_scheduler_type cosin", ["DS611 cosin"]),
    (PARSED, "--deepspeed " + BASE, ["DS611 --deepspeed"]),
    (PARSED, BASE + "--tf32", ["DS611 --tf32"]),
    (PARSED, BASE + "--learning_rate 1e-5 2e-5", ["DS681 2e-5"]),
    (PARSED, BASE + "--predict_with_generate", ["DS681 --predict_with_generate"]),
    (PARSED.replace("(TrainingA", "(Seq2SeqTrainingA"), BASE + "--predict_with_generate", []),
    (PARSED, BASE + '--learning_rate "$LR" $EXTRA', []),
    (PARSED, BASE + '"$@"', []),
    (OWN, BASE + "--data_path a --model_max_length 2 --sizes 1 2 --no_packed --schedule linear", []),
    (OWN, BASE + "--data_path a --model_max_len 2.5 --schedule lin", ["DS682 2.5", "DS682 lin"]),
    (OWN, BASE + "--data_path a --sizes", ["DS682 --sizes"]),
    (OWN, BASE + "--dtype bf16", ["DS682 torchrun"]),
    (OWN.replace("MyArguments(Tr", "MyArguments(alignment.Tr"), BASE + "--what 1", []),
    (ALL, "--width 2 --lr 0.5 --beta 1 --fast", []),
    (ALL, "--width 3 --fast True --gamma 1", ["DS682 3", "DS681 True", "DS681 --gamma"]),
    (ALL.replace("Parser()", "Parser(allow_abbrev=False)"), "--wid 1", ["DS681 --wid"]),
    (ALL.replace("parser.parse_args", "adds_options(parser).parse_args"), "--gamma 1", []),
    (ALL.replace('f"--{name}"', 'f"--{name}{len(sys.argv)}"'), "--gamma 1", []),
    (ALL.replace("import argparse", "sys.argv += []\nimport argparse"), "--gamma 1", []),
    (SOME, "--widht 1 --gamma 2", ["DS681 --widht"]),
    (SOME.replace("_ =", "rest =") + "print(rest)\n", "--widht 1", []),
    (RETURNED, BASE + "--evaluation_strategy no --gamma 2", ["DS611 --evaluation_strategy"]),
    (IN_FILE, "args.json", []),
    (IN_FILE, BASE + "--lerning_rate 1", ["DS681 --lerning_rate"]),
    (FIRE, "--base_model x --lr 1 --nolr", []),
    (FIRE, "--base-model x --data_path y", ["DS681 --data_path"]),
    (CLICK, "--lr 1 --epochs 3", ["DS681 --epochs"]),
    (TYPER, "a --batch-size 1 --no-fast", []),
    (TYPER, "a --batch_size 1", ["DS681 --batch_size"]),
    (TRL, BASE + "--config a.yaml --packing --max_length 5", []),
    (TRL, BASE + "--packing --evaluation_strategy no --paking", ["DS611 --evaluation_strategy", "DS681 --paking"]),
]  # fmt: skip


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write = write_into(tmp_path)

    def found(files, *arguments):
        write(files)
        run(["check", ".", "--select", "DS611,DS681,DS682", "--output-format", "json", *arguments])
        return json.loads(capsys.readouterr().out)["findings"]

    return found


def word(finding, text):
    start, end = finding["span"]["start"], finding["span"]["end"]
    line = text.split("\n")[start["line"] - 1]
    return line[start["column"] - 1 : end["column"] - 1].split(" ")[0]


@pytest.mark.parametrize(("script", "words", "expected"), CASES)
def test_words_that_a_parser_refuses(check, script, words, expected):
    launch = f"torchrun --nproc_per_node 4 train.py {words}\n"
    pins = f"transformers=={NEWEST['transformers']}\ntrl==1.16.0\n"
    found = check({"train.py": script, "run.sh": launch, "requirements.txt": pins})
    assert all(one["path"].endswith("run.sh") for one in found)
    assert sorted(f"{one['code']} {word(one, launch)}" for one in found) == sorted(expected)


def test_a_release_that_still_has_the_argument(check):
    launch = f"torchrun train.py {BASE}--evaluation_strategy no --warmup_ratio 0.1\n"
    files = {"train.py": PARSED, "run.sh": launch}
    assert check({**files, "requirements.txt": "transformers==4.40.1\n"}) == []
    (found,) = check({**files, "requirements.txt": "transformers==4.57.6\n"})
    assert "`--evaluation_strategy` is removed in transformers 4.51.0: HfArgumentParser raises" in found["message"]
    (new,) = check(
        {"run.sh": f"torchrun train.py {BASE}--eval_strategy no\n", "requirements.txt": "transformers==4.40.1\n"}
    )
    assert "is new in transformers 4.41.0" in new["message"]


def test_a_value_is_reported_once_beside_a_config(check):
    launch = f"deepspeed train.py {BASE}--deepspeed ds.json --max_steps 1e3\n"
    config = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}'
    (found,) = check({"train.py": PARSED, "run.sh": launch, "ds.json": config})
    assert (found["path"].rpartition("/")[2], found["code"]) == ("run.sh", "DS611")


def test_a_class_of_another_module_and_words_of_a_variable(check):
    arguments = HEAD + "@dataclass\nclass Own(TrainingArguments):\n    lora_r: int = 8\n"
    script = "from project.arguments import Own\n" + PARSED.replace("TrainingArguments)", "Own)")
    launch = f'ARGS="--lora_r 4 --lora_a 3"\ntorchrun train.py {BASE}$ARGS\n'
    files = {"project/arguments.py": arguments, "train.py": script, "run.sh": launch}
    (found,) = check(files)
    assert (found["span"]["start"]["line"], word(found, launch)) == (1, "--lora_a")


def test_what_a_caller_may_give_is_not_missing(check):
    launch = "MODEL=$1\ntorchrun train.py --data_path $MODEL --output_dir $2\n"
    assert check({"train.py": OWN, "run.sh": launch}) == []


def test_an_option_that_a_branch_requires_is_not_missing(check):
    branch = "if len(sys.argv) > 9:\n    parser.add_argument('--rate', required=True)\n"
    script = ALL.replace("args =", f"{branch}parser.add_argument('--depth', required=True)\nargs =")
    (found,) = check({"train.py": script, "run.sh": "torchrun train.py --lr 1\n"})
    assert "--depth, which is required" in found["message"]


def test_a_comment_suppresses_it(check):
    launch = f"# ds-lint: ignore[DS681]\ntorchrun train.py {BASE}--lerning_rate 1\n"
    assert check({"train.py": PARSED, "run.sh": launch}) == []
    launch = f"torchrun train.py {BASE}--lerning_rate 1  # ds-lint: ignore[DS681]\n"
    assert check({"run.sh": launch}) == []


def test_a_slip_is_fixed(check, tmp_path):
    launch = f"torchrun train.py {BASE}--lerning_rate 1 --optim adamw_torhc\n"
    assert check({"train.py": PARSED, "run.sh": launch}, "--fix", "--unsafe-fixes") == []
    text = (tmp_path / "run.sh").read_text()
    assert text == f"torchrun train.py {BASE}--learning_rate 1 --optim adamw_torch\n"


def test_a_range_of_releases_is_one_finding(check):
    """Neither message nor help names the release that is checked, which would make one finding of each release."""
    words = f"{BASE}--evaluation_strategy no --warmup_ratio 0.1 --overwrite_output_dir"
    files = {"train.py": PARSED, "run.sh": f"torchrun train.py {words}\n"}
    found = check({**files, "requirements.txt": "transformers>=4.40,<5.20\n"})
    assert [one["code"] for one in found] == ["DS611"] * 3
