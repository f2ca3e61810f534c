"""The words of a launch that a script refuses are those that its real parser refuses.

Scripts and their words are generated; the scripts run in another process, with several releases of transformers.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("transformers")

from installed import INSTALLED

from ds_lint.knowledge import tables
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.launches.training_script import read_training_script
from ds_lint.semantics.parser_of_script import options_of
from ds_lint.semantics.refused_words import RefusedWord, refused_words

pytestmark = pytest.mark.fidelity

PROGRAM = Path(__file__).parent / "programs" / "command_lines.py"
# Packages of older releases that import each other, with the libraries of the environment.
OLDER = {
    "4.46.3": ("tokenizers==0.20.3", "huggingface_hub==0.26.5"),
    "4.57.6": ("tokenizers==0.22.1", "huggingface_hub==0.36.0"),
}
FIELDS = (
    "learning_rate", "lr_scheduler_type", "bf16", "fp16", "tf32", "deepspeed", "max_steps", "save_strategy", "optim",
    "num_train_epochs", "warmup_steps", "warmup_ratio", "evaluation_strategy", "eval_strategy", "overwrite_output_dir",
    "gradient_checkpointing", "fsdp", "fsdp_config", "fsdp_transformer_layer_cls_to_wrap", "report_to", "label_names",
    "dataloader_pin_memory", "remove_unused_columns", "save_safetensors", "logging_first_step", "hub_strategy", "seed",
    "lr_scheduler_kwargs", "gradient_checkpointing_kwargs", "accelerator_config", "optim_args", "debug", "run_name",
    "ddp_find_unused_parameters", "use_cpu", "no_cuda", "predict_with_generate", "generation_max_length", "push_to_hub",
    "dispatch_batches", "include_num_input_tokens_seen", "average_tokens_across_devices", "data_seed", "torch_compile",
)  # fmt: skip
VALUES = (
    "1", "0", "-1", "2.5", "1e-4", "true", "False", "yes", "Maybe", "no", "steps", "cosine", "cosin", "adamw_torch",
    "1e3", "fast", "all", "full_shard auto_wrap", "zero3.json", "{}", '{"a": 1}', "none", "a,b", "epoch", "",
    "every_save",
)  # fmt: skip
TYPES = (
    "str", "int", "float", "bool", "Optional[str]", "Optional[int]", "Optional[bool]", "Optional[float]", "List[int]",
    "list[str]", "Optional[List[str]]", "Literal['a', 'b']", "Optional[Literal['x', 'y']]", "Union[str, int]", "Kind",
    "Union[Kind, str]",
)  # fmt: skip
DEFAULTS = {
    "str": ("'a'", "None"), "int": ("3", "0"), "float": ("0.5", "1"), "bool": ("True", "False"), "Literal": ("'a'",),
}  # fmt: skip
FITTING = {
    "learning_rate": ("1e-4",), "lr_scheduler_type": ("cosine", "linear"), "max_steps": ("10", "-1"), "seed": ("1",),
    "save_strategy": ("no", "epoch"), "eval_strategy": ("steps",), "evaluation_strategy": ("no",), "lr": ("1e-4",),
    "optim": ("adamw_torch", "sgd"), "num_train_epochs": ("3", "0.5"), "warmup_steps": ("100",), "data_seed": ("7",),
    "warmup_ratio": ("0.03",), "hub_strategy": ("every_save",), "generation_max_length": ("20",),
    "fsdp": ("full_shard",),
    **dict.fromkeys((
        "bf16", "fp16", "tf32", "gradient_checkpointing", "dataloader_pin_memory", "remove_unused_columns", "use_cpu",
        "ddp_find_unused_parameters", "predict_with_generate", "push_to_hub", "logging_first_step", "torch_compile",
    ), ("True", "false")),
}  # fmt: skip
OF_TYPES = {"int": ("1", "20"), "float": ("0.5", "1"), "bool": ("true", "no"), "'a'": ("a", "b"), "'x'": ("x", "y"),
            "Kind": ("one", "two")}  # fmt: skip
NAMES = (
    "data_path",
    "model_name",
    "max_length",
    "lora_r",
    "use_lora",
    "split",
    "ratio",
    "stage",
    "layers",
    "kind",
    "x",
)
HEAD = """\
import argparse, sys
from dataclasses import dataclass, field
from enum import Enum
from typing import List, Literal, Optional, Union

import transformers
from transformers import HfArgumentParser, Seq2SeqTrainingArguments, TrainingArguments

class Kind(Enum):
    ONE = "one"
    TWO = "two"

"""


class Case(NamedTuple):
    script: str
    words: list[str]


class Generator:
    """Scripts and command lines as people write them, by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.flags: list[str] = []
        self.fitting: dict[str, tuple[str, ...]] = {}  # values of the script's own arguments

    def case(self) -> Case:
        script = HEAD + (self.with_classes() if self.chance.random() < 0.6 else self.with_argparse())
        return Case(script, self.words())

    def words(self) -> list[str]:
        words: list[str] = ["--output_dir", "out"] if self.chance.random() < 0.9 else []
        for _ in range(self.chance.randint(1, 3)):
            name = self.chance.choice(self.flags if self.chance.random() < 0.9 else FIELDS)
            spelled = self.chance.choice([name] * 12 + [name.replace("_", "-")] * 2 + [f"no_{name}", self.slip(name)])
            flag, value = f"--{spelled}", self.chance.choice(VALUES)
            if self.chance.random() < 0.75:
                value = self.chance.choice(FITTING.get(name) or self.fitting.get(name) or VALUES)
            words += self.chance.choice([[flag, value]] * 8 + [[flag], [f"{flag}={value}"], [flag, value, value]])
        return words

    def slip(self, name: str) -> str:
        place = self.chance.randrange(len(name))
        return self.chance.choice([name[:place] + name[place + 1 :] or "z", name[: place + 1], f"{name}s"])

    def with_classes(self) -> str:
        classes, lines = [], ""
        base = self.chance.choice(["TrainingArguments", "Seq2SeqTrainingArguments", "transformers.TrainingArguments"])
        names = self.chance.sample(NAMES, len(NAMES))
        self.flags = list(FIELDS)
        if self.chance.random() < 0.5:
            lines += self.own("DataArguments", "", names[:3])
            classes.append("DataArguments")
        if self.chance.random() < 0.5:
            lines += self.own("MyArguments", f"({base})", names[3:6])
            base = "MyArguments"
        classes.append(base)
        self.flags += names[:6]
        given = self.chance.choice([f"({', '.join(classes)},)", f"[{', '.join(classes)}]"])
        given = classes[0] if len(classes) == 1 and self.chance.random() < 0.5 else given
        extra = self.chance.choice(["", "", "parser.add_argument('--extra', type=int, default=1)\n"])
        options = self.chance.choice(["", "", "", ", allow_abbrev=False", ", description='a'"])
        rest = self.chance.choice(["", "", "", "return_remaining_strings=True"])
        target = "*parsed, unused" if rest else "parsed"
        parse = f"parser = HfArgumentParser({given}{options})\n{extra}"
        parse += f"{target} = parser.parse_args_into_dataclasses({rest})\n"
        return lines + self.in_main(parse)

    def own(self, name: str, base: str, fields: list[str]) -> str:
        lines = [self.field(one) for one in fields]
        required = [one for one in lines if " = " not in one]
        rest = [one for one in lines if " = " in one]
        return f"@dataclass\nclass {name}{base}:\n" + "".join([*(required if not base else []), *rest]) + "\n"

    def field(self, name: str) -> str:
        declared = self.chance.choice(TYPES)
        self.fitting[name] = next((values for kind, values in OF_TYPES.items() if kind in declared), ("a",))
        if declared.lower().startswith(("list", "optional[list")):
            how = "field(default_factory=list)" if declared.lower().startswith("list") else "None"
        elif "Optional" in declared:
            how = self.chance.choice(["None", "field(default=None, metadata={'help': 'a'})"])
        elif "Kind" in declared:
            how = "Kind.ONE" if declared == "Kind" else "'one'"
        else:
            plain = self.chance.choice(DEFAULTS[declared.partition("[")[0].replace("Union", "int")])
            how = self.chance.choice(
                [plain, f"field(default={plain})", f"field(default={plain}, metadata={{'help': 'b'}})"]
            )
            if self.chance.random() < 0.15:
                return f"    {name}: {declared}\n"
        return f"    {name}: {declared} = {how}\n"

    def in_main(self, body: str) -> str:
        if self.chance.random() < 0.5:
            return body
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        return f"def main():\n{lines}\n\nif __name__ == '__main__':\n    main()\n"

    def with_argparse(self) -> str:
        names = self.chance.sample(NAMES, 5)
        self.flags = [*names, "output_dir", "lr"]
        made = self.chance.choice(["", "", "description='a'", "allow_abbrev=False"])
        body = f"parser = argparse.ArgumentParser({made})\n"
        owner = self.chance.choice(["parser", "parser", "group"])
        if owner == "group":
            body += "group = parser.add_argument_group('training')\n"
        for name in ("output_dir", *names):
            spelled = self.chance.choice([name, name, name.replace("_", "-")])
            kind = self.chance.choice([
                "", "type=int", "type=float, default=1.0", "type=str", "action='store_true'", "nargs='+'", "nargs='?'",
                "choices=['a', 'b', 'all']", "type=int, choices=[1, 2]", "action='append'", "required=True", "nargs=2",
                "type=int, nargs='*'", "action='store_false'", "action=argparse.BooleanOptionalAction",
                "type=lambda text: text == 'yes'",
            ])  # fmt: skip
            self.fitting[name] = next((values for word, values in OF_TYPES.items() if word in kind), ("a",))
            body += f"{owner}.add_argument('--{spelled}', {kind})\n".replace(", )", ")")
        if self.chance.random() < 0.3:
            body += "for name in ('lr', 'beta'):\n    parser.add_argument('--' + name, type=float)\n"
        if self.chance.random() < 0.15:
            body += "parser.add_argument('config', nargs='?')\n"
        method = self.chance.choice(["args = parser.parse_args()"] * 4 + ["args, _ = parser.parse_known_args()"])
        if self.chance.random() < 0.3:
            lines = "".join(f"    {line}\n" for line in body.splitlines())
            return f"def get_parser():\n{lines}    return parser\n\n" + self.in_main(
                f"parser = get_parser()\n{method}\n"
            )
        return self.in_main(f"{body}{method}\n")


def real(cases: list[Case], packages: str = "") -> list[dict[str, Any]]:
    environment = {**os.environ, "PYTHONPATH": packages, "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    outcomes: list[dict[str, Any]] = json.loads(done.stdout.rpartition("\n")[2])
    return outcomes


def predicted(case: Case, release: str) -> tuple[list[RefusedWord], bool] | None:
    """The words that are refused, and whether nothing reads the rest; None if the parser is not understood."""
    script = read_training_script(case.script)
    line = script.command_line if script is not None else None
    options = options_of(line, knowledge(Target(transformers=release))) if line is not None else None
    if line is None or options is None:
        return None
    return refused_words(case.words, line, options, is_whole=True), line.rest == "unread"


def agrees(case: Case, outcome: dict[str, Any], release: str) -> bool:
    found = predicted(case, release)
    if found is None:
        return False
    refused, is_unread = found
    counted = [one for one in refused if not (is_unread and one.what in ("unknown", "stray"))]
    what, message = outcome["what"], outcome["message"]
    if not counted:
        return bool(what == "accepted")
    if what == "left":
        left = re.findall(r"'([^']*)'", message)
        unknown = [one.text for one in counted if one.what in ("unknown", "stray")]
        return unknown == [one for one in left if one in unknown] and bool(unknown)
    names = [one.text for one in counted] + [flag for one in counted if one.option for flag in one.option.flags]
    return bool(what == "stopped") and (any(name in message for name in names) or "ambiguous" in message)


def share(number: int, release: str, packages: str = "") -> float:
    cases = [Generator(seed).case() for seed in range(number)]
    outcomes = real(cases, packages)
    wrong = [
        (case.words, outcome, predicted(case, release), case.script[len(HEAD) :])
        for case, outcome in zip(cases, outcomes, strict=True)
        if not agrees(case, outcome, release)
    ]
    for one in wrong[:8]:
        sys.stdout.write("\n".join(map(str, one)) + "\n---\n")
    return 1 - len(wrong) / number


def test_words_that_the_installed_release_refuses() -> None:
    assert share(200, str(INSTALLED.transformers)) >= 0.99


@pytest.mark.long
@pytest.mark.parametrize("release", [*OLDER, ""])
def test_words_that_other_releases_refuse(release: str, tmp_path: Path) -> None:
    packages = ""
    if release:
        packages = str(tmp_path)
        words = [f"transformers=={release}", *OLDER[release]]
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", packages, *words]
        subprocess.run(install, check=True)
    assert share(2000, release or str(INSTALLED.transformers), packages) >= 0.99


def test_the_store_knows_the_fields_of_seq2seq_arguments() -> None:
    from transformers import Seq2SeqTrainingArguments, TrainingArguments

    own = {*Seq2SeqTrainingArguments.__dataclass_fields__} - {*TrainingArguments.__dataclass_fields__}
    assert own == set(knowledge(INSTALLED).table("transformers", "seq2seq_arguments"))
    assert "seq2seq_arguments" in tables.load("transformers")
