"""The model that a launch is known to train is the one that its script loads, with the real bash and parsers.

Scripts and launching scripts are generated; the real bash starts each, and the script runs with the real argparse,
dataclasses and transformers, where ``from_pretrained`` only notes the name.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import random
import runpy
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("transformers")

import transformers

from ds_lint.facts.launched import LaunchFacts
from ds_lint.project.launches import read_launches
from ds_lint.session.launched import LaunchingProject

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fidelity

SHORT, LONG = 60, 2000
NAMES = ["bigscience/T0pp", "google/mt5-large", "gpt2", "models/byt5-base", "/data/flan-t5-xl", "org/name-7b"]
FLAGS = ["model_name_or_path", "model_name", "base_model", "model", "pretrained", "checkpoint"]
IMPORTS = """\
import argparse, os, sys
from dataclasses import dataclass, field
from typing import Optional

import transformers
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

"""


class Program(NamedTuple):
    files: dict[str, str]
    launch: str


class Generator:
    """Scripts that take the name of their model from somewhere, as people write them, by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files: dict[str, str] = {}
        self.shell: list[str] = []
        self.words: list[str] = []

    def name(self) -> str:
        return self.chance.choice(NAMES)

    def program(self) -> Program:
        way = self.chance.choice([
            self.with_dataclass, self.with_dataclass, self.with_argparse, self.with_argparse, self.with_constant,
            self.with_environment, self.with_fire, self.with_fire, self.with_yaml, self.with_json, self.with_dict,
            self.with_click, self.with_typer, self.with_branch, self.with_class,
        ])  # fmt: skip
        self.files["train.py"] = IMPORTS + way()
        self.shell.append(f"deepspeed train.py {' '.join(self.words)} --deepspeed ds.json")
        return Program(self.files, "\n".join(self.shell) + "\n")

    # ---------------------------------------------------------------------------------------------------- the launch

    def give(self, flag: str, *, always: bool = False, dashes: bool = False) -> None:
        """The flag in the launch, or not, as one of the ways in which shell scripts write it."""
        kind = self.chance.randrange(3, 9) if always else self.chance.randrange(9)
        if kind < 3:
            return
        name, option = self.name(), f"--{flag.replace('_', '-') if dashes else flag}"
        if kind == 3:
            self.words += [option, name]
        elif kind == 4:
            self.words.append(f"{option}={name}")
        elif kind == 5:
            self.shell.append(f"MODEL={self.chance.choice([name, repr(name)])}")
            self.words += [option, self.chance.choice(["$MODEL", "${MODEL}", '"$MODEL"', '"${MODEL}"'])]
        elif kind == 6:
            self.words += [option, f"${{MODEL:-{name}}}"]
        elif kind == 7:
            organisation, _, own = name.rpartition("/")
            self.shell.append(f"OWN={own}")
            self.words += [option, f"{organisation}/$OWN" if organisation else "$OWN"]
        else:
            self.shell += ["MODEL=${MODEL:=" + name + "}", f"ARGS='{option} '$MODEL"]
            self.words.append("$ARGS")

    # ------------------------------------------------------------------------------------------------------ the load

    def load(self, name: str) -> str:
        before, given = self.chance.choice([
            ("", name), ("", f"pretrained_model_name_or_path={name}"), (f"path = {name}\n", "path"),
            ("kwargs = {}\n", f"{name}, **kwargs"), ("", f"{name}, revision='main'"),
        ])  # fmt: skip
        return f"{before}model = AutoModelForCausalLM.from_pretrained({given})\n" + TRAIN

    def main(self, body: str) -> str:
        kind = self.chance.randrange(4)
        if kind == 0:
            return body
        lines = "".join(f"    {line}\n" if line else "\n" for line in body.splitlines())
        if kind == 3:
            return f"def main():\n{lines}\n\nmain()\n"
        return f"def main():\n{lines}\n\nif __name__ == '__main__':\n    main()\n"

    def through_function(self, name: str) -> str:
        """The load, perhaps in a function of its own."""
        if self.chance.random() < 0.6:
            return self.load(name)
        load = f"def build(name):\n    return AutoModelForCausalLM.from_pretrained(name)\n\nmodel = build({name})\n"
        return load + TRAIN

    # ---------------------------------------------------------------------------------------------------------- ways

    def with_dataclass(self) -> str:
        flag = self.chance.choice(FLAGS)
        declared = self.chance.choice(["str", "Optional[str]"])
        name = self.name()
        constant = ""
        if self.chance.random() < 0.2:
            constant, shown = f"DEFAULT = {name!r}\n\n", "DEFAULT"
        else:
            shown = repr(name)
        default = self.chance.choice([
            f" = {shown}", f" = field(default={shown})", f" = field(default={shown}, metadata={{'help': 'a'}})",
            f" = field(default_factory=lambda: {shown})", "" if declared == "str" else f" = field(default={shown})",
        ])  # fmt: skip
        self.give(flag, always=not default, dashes=self.chance.random() < 0.3)
        lines = f"{constant}@dataclass\nclass ModelArguments:\n    {flag}: {declared}{default}\n"
        lines += "    cache_dir: Optional[str] = field(default=None)\n\n"
        if self.chance.random() < 0.25:  # in a module of its own
            self.files["own_arguments.py"] = IMPORTS + lines
            lines = "from own_arguments import ModelArguments\n\n"
        parse = self.chance.choice([
            f"parser = HfArgumentParser((ModelArguments, TrainingArguments))\n{BOTH}",
            f"parser = HfArgumentParser(ModelArguments)\n{AND_REST}",
        ])  # fmt: skip
        return lines + self.main(parse + self.through_function(f"model_args.{flag}"))

    def with_argparse(self) -> str:
        flag = self.chance.choice(FLAGS)
        declares_dashes = self.chance.random() < 0.3
        written = flag.replace("_", "-") if declares_dashes else flag
        is_required = self.chance.random() < 0.2
        more = ", required=True" if is_required else f", default={self.name()!r}"
        more += self.chance.choice(["", ", type=str", ", help='a'"])
        dest = self.chance.choice(["", "", ", dest='named'"])
        short = self.chance.choice(["", "", "'-m', "])
        lines = f"parser = argparse.ArgumentParser()\nparser.add_argument({short}'--{written}'{more}{dest})\n"
        lines += "parser.add_argument('--deepspeed')\nparser.add_argument('--lr', type=float, default=1e-4)\n"
        if self.chance.random() < 0.15:
            lines += f"parser.set_defaults({'named' if dest else flag}={self.name()!r})\n"
        self.give(flag, always=is_required, dashes=declares_dashes)
        variable = self.chance.choice(["args", "args", "opt", "cfg"])
        if self.chance.random() < 0.3:
            function = "".join(f"    {line}\n" for line in lines.splitlines())
            return f"def parse_args():\n{function}    return parser.parse_args()\n\n" + self.main(
                f"{variable} = parse_args()\n" + self.through_function(f"{variable}.{'named' if dest else flag}")
            )
        return self.main(
            f"{lines}{variable} = parser.parse_args()\n"
            + self.through_function(f"{variable}.{'named' if dest else flag}")
        )

    def with_constant(self) -> str:
        name = self.name()
        organisation, _, own = name.rpartition("/")
        lines, shown = self.chance.choice([
            (f"MODEL = {name!r}\n", "MODEL"),
            (f"OWN = {own!r}\n", f"f'{organisation}/{{OWN}}'"),
            (f"OWN = {own!r}\n", f"{organisation + '/'!r} + OWN"),
            (f"OWN = {own!r}\n", f"os.path.join({organisation!r}, OWN)"),
            (f"OWN = {own!r}\n", f"'{{}}/{{}}'.format({organisation!r}, OWN)"),
            ("", repr(name)),
            (f"CONFIG = {{'model': {name!r}, 'lr': 1e-4}}\n", "CONFIG['model']"),
            (f"CONFIG = {{'model': {{'name': {name!r}}}}}\n", "CONFIG['model']['name']"),
            (f"MODELS = {{'small': {self.name()!r}, 'large': {name!r}}}\n", "MODELS['large']"),
            (f"CONFIG = dict(model={name!r})\n", "CONFIG.get('model')"),
            (f"MODELS = [{name!r}, {self.name()!r}]\n", "MODELS[0]"),
        ])  # fmt: skip
        return lines + self.main(self.through_function(shown))

    def with_environment(self) -> str:
        name = self.name()
        kind = self.chance.randrange(4)
        if kind == 1:
            self.shell.append(f"export MODEL={self.name()}")
        elif kind == 2:
            self.shell.append(f"MODEL={self.name()}")  # not exported
        read = self.chance.choice(
            [
                f"os.environ.get('MODEL', {name!r})",
                f"os.getenv('MODEL', {name!r})",
                f"os.environ.get('MODEL') or {name!r}",
            ]
        )
        if kind == 1 and self.chance.random() < 0.4:
            read = "os.environ['MODEL']"
        if kind == 3:
            self.give("model", always=True)
            lines = f"parser = argparse.ArgumentParser()\nparser.add_argument('--model', default={read})\n"
            lines += "parser.add_argument('--deepspeed')\nargs = parser.parse_args()\n"
            return self.main(lines + self.through_function("args.model"))
        return self.main(f"name = {read}\n" + self.through_function("name"))

    def with_fire(self) -> str:
        if importlib.util.find_spec("fire") is None:
            return self.with_click()
        flag = self.chance.choice(FLAGS)
        self.give(flag)
        module = self.chance.choice(["import fire\n", "from fire import Fire\n"])
        call = "fire.Fire(train)" if module.startswith("import") else "Fire(train)"
        default = self.name()
        check = self.chance.choice(["", f"    assert {flag}, 'a'\n"])
        return (
            f"{module}\ndef train(\n    {flag}: str = {default!r},  # the only required argument\n"
            f"    deepspeed: str = '',\n    batch_size: int = 128,\n):\n{check}"
            + "".join(f"    {line}\n" for line in self.load(flag).splitlines())
            + f"\n\nif __name__ == '__main__':\n    {call}\n"
        )

    def with_click(self) -> str:
        flag = self.chance.choice(FLAGS)
        self.give(flag)
        return (
            f"import click\n\n@click.command()\n@click.option('--{flag}', default={self.name()!r})\n"
            f"@click.option('--deepspeed', default='')\ndef main({flag}, deepspeed):\n"
            + "".join(f"    {line}\n" for line in self.load(flag).splitlines())
            + "\n\nif __name__ == '__main__':\n    main()\n"
        )

    def with_typer(self) -> str:
        flag = self.chance.choice(FLAGS)
        self.give(flag, dashes=True)
        made, run = self.chance.choice([("", "typer.run(main)"), ("app = typer.Typer()\n\n@app.command()\n", "app()")])
        return (
            f"import typer\n\n{made}def main({flag}: str = {self.name()!r}, deepspeed: str = ''):\n"
            + "".join(f"    {line}\n" for line in self.load(flag).splitlines())
            + f"\n\nif __name__ == '__main__':\n    {run}\n"
        )

    def with_yaml(self) -> str:
        self.files["conf/train.yaml"] = f"model: {self.name()}\nnested:\n  name: {self.name()}\nlr: 1e-4\n"
        self.files["conf/other.yaml"] = f"model: {self.name()}\nnested: {{name: {self.name()}}}\n"
        path = self.chance.choice(["'conf/train.yaml'", "args.config"])
        load = self.chance.choice(
            [
                f"with open({path}) as file:\n    cfg = yaml.safe_load(file)\n",
                f"cfg = yaml.safe_load(open({path}))\n",
                f"cfg = yaml.load(open({path}, 'r').read(), Loader=yaml.FullLoader)\n",
            ]
        )
        if path == "args.config":
            before = "parser = argparse.ArgumentParser()\nparser.add_argument('--deepspeed')\n"
            before += "parser.add_argument('--config', default='conf/train.yaml')\nargs = parser.parse_args()\n"
            load = before + load
            self.words += self.chance.choice([[], ["--config", "conf/other.yaml"]])
        shown = self.chance.choice(["cfg['model']", "cfg['nested']['name']", "cfg.get('model')"])
        return "import yaml\n\n" + self.main(load + self.through_function(shown))

    def with_json(self) -> str:
        self.files["conf/train.json"] = f'{{"model": "{self.name()}", "nested": {{"name": "{self.name()}"}}}}\n'
        load = "with open('conf/train.json') as file:\n    cfg = json.load(file)\n"
        shown = self.chance.choice(["cfg['model']", "cfg['nested']['name']"])
        return "import json\n\n" + self.main(load + self.through_function(shown))

    def with_dict(self) -> str:
        lines = f"config = {{'model_name': {self.name()!r}, 'lr': 1e-4}}\n"
        if self.chance.random() < 0.4:
            lines += f"config['model_name'] = {self.name()!r}\n"
        elif self.chance.random() < 0.3:
            lines += f"config.update(model_name={self.name()!r})\n"
        return self.main(lines + self.through_function("config['model_name']"))

    def with_branch(self) -> str:
        self.words += self.chance.choice([[], ["--size", "large"], ["--size", "small"]])
        lines = "parser = argparse.ArgumentParser()\nparser.add_argument('--size', default='small')\n"
        lines += "parser.add_argument('--deepspeed')\nargs = parser.parse_args()\n"
        one, other = self.name(), self.name()
        lines += self.chance.choice([
            f"name = {one!r} if args.size == 'small' else {other!r}\n",
            f"if args.size == 'small':\n    name = {one!r}\nelse:\n    name = {other!r}\n",
            f"name = {one!r}\nif args.size == 'large':\n    name = {other!r}\n",
            f"name = {{'small': {one!r}, 'large': {other!r}}}[args.size]\n",
        ])  # fmt: skip
        return self.main(lines + self.through_function("name"))

    def with_class(self) -> str:
        """A class with constants, of which nothing is given by the launch."""
        fields = f"@dataclass\nclass Config:\n    model_name: str = {self.name()!r}\n\n"
        lines, shown = self.chance.choice(
            [
                (f"class Config:\n    model_name = {self.name()!r}\n    lr = 1e-4\n\n", "Config.model_name"),
                (f"{fields}config = Config()\n", "config.model_name"),
                (f"{fields}config = Config(model_name={self.name()!r})\n", "config.model_name"),
            ]
        )
        return lines + "\n" + self.main(self.through_function(shown))


BOTH = "model_args, training_args = parser.parse_args_into_dataclasses()\n"
AND_REST = "model_args, rest = parser.parse_args_into_dataclasses(return_remaining_strings=True)\n"
TRAIN = "Trainer(model=model, args=TrainingArguments('out')).train()\n"


def words_of(program: Program, folder: Path) -> tuple[list[str], dict[str, str]]:
    """The words of the launch, and the variables that it exports, by the real bash."""
    bash = 'deepspeed() { printf "%s\\0" "$@"; printf "%s\\0" "MODEL=$(printenv MODEL)"; }\n' + program.launch
    plain = {"PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", bash], capture_output=True, cwd=folder, env=plain, check=True)
    *words, model = done.stdout.decode().split("\0")[:-1]
    return words, {"MODEL": model[6:]} if model != "MODEL=" else {}


def loaded(program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name that the script loads a model by."""
    words, variables = words_of(program, folder)
    names: list[str] = []

    def note(pretrained_model_name_or_path: str, *_: object, **__: object) -> str:
        names.append(pretrained_model_name_or_path)
        return "model"

    with monkeypatch.context() as patch:
        patch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", note)
        patch.setattr("transformers.trainer.Trainer.__init__", lambda *_, **__: None)
        patch.setattr("transformers.trainer.Trainer.train", lambda *_, **__: None)
        patch.setattr("transformers.TrainingArguments.__post_init__", lambda *_, **__: None)
        patch.setattr(sys, "argv", words)
        patch.delenv("MODEL", raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.syspath_prepend(str(folder))
        patch.chdir(folder)
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                runpy.run_path("train.py", run_name="__main__")
        except SystemExit as ended:  # which click does at its end
            assert not ended.code, (program, words)
        finally:
            sys.modules.pop("own_arguments", None)
    (name,) = names
    return name


def known(program: Program, folder: Path) -> str | None:
    """The name that ds-lint knows; None where it is unknown."""
    file = read_launches(str(folder / "run.sh"), str(folder))
    assert file is not None
    (facts,) = LaunchingProject(str(folder)).launches(file)
    assert isinstance(facts, LaunchFacts)
    return facts.model_name


@pytest.mark.parametrize(
    "number", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.long)]
)
def test_a_known_name_is_the_one_that_the_script_loads(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = 0
    for seed in range(number):
        folder = tmp_path / str(seed)
        program = Generator(seed).program()
        for name, text in {**program.files, "run.sh": program.launch, "ds.json": "{}"}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        name = known(program, folder)
        if name is not None:
            assert name == loaded(program, folder, monkeypatch), (seed, name, program)
        right += name is not None
    assert right > 0.9 * number, right
