"""A launcher and a framework are one record each: what is said of them elsewhere follows from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import clean_environment, write_into

from ds_lint.frameworks import FRAMEWORKS
from ds_lint.launches.launchers import LAUNCHERS, by_module, by_program

ROOT = Path(__file__).parent.parent.parent
# A process that has two more records, and then runs what it is told.
MADE = """\
import sys
from ds_lint import frameworks
from ds_lint.frameworks.record import ALL, AdapterFields, Framework, Program

frameworks.FRAMEWORKS["TinyTune"] = Framework(
    "TinyTune",
    program=Program({"tinytune": ("fit",)}, "torchrun", processes=2),
    model="tiny_model",
    keys=frozenset({"tiny_depth"}),
    adapters=AdapterFields({"tiny_lora": (True,)}, "tiny_rank", 8, "tiny_targets", ALL, "tiny_saved"),
    lengths=("tiny_length",),
)
from ds_lint.launches import launchers, ranks

launchers.LAUNCHERS["manyrun"] = launchers.Launcher(
    "manyrun", {"manyrun": ()}, lambda call: ranks.Ranks(1, call.options.number("np")), is_per_gpu=True
)
"""
CHECKS = MADE + "from ds_lint.cli import run\nsys.exit(run(sys.argv[1:]))\n"
PUBLISHES = MADE + "from tools import publish_schemas\nprint(publish_schemas.files()[publish_schemas.LAUNCHES])\n"
SMOKES = MADE + "from ds_lint.launches.launchers import is_launcher\nprint(is_launcher(['python', *sys.argv[1:]]))\n"
PROJECT = {
    "ds.json": {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"},
    "tune.yaml": "tiny_model: meta-llama/Llama-3.1-8B\ntiny_depth: 3\ntiny_lora: true\ntiny_length: 2048\n"
    "deepspeed: ds.json\nbf16: true\nper_device_train_batch_size: 2\n",
    "run.sh": "tinytune fit tune.yaml\ntinytune chat\nmanyrun --np 4 train.py --deepspeed ds.json\n",
}


@pytest.fixture
def made(tmp_path):
    """A function that runs a program with the two records in a project that uses both, and gives what it prints."""
    write_into(tmp_path)(PROJECT)

    def run(program, *arguments):
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
        )
        assert done.stdout, done.stderr
        return done.stdout

    return run


def test_show_launches_has_them(made):
    launches = json.loads(made(CHECKS, "check", "--show-launches", "--output-format", "json"))["launches"]
    assert [(one["launcher"], one["world_size"], one["script"]) for one in launches] == [
        ("tinytune", 2, None),
        ("manyrun", 4, "train.py"),
    ]


def test_show_files_has_the_recipe(made):
    files = json.loads(made(CHECKS, "check", "--show-files", "--output-format", "json"))["files"]
    (recipe,) = [one for one in files if one["kind"] == "recipe"]
    assert recipe["why"] == "recipe of TinyTune, has `deepspeed`, `tiny_model`, `tiny_depth`"


def test_memory_takes_model_adapters_length_and_ranks(made):
    text = " ".join(made(CHECKS, "memory", "run.sh", "--gpu", "H100").split())
    assert ", 2 ranks meta-llama/Llama-3.1-8B" in text
    assert "21 million of them trained; micro batch 2; sequence length up to 2048; launched at run.sh:1" in text


def test_the_published_schema_and_smoke_have_them(made):
    schema = json.loads(made(PUBLISHES))
    launcher = schema["properties"]["launches"]["items"]["properties"]["launcher"]
    assert launcher["enum"][-2:] == ["tinytune", "manyrun"]
    assert made(SMOKES, "manyrun") == "True\n"


@pytest.mark.parametrize("launcher", LAUNCHERS.values(), ids=LAUNCHERS)
def test_the_documentation_names_the_programs_of_a_launcher(launcher):
    page = (ROOT / "docs" / "launches.md").read_text(encoding="utf-8")
    table = page.partition("| launcher |")[2].partition("\n\n")[0]
    assert {name for name in (*launcher.programs, *launcher.modules) if f"`{name}" not in table} == set()
    assert f"| `{launcher.name}" in table


@pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_the_documentation_says_what_a_recipe_of_a_framework_is_and_how_it_is_launched(framework):
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert f"\n| {framework.name} | " in page.partition("## What is known")[2]
    assert any(f"`{name} " in page for name in framework.program.programs)
    told = page.partition(f"* **{framework.name}")[2].partition("\n")[0]
    assert not framework.keys or (f"`{framework.model}`" in told and any(f"`{key}`" in told for key in framework.keys))


def test_every_name_belongs_to_one_launcher():
    assert sum(len(one.programs) for one in LAUNCHERS.values()) == len(by_program())
    assert sum(len(one.modules) for one in LAUNCHERS.values()) == len(by_module())
