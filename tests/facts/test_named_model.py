"""Which model a launch trains, by its words and by the script that it starts."""

from __future__ import annotations

import pytest

from ds_lint.facts.named_model import named_model
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script

DATACLASS = """
from dataclasses import dataclass, field
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="google/flan-t5-small")
    kind: str = "small"
    from_scratch: bool = False

model_args, training_args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
"""
ARGPARSE = """
import argparse
import deepspeed
from transformers import AutoModelForCausalLM, T5ForConditionalGeneration

parser = argparse.ArgumentParser()
parser.add_argument("--base", default="gpt2")
parser.add_argument("--kind", choices=["t5", "gpt"], default="gpt")
parser.add_argument("--from-scratch", action="store_true")
args = parser.parse_args()
"""
LOAD = "model = AutoModelForCausalLM.from_pretrained"
T5 = "T5ForConditionalGeneration.from_pretrained"
TRAIN = "\nTrainer(model=model, args=training_args).train()\n"
INITIALIZE = "\nengine, *_ = deepspeed.initialize(args=args, model=model)\n"
LOADED = DATACLASS + "model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path)" + TRAIN
BY_KIND = """
if args.kind == "t5":
    model = T5ForConditionalGeneration.from_pretrained("google/flan-t5-base")
else:
    model = AutoModelForCausalLM.from_pretrained("gpt2-xl")
"""


def name_of(script, flags=""):
    launch = launches_in(f"deepspeed train.py {flags} --deepspeed ds.json\n", "run.sh", lambda _: None).launches[0]
    return named_model(launch, read_training_script(script) if script else None)


@pytest.mark.parametrize(
    ("script", "flags", "name"),
    [
        (None, "--model_name_or_path google/gemma-7b", "google/gemma-7b"),
        (LOADED, "--model_name_or_path google/gemma-7b", "google/gemma-7b"),
        (LOADED, "", "google/flan-t5-small"),
        (LOADED, '--output_dir "$OUT"', "google/flan-t5-small"),
        (LOADED, '"$@"', None),
        (LOADED, "--model_name_or_path $MODEL", None),
        (LOADED.replace("field(default=", "dict(default="), "", None),
        (DATACLASS + "from own import build\nmodel = build(model_args)" + TRAIN, "", "google/flan-t5-small"),
        (f"{ARGPARSE}{LOAD}(args.base){INITIALIZE}", "", "gpt2"),
        (f"{ARGPARSE}{LOAD}(args.base){INITIALIZE}", "--base gpt2-xl", "gpt2-xl"),
        (f"{ARGPARSE}args.base = pick()\n{LOAD}(args.base){INITIALIZE}", "", None),
        (f"{ARGPARSE}NAME = 'gpt2-xl'\n{LOAD}(NAME){INITIALIZE}", "", "gpt2-xl"),
        (ARGPARSE.replace('base",', 'model", dest="base",') + f"{LOAD}(args.base){INITIALIZE}", "--model t5", "t5"),
        (ARGPARSE + BY_KIND + INITIALIZE, "", "gpt2-xl"),
        (ARGPARSE + BY_KIND + INITIALIZE, "--kind t5", "google/flan-t5-base"),
        (ARGPARSE + BY_KIND + INITIALIZE, "--kind $KIND", None),
        (ARGPARSE.replace('"gpt")', "pick())") + BY_KIND + INITIALIZE, "", None),
        (f"{ARGPARSE}if False:\n    {LOAD}('gpt2'){INITIALIZE}", "", None),
    ],
)
def test_the_model_is_the_one_that_the_launch_loads(script, flags, name):
    assert name_of(script, flags).name == name


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (f"def load(name):\n    {LOAD}(name)\n    return model\nmodel = load('gpt2-xl')", "gpt2-xl"),
        (f"def load(args):\n    {LOAD}(args.base)\n    return model\nmodel = load(args)", "gpt2"),
        (f"def unused():\n    return {T5}('t5-small')\nmodel = build()", None),
        (f"teacher = {T5}('t5-small')\nmodel = build()", None),
        (f"teacher = {T5}('t5-small')\n{LOAD}('gpt2')", "gpt2"),
        (f"if flag():\n    {LOAD}('gpt2-xl')\nelse:\n    model = build()", None),
        (f"if flag():\n    {LOAD}('gpt2', dtype=one)\nelse:\n    {LOAD}('gpt2')", "gpt2"),
        (f"{LOAD}('t5-small' if args.kind == 't5' else 'gpt2')", "gpt2"),
        (f"name = 'gpt2'\nif args.kind == 't5':\n    name = 't5-small'\n{LOAD}(name)", "gpt2"),
        (f"{LOAD}(pretrained_model_name_or_path='gpt2-xl')", "gpt2-xl"),
        (f"if args.from_scratch:\n    model = build()\nelse:\n    {LOAD}(args.base)", "gpt2"),
        (f"match args.kind:\n  case 't5':\n    model = {T5}('t5-base')\n  case 'gpt':\n    {LOAD}('gpt2')", "gpt2"),
    ],
)
def test_a_load_counts_where_it_runs_and_makes_the_model(body, name):
    assert name_of(ARGPARSE + body + INITIALIZE).name == name


def test_the_class_of_a_branch_that_is_not_taken_does_not_count():
    assert name_of(ARGPARSE + BY_KIND + INITIALIZE).class_name == ""
    assert name_of(ARGPARSE + BY_KIND + INITIALIZE, "--kind t5").class_name == "T5ForConditionalGeneration"
    assert name_of(ARGPARSE + BY_KIND + INITIALIZE, "--kind $KIND").class_name is None


def test_a_class_of_liger_loads_what_one_of_transformers_does():
    imported = "from liger_kernel.transformers import AutoLigerKernelForCausalLM\n"
    body = "if args.liger:\n    model = AutoLigerKernelForCausalLM.from_pretrained('gpt2')\nelse:\n    "
    assert name_of(imported + ARGPARSE + body + f"{LOAD}('gpt2')" + INITIALIZE)[:2] == ("gpt2", "")


def test_fire_makes_arguments_of_parameters():
    script = """
import fire
from transformers import AutoModelForCausalLM, Trainer

def train(base_model: str = "huggyllama/llama-7b", output_dir: str = "out"):
    model = AutoModelForCausalLM.from_pretrained(base_model)
    Trainer(model=model).train()

fire.Fire(train)
"""
    assert name_of(script).name == "huggyllama/llama-7b"
    assert name_of(script, "--base_model gpt2").name == "gpt2"


def test_trl_loads_a_model_by_its_name():
    script = "from trl import SFTTrainer\nSFTTrainer(model='Qwen/Qwen2.5-7B', train_dataset=rows()).train()\n"
    assert name_of(script).name == "Qwen/Qwen2.5-7B"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("config = {'model': 'gpt2'}\nconfig['model'] = 'gpt2-xl'\nmodel = load(config['model'])", "gpt2-xl"),
        ("config = {'model': 'gpt2'}\nconfig['model'] = pick()\nmodel = load(config['model'])", None),
        ("class Config:\n    model = 'gpt2'\n\nmodel = load(Config.model)", "gpt2"),
        ("import os\nOWN = 'gpt2'\nmodel = load(os.path.join('openai-community', OWN))", "openai-community/gpt2"),
        ("import os\nmodel = load(os.environ.get('MODEL', 'gpt2'))", "gpt2"),
        ("import os\nos.environ['MODEL'] = pick()\nmodel = load(os.environ.get('MODEL', 'gpt2'))", None),
        ("model = load(f'google/flan-t5-{args.kind}')", "google/flan-t5-gpt"),
    ],
)
def test_a_name_is_worked_out(body, name):
    body = body.replace("load(", "AutoModelForCausalLM.from_pretrained(")
    assert name_of(ARGPARSE + body + INITIALIZE).name == name


def test_a_class_that_the_script_makes_itself_has_no_default():
    made = "@dataclass\nclass Config:\n    model_name: str = 'gpt2'\n\nconfig = Config(model_name=pick())\n"
    assert name_of(f"{made}{LOAD}(config.model_name){INITIALIZE}").name is None


@pytest.mark.parametrize(
    ("declared", "run"),
    [
        ("import click\n\n@click.command()\n@click.option('--model', default='gpt2')\ndef main(model):\n", "main()"),
        ("import typer\n\napp = typer.Typer()\n\n@app.command()\ndef main(model: str = 'gpt2'):\n", "app()"),
    ],
)
def test_decorators_make_arguments_of_parameters(declared, run):
    script = f"{declared}    {LOAD}(model)\n    Trainer(model=model).train()\n\n{run}\n"
    assert name_of(script).name == "gpt2"
    assert name_of(script, "--model gpt2-xl").name == "gpt2-xl"


def test_a_file_that_the_script_loads_has_the_name(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "train.yaml").write_text("model: {name: gpt2-xl}\n", encoding="utf-8")
    script = f"import yaml\ncfg = yaml.safe_load(open('conf/train.yaml'))\n{LOAD}(cfg['model']['name']){INITIALIZE}"
    launch = launches_in("deepspeed train.py\n", "run.sh", lambda _: None).launches[0]
    assert named_model(launch, read_training_script(script, str(tmp_path / "train.py"))).name == "gpt2-xl"
    changed = script.replace("yaml'))\n", "yaml'))\ncfg['model'] = pick()\n")
    assert named_model(launch, read_training_script(changed, str(tmp_path / "train.py"))).name is None


def test_a_framework_has_a_field_of_its_own_for_the_model():
    command = "swift sft --model Qwen/Qwen2.5-7B --model_name robot --deepspeed zero2"  # by which it is to call itself
    (launch,) = launches_in(command, "run.sh", lambda _: None).launches
    assert named_model(launch, None)[:1] == ("Qwen/Qwen2.5-7B",)
