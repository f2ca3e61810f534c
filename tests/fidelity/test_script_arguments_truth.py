"""The training arguments that are known of a script are those that it makes with the real transformers.

Scripts and launch lines are generated; each script runs in this process, with a Trainer that only notes its arguments.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import runpy
import shlex
import subprocess
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

pytest.importorskip("transformers")

import transformers
from installed import knowledge
from training import train

from ds_lint.facts.argument_values import argument, fields
from ds_lint.facts.launched import LaunchFacts
from ds_lint.project.launches import read_launches
from ds_lint.session.launched import LaunchingProject

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fidelity

SHORT, LONG = 60, 1500
# Fields with values of each, none of which another field or the environment refuses.
VALUES: dict[str, list[Any]] = {
    "learning_rate": [1e-4, 2e-5, 3e-3],
    "per_device_train_batch_size": [1, 2, 16],
    "gradient_accumulation_steps": [1, 4, 32],
    "weight_decay": [0.0, 0.1],
    "adam_beta2": [0.95, 0.98],
    "adam_epsilon": [1e-6, 1e-7],
    "max_grad_norm": [0.3, 1.0, 0.0],
    "warmup_steps": [0, 100],
    "num_train_epochs": [1.0, 2.5],
    "max_steps": [10, 500],
    "save_steps": [50, 200],
    "save_total_limit": [1, 3],
    "seed": [1, 7],
    "bf16": [True, False],
    "save_only_model": [True, False],
    "save_on_each_node": [True, False],
    "remove_unused_columns": [True, False],
    "ddp_find_unused_parameters": [True, False],
    "lr_scheduler_type": ["cosine", "linear", "constant"],
    "save_strategy": ["no", "epoch", "steps"],
    "optim": ["adamw_torch", "sgd", "adafactor"],
    "run_name": ["a", "b"],
}
# Of which the parser or the class makes something else than was given.
CONVERTED = ("accelerator_config", "activation_checkpointing", "debug", "include_num_input_tokens_seen")
TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


BARE = ("bf16", "save_on_each_node", "remove_unused_columns")  # which also stand alone


class Program(NamedTuple):
    files: dict[str, str]
    launch: str


class Generator:
    """Scripts as people write them, by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files: dict[str, str] = {}
        self.flags: list[str] = []

    def some(self, most: int = 6) -> dict[str, Any]:
        names = self.chance.sample(sorted(VALUES), self.chance.randint(1, most))
        return {name: self.chance.choice(VALUES[name]) for name in names}

    def program(self) -> Program:
        way = self.chance.choice([
            self.parsed, self.parsed, self.parsed, self.called, self.called, self.with_argparse, self.with_dataclass,
            self.with_dict, self.with_file, self.with_words, self.with_branches, self.with_wrapper,
        ])  # fmt: skip
        body = way()
        self.files.setdefault("train.py", body)
        return Program(self.files, f"deepspeed train.py {shlex.join(self.flags)}\n")

    # ------------------------------------------------------------------------------------------------------- classes

    def class_lines(self) -> tuple[str, str]:
        """The lines that define or import a class of arguments, and its name."""
        kind = self.chance.randrange(8)
        base = self.chance.choice(["TrainingArguments", "Seq2SeqTrainingArguments"])
        if kind == 0:
            return f"from transformers import {base}\n", base
        if kind == 1:
            return "", f"transformers.{base}"
        name = self.chance.choice([base, "MyArguments", "TrainConfig"])
        if kind in (2, 3):
            return self.own_class(name, f"transformers.{base}"), name
        if kind == 4:
            return self.own_class("Parent", f"transformers.{base}") + self.own_class(name, "Parent"), name
        if kind == 5:
            mixin = f"@dataclass\nclass Extra:\n{self.fields_of(self.some(2))}\n"
            return mixin + self.own_class(name, f"Extra, transformers.{base}", is_decorated=True), name
        place = self.chance.choice(["arguments", "project.arguments"])
        self.files[f"{place.replace('.', '/')}.py"] = IMPORTS + self.own_class(name, f"transformers.{base}")
        if "." in place:
            self.files["project/__init__.py"] = self.chance.choice(["", f"from .arguments import {name}\n"])
            place = "project" if self.files["project/__init__.py"] else place
        if kind == 6 and name != base:
            child = self.chance.choice(["Child", f"{name}2"])
            return f"from {place} import {name}\n" + self.own_class(child, name), child
        return f"from {place} import {name}\n", name

    def own_class(self, name: str, base: str, *, is_decorated: bool = False) -> str:
        decorator = self.chance.choice(["@dataclass\n"] * 6 + ["@dataclasses.dataclass\n"] + [""] * (not is_decorated))
        extra = self.chance.choice([
            *[""] * 5,
            "    def __post_init__(self):\n        super().__post_init__()\n        self.seed = 3\n",
            "    def __post_init__(self):\n        self.save_steps = 77\n        super().__post_init__()\n",
            "    @property\n    def doubled(self):\n        return 2 * self.save_steps\n",
        ])  # fmt: skip
        return f"{decorator}class {name}({base}):\n{self.fields_of(self.some(4))}{extra}\n\n"

    def fields_of(self, given: dict[str, Any]) -> str:
        lines = [
            'cache_dir: Optional[str] = field(default=None, metadata={"help": "a"})',
            'model_max_length: int = field(default=512, metadata={"help": "b"})',
        ]
        for name, value in given.items():
            declared = TYPES[type(value)]
            declared = self.chance.choice([declared, f"Optional[{declared}]"]) if name != "bf16" else declared
            default = self.chance.choice([
                repr(value), f"field(default={value!r})", f'field(default={value!r}, metadata={{"help": "c"}})',
                f"field(default_factory=lambda: {value!r})",
            ])  # fmt: skip
            lines.append(f"{name}: {declared} = {default}")
        self.chance.shuffle(lines)
        return "".join(f"    {line}\n" for line in lines)

    # ---------------------------------------------------------------------------------------------------------- ways

    def take_flags(self, given: dict[str, Any], *, with_dashes: bool = True) -> None:
        for name, value in given.items():
            flag = f"--{self.chance.choice([name, name, name.replace('_', '-') if with_dashes else name])}"
            text = self.chance.choice([str(value), str(value).lower()]) if isinstance(value, bool) else str(value)
            if isinstance(value, bool) and value and self.chance.random() < 0.3 and name in BARE:
                self.flags.append(flag)
            elif self.chance.random() < 0.3:
                self.flags.append(f"{flag}={text}")
            else:
                self.flags += [flag, text]

    def parsed(self) -> str:
        lines, name = self.class_lines()
        self.take_flags({"output_dir": "out", **self.some()})
        data = '@dataclass\nclass DataArguments:\n    path: str = "a"\n    size: int = 3\n\n'
        parse = self.chance.choice([
            f"parser = transformers.HfArgumentParser((DataArguments, {name}))\n{BOTH}",
            f"parser = HfArgumentParser([DataArguments, {name}])\n{AND_REST}",
            f"(training_args,) = HfArgumentParser({name}).parse_args_into_dataclasses()\n",
            f"parser = HfArgumentParser((DataArguments, {name}))\n{OR_FILE}    {BOTH}",
        ])  # fmt: skip
        return IMPORTS + lines + data + self.main(parse)

    def main(self, parse: str, *, before: str = "") -> str:
        later = self.later()
        if self.chance.random() < 0.5:
            body = "".join(f"    {line}\n" if line else "\n" for line in (before + parse + later + TRAIN).splitlines())
            return f"def main():\n{body}\n\nif __name__ == '__main__':\n    main()\n"
        return before + parse + later + TRAIN

    def later(self) -> str:
        name, value = self.chance.choice(list(self.some(1).items()))
        return self.chance.choice([
            *[""] * 4,
            f"training_args.{name} = {value!r}\n",
            f"if training_args.seed > 3:\n    training_args.{name} = {value!r}\n",
            f"setattr(training_args, {name!r}, {value!r})\n",
            f"for name, value in {{{name!r}: {value!r}}}.items():\n    setattr(training_args, name, value)\n",
            f"training_args = dataclasses.replace(training_args, {name}={value!r})\n",
        ])  # fmt: skip

    def called(self) -> str:
        lines, name = self.class_lines()
        given = self.some()
        before = ""
        words: list[str] = []
        for field, value in given.items():
            kind = self.chance.randrange(6)
            if kind == 0:
                before += f"{field}_value = {value!r}\n"
                words.append(f"{field}={field}_value")
            elif kind == 1 and type(value) is int:
                words.append(f"{field}={value} * 2 // 2")
            elif kind == 2:
                before += f"common_{field} = dict({field}={value!r})\n"
                words.append(f"**common_{field}")
            elif kind == 3:
                words.append(f"{field}=type({value!r})({value!r})")
            else:
                words.append(f"{field}={value!r}")
        first = self.chance.choice(["'out'", "output_dir='out'", "output_dir=f'out/{1}'"])
        return IMPORTS + lines + self.main(f"training_args = {name}({', '.join([first, *words])})\n", before=before)

    def with_argparse(self) -> str:
        lines, name = self.class_lines()
        given, flags = self.some(), {}
        before = "parser = argparse.ArgumentParser()\n"
        words: list[str] = []
        for field, value in given.items():
            if isinstance(value, bool):
                action = self.chance.choice(["store_true", "store_false"])
                before += f"parser.add_argument('--{field}', action='{action}')\n"
                if self.chance.random() < 0.5:
                    self.flags.append(f"--{field}")
            else:
                shown = self.chance.choice([repr(value), repr(str(value))])
                short = self.chance.choice(["", f"'-{field[0]}{len(words)}', "])
                before += f"parser.add_argument({short}'--{field}', type={TYPES[type(value)]}, default={shown})\n"
                if self.chance.random() < 0.6:
                    flags[field] = self.chance.choice(VALUES[field])
            text = f"args.{field}"
            if type(value) is int and self.chance.random() < 0.3:
                text = f"args.{field} * 2"
            if not isinstance(value, bool) and self.chance.random() < 0.2:
                before += f"parser.set_defaults({field}={self.chance.choice(VALUES[field])!r})\n"
            words.append(f"{field}={text}")
        self.take_flags(flags, with_dashes=False)
        parse = self.chance.choice(["args = parser.parse_args()\n", "args, unknown = parser.parse_known_args()\n"])
        if self.chance.random() < 0.3:  # in a function of its own, and in a group
            lines_of_function = before.replace("parser.add", "group.add").splitlines()
            lines_of_function.insert(1, "group = parser.add_argument_group('training')")
            lines += "def get_args():\n" + "".join(f"    {line}\n" for line in lines_of_function)
            lines += "    return parser.parse_args()\n\n"
            before, parse = "", "args = get_args()\n"
        parse += self.chance.choice(
            ["", "", f"if args.{field} is None:\n    args.{field} = {value!r}\n", f"args.{field} = {value!r}\n"]
        )
        return (
            IMPORTS + lines + self.main(f"training_args = {name}('out', {', '.join(words)})\n", before=before + parse)
        )

    def with_dataclass(self) -> str:
        lines, name = self.class_lines()
        given = {field: value for field, value in self.some().items() if field != "ddp_find_unused_parameters"}
        own = f"@dataclass\nclass ScriptArguments:\n{self.fields_of(given)}\n"
        self.take_flags({field: self.chance.choice(VALUES[field]) for field in given if self.chance.random() < 0.5})
        parse = "script_args = HfArgumentParser(ScriptArguments).parse_args_into_dataclasses()[0]\n"
        words = ", ".join(f"{field}=script_args.{field}" for field in given)
        return IMPORTS + lines + own + self.main(f"training_args = {name}('out', {words})\n", before=parse)

    def with_dict(self) -> str:
        lines, name = self.class_lines()
        parse = f"(training_args,) = HfArgumentParser({name}).parse_dict({ {'output_dir': 'out', **self.some()}!r})\n"
        return IMPORTS + lines + self.main(parse)

    def with_file(self) -> str:
        lines, name = self.class_lines()
        self.files["conf/args.json"] = json.dumps({"output_dir": "out", **self.some()})
        path = self.chance.choice(["'conf/args.json'", "os.path.join('conf', 'args.json')", "sys.argv[1]"])
        if "argv" in path:
            self.flags = ["conf/args.json"]
        parse = f"(training_args,) = HfArgumentParser({name}).parse_json_file({path})\n"
        return IMPORTS + lines + self.main(parse)

    def with_words(self) -> str:
        lines, name = self.class_lines()
        self.take_flags({"output_dir": "out", **self.some()})
        words, self.flags = self.flags, []
        parse = f"(training_args,) = HfArgumentParser({name}).parse_args_into_dataclasses(args={words!r})\n"
        return IMPORTS + lines + self.main(parse)

    def with_branches(self) -> str:
        lines, name = self.class_lines()
        one, other = self.some(), self.some(2)
        other.update(self.chance.sample(sorted(one.items()), len(one) // 2))
        condition = self.chance.choice(["len(sys.argv) > 1", "len(sys.argv) < 2"])
        parse = f"if {condition}:\n    training_args = {name}('out', **{one!r})\n"
        parse += f"else:\n    training_args = {name}('out', **{other!r})\n"
        return IMPORTS + lines + self.main(parse)

    def with_wrapper(self) -> str:
        self.files["project/train.py"] = self.parsed().replace("if __name__", "if False and __name__")
        if "def main" not in self.files["project/train.py"]:
            self.files["train.py"] = self.files.pop("project/train.py")
            return self.files["train.py"]
        self.files.setdefault("project/__init__.py", "")
        return "from project.train import main\n\nif __name__ == '__main__':\n    main()\n"


BOTH = "data_args, training_args = parser.parse_args_into_dataclasses()\n"
AND_REST = "data_args, training_args, rest = parser.parse_args_into_dataclasses(return_remaining_strings=True)\n"
OR_FILE = """\
if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
    data_args, training_args = parser.parse_json_file(json_file=os.path.abspath(sys.argv[1]))
else:
"""
IMPORTS = """\
import argparse, dataclasses, os, sys
from dataclasses import dataclass, field
from typing import Optional

import transformers
from transformers import HfArgumentParser, Trainer

"""
TRAIN = "trainer = Trainer(model=None, args=training_args)\ntrainer.train()\n"


class Real(NamedTuple):
    """The fields as the class gets them the last of so many times, as it makes them, and as the Trainer has them."""

    times: int
    created: dict[str, Any]
    made: dict[str, Any]
    trained: dict[str, Any]


def run(program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Real:
    noted: dict[str, Any] = {"times": 0}
    real = transformers.TrainingArguments.__post_init__

    def note(arguments: Any) -> None:
        noted["times"] += 1
        noted["created"] = dict(vars(arguments))
        real(arguments)
        noted["made"] = dict(vars(arguments))

    def take(trainer: Any, model: None, args: Any) -> None:
        trainer.args = args

    def train(trainer: Any) -> None:
        noted["trained"] = dict(vars(trainer.args))

    with monkeypatch.context() as patch:
        patch.setattr(transformers.TrainingArguments, "__post_init__", note)
        patch.setattr("transformers.trainer.Trainer.__init__", take)
        patch.setattr("transformers.trainer.Trainer.train", train)
        patch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: True)
        patch.setattr(sys, "argv", ["train.py", *shlex.split(program.launch)[2:]])
        patch.syspath_prepend(str(folder))
        patch.chdir(folder)
        before = set(sys.modules)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                runpy.run_path(str(folder / "train.py"), run_name="__main__")
        finally:
            for name in set(sys.modules) - before:
                if name.partition(".")[0] in ("arguments", "project"):
                    del sys.modules[name]
    return Real(**noted)


def plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def compared(program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many of the fields are known and unknown; none of them is known wrongly."""
    for name, text in {**program.files, "run.sh": program.launch}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    file = read_launches(str(folder / "run.sh"), str(folder))
    assert file is not None
    (facts,) = LaunchingProject(str(folder)).launches(file)
    assert isinstance(facts, LaunchFacts)
    training = facts.training
    assert training is not None, program
    real = run(program, folder, monkeypatch)
    known, unknown = 0, 0
    for name in fields(knowledge()):
        if name not in (VALUES if real.times > 1 else real.created) or name in CONVERTED:
            continue
        created = argument(training, knowledge(), name, is_creation=True)
        trained = argument(training, knowledge(), name)
        if created is not None:
            assert plain(created.value) == plain(real.created[name]), (name, created, program)
        if trained is not None and real.trained[name] != real.made[name]:
            assert plain(trained.value) == plain(real.trained[name]), (name, trained, program)
        if name in VALUES:
            known += created is not None
            unknown += created is None
    return known, unknown


@pytest.mark.parametrize(
    "number", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.long)]
)
def test_known_arguments_are_those_of_the_script(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, unknown = 0, 0
    for seed in range(number):
        folder = tmp_path / str(seed)
        folder.mkdir()
        these = compared(Generator(seed).program(), folder, monkeypatch)
        known, unknown = known + these[0], unknown + these[1]
    assert known > 0.9 * (known + unknown), (known, unknown)


LATER = [  # a config, what the arguments are made with, and what the script sets then
    ({"gradient_clipping": 0.5}, {"max_grad_norm": 0.5}, {"max_grad_norm": 1.0}),
    ({"gradient_clipping": 0.5}, {"max_grad_norm": 1.0}, {"max_grad_norm": 0.5}),
    ({"train_micro_batch_size_per_gpu": 2}, {}, {"per_device_train_batch_size": 2}),
    ({"gradient_accumulation_steps": 4}, {"gradient_accumulation_steps": 4}, {"gradient_accumulation_steps": 2}),
    ({"scheduler": {"warmup_num_steps": 2}}, {"warmup_steps": 2}, {"warmup_steps": 3}),
    ({"scheduler": {"warmup_num_steps": 2}}, {"warmup_steps": 3}, {"warmup_steps": 2}),
    ({"scheduler": {"total_num_steps": 3}}, {"max_steps": 4}, {"max_steps": 3}),
    ({"optimizer": {"lr": 1e-3}}, {"learning_rate": 1e-3}, {"learning_rate": 1e-4}),
    ({"optimizer": {"lr": 1e-3}}, {"learning_rate": 1e-4}, {"learning_rate": 1e-3}),
    ({"bf16": {"enabled": False}}, {"bf16": True}, {"bf16": False}),
]


@pytest.mark.parametrize(("given", "arguments", "later"), LATER)
def test_a_field_that_is_set_later_counts_for_what_is_compared_later(
    given: dict[str, Any], arguments: dict[str, Any], later: dict[str, Any], tmp_path: Path
) -> None:
    """Most fields are compared with the config as the arguments are made; the schedule when the training begins."""
    config: dict[str, Any] = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, **given}
    config["zero_optimization"] = {"stage": 0}
    optimizer = config.pop("optimizer", {"lr": "auto"})
    config["optimizer"] = {"type": "AdamW", "params": optimizer, "torch_adam": True}
    if "scheduler" in given:
        schedule = {"warmup_num_steps": "auto", "total_num_steps": "auto", **given["scheduler"]}
        config["scheduler"] = {"type": "WarmupDecayLR", "params": schedule}
    fixed = {"per_device_train_batch_size": 1, "max_steps": 4, **arguments}
    words = ", ".join(f"{name}={value!r}" for name, value in fixed.items())
    script = f"{IMPORTS}from transformers import TrainingArguments\n"
    script += f"training_args = TrainingArguments('out', deepspeed='ds.json', {words})\n"
    script += "".join(f"training_args.{name} = {value!r}\n" for name, value in later.items()) + TRAIN
    (tmp_path / "ds.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    found = check(str(tmp_path))
    run = train(config, fixed, later=later)
    assert (run.at, "mismatch" in (run.error or "")) == (("train", True) if found else (None, False)), run.error


def check(folder: str) -> list[str]:
    """The mismatches that ds-lint finds in a folder."""
    words = [sys.executable, "-m", "ds_lint", "check", folder, "--output-format", "json", "--select", "DS610,DS612"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return [one["code"] for one in json.loads(done.stdout)["findings"]]
