"""Projects of any size, and the command that checks each: for every reader, and for what a project has many of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint import output

if TYPE_CHECKING:
    from collections.abc import Callable

    Files = dict[str, str]

ROOT = Path(__file__).parent.parent.parent
CLEAN: dict[str, Any] = json.loads((ROOT / "examples" / "clean.json").read_text(encoding="utf-8"))


class Case(NamedTuple):
    """One kind of input: its files by the number of units in it, the number to begin with, and the command line."""

    name: str
    files: Callable[[int], Files]
    units: int
    command: tuple[str, ...] = ("check",)

    def write(self, folder: Path, count: int) -> int:
        """Write the project of so many units, and return its bytes."""
        (folder / ".git").mkdir()  # what lies above is another project
        size = 0
        for name, text in self.files(count).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            size += path.write_text(text, encoding="utf-8")
        return size


_TOP = '"train_micro_batch_size_per_gpu": 1,\n'
_RUN = "deepspeed --num_gpus 2 train.py --deepspeed ds.json\n"
_DS = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}'


def _each(count: int, text: str) -> str:
    """A text so many times, with its number where it has ``#``."""
    return "".join(text.replace("#", str(number)) for number in range(count))


def _json(members: str) -> Callable[[int], Files]:
    return lambda count: {"ds.json": "{" + _TOP + _each(count, members + ",\n") + '"zero_optimization": {"stage": 2}}'}


def _hjson(members: str, start: str = "{\n", end: str = "\n}") -> Callable[[int], Files]:
    return lambda count: {"ds.json": f"{start}train_micro_batch_size_per_gpu: 1\n{_each(count, members)}{end}"}


def _named(name: str, unit: str, start: str = "", end: str = "", **others: str) -> Callable[[int], Files]:
    files = {file.replace("__", "."): text for file, text in others.items()}
    return lambda count: {name: start + _each(count, unit) + end, **files}


def _notebook(source: str) -> Callable[[int], Files]:
    def files(count: int) -> Files:
        cells: list[object] = [
            {
                "cell_type": "code",
                "metadata": {},
                "outputs": [],
                "execution_count": None,
                "source": [line.replace("#", str(number)) for line in source.splitlines(keepends=True)],
            }
            for number in range(count)
        ]
        return {"n.ipynb": json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)}

    return files


def _launched(name: str, unit: str, start: str = "", end: str = "") -> Callable[[int], Files]:
    return _named(name, unit, start, end, ds__json=_DS, train__py="import deepspeed\n")


_ACCELERATE = (
    "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
    "  zero_stage: 2\n"
)
_DICT = 'd# = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "gradient_cliping": 1.0}\n'
_UNKNOWN = '"gradient_cliping_#": 1.0'
_FOUND = _json(_UNKNOWN)
_FIXABLE = _json('"s#": {"a": tru, b: 1,}')
_TYPED = '"zero_optimization_#": {"stage": 2}'

READERS = (
    Case("json, unknown keys", _FOUND, 100),
    Case("json, one key again and again", _json('"steps_per_print": #'), 320),
    Case("json, comments and commas", _json('// c\n"k#": [1, 2,]'), 200),
    Case("json, lines that ignore", _json('"k#": 1 // ds-lint: ignore[DS101]'), 200),
    Case("json, one long array", lambda n: {"ds.json": '{"a": [' + "1," * n + "1]}"}, 5000),
    Case("json, broken in many places", _json('"s#" {"a" 1 "b": }'), 100),
    Case("json, deep", lambda n: {"ds.json": "[" * n + "]" * n}, 5000),
    Case("json, brackets that stay open", lambda n: {"ds.json": '{"a": ' * n}, 1000),
    Case("json, quotes that stay open", _json('"k#: 1'), 300),
    Case("hjson, bare words", _hjson("key#: value of #\n"), 200),
    Case("hjson, comments", _hjson("# c\n/* d */ // e\nkey#: 1\n"), 300),
    Case("hjson, ''' texts", _hjson("key#: '''a\n'b'\n'''\n"), 300),
    Case("hjson, only quotes", _named("ds.json", "'''", "{a: ", "}"), 3000),
    Case("hjson, no braces", _hjson("key#: [a\nb]\n", "", ""), 300),
    Case("hjson, commas in place of line ends", _hjson("key#: 1, "), 300),
    Case("yaml, anchors", _named("accelerate.yaml", "a#: &a# {x: 1}\nb#: *a#\n", _ACCELERATE), 200),
    Case("yaml, merges", _named("accelerate.yaml", "a#: &a# {x#: 1}\nb#: {<<: *a#, y: 2}\n", _ACCELERATE), 100),
    Case(
        "yaml, chains of aliases",
        lambda n: {
            "accelerate.yaml": _ACCELERATE + "a0: &a0 1\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}]\n" for i in range(n))
        },
        100,
    ),
    Case("yaml, unknown keys", _named("accelerate.yaml", "  key_#: 1\n", _ACCELERATE), 100),
    Case("yaml, one key again and again", _named("accelerate.yaml", "num_machines: #\n", _ACCELERATE), 200),
    Case("python, dicts", _named("t.py", _DICT), 200),
    Case("python, dicts in calls", _named("t.py", f"deepspeed.initialize(config={_DICT[5:-1]})\n"), 80),
    Case(
        "python, one dict changed",
        _named(
            "t.py", 'd["k#"] = 1\n', 'd = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}\n'
        ),
        100,
    ),
    Case(
        "python, names of names",
        lambda n: {
            "t.py": "x0 = 1\n"
            + "".join(f"x{i + 1} = x{i}\n" for i in range(n))
            + f'd = {{"train_batch_size": x{n}, "zero_optimization": {{}}}}\n'
        },
        100,
    ),
    Case("python, functions", _named("t.py", f"def f#(a, b=1):\n    {_DICT}    return f#(d#)\n"), 60),
    Case("python, a long sum", lambda n: {"t.py": 'd = {"train_batch_size": ' + "+".join(["1"] * n) + "}\n"}, 100),
    Case(
        "python, a script that trains",
        _launched("train2.py", "a# = args.a#\nparser.add_argument('--a#', default=#)\n", "import deepspeed\n"),
        200,
    ),
    Case("notebook, cells with dicts", _notebook(_DICT), 60),
    Case("notebook, cells that launch", _notebook("!" + _RUN), 40),
    Case("shell, heredocs", _named("run.sh", f"cat > ds#.json <<EOF\n{_DS}\nEOF\n", "#!/bin/bash\n"), 60),
    Case("shell, variables", _launched("run.sh", 'V#="$V#x $HOME"\nexport V#\n', "#!/bin/bash\n", _RUN), 300),
    Case(
        "shell, one variable grows", _launched("run.sh", 'V="$V --a# #"\n', "#!/bin/bash\n", _RUN[:-1] + " $V\n"), 100
    ),
    Case("shell, launches", _launched("run.sh", _RUN.replace("train.py", "train.py --seed #")), 40),
    Case("shell, conditions", _launched("run.sh", "if [ $A = # ]; then B=#; else B=x; fi\n", "", _RUN), 60),
    Case("shell, cases", _launched("run.sh", "case $A in a#) B=# ;; *) B=c ;; esac\n", "", _RUN), 60),
    Case("shell, loops", _launched("run.sh", f"for i in 1 2; do {_RUN[:-1]}; done\n"), 20),
    Case("shell, functions", _launched("run.sh", "f#() { echo $1; }\nf# a\n", "", _RUN), 60),
    Case("shell, substitutions", _launched("run.sh", "A=$(echo ${A:-$(date)} `b`)\n", "", _RUN), 60),
    Case("shell, open quotes", _launched("run.sh", "echo 'a \"$(b\n", "", _RUN), 60),
    Case(
        "markdown, configs",
        _named("README.md", f"text\n\n```json\n{_DS}\n```\n\n"),
        60,
        ("check", "--include-markdown"),
    ),
    Case(
        "markdown, fences that stay open",
        _named("README.md", "````json\n{\n> ```\n- a\n  - b\n"),
        300,
        ("check", "--include-markdown"),
    ),
    Case("Makefile", _launched("Makefile", f"V# = $(V) #\nt#:\n\t{_RUN}"), 40),
    Case("Dockerfile", _launched("Dockerfile", f"ENV A#=# \nRUN {_RUN}", "FROM x\n"), 40),
    Case(
        "workflow",
        _launched(".github/workflows/ci.yml", f"      - run: {_RUN}", "jobs:\n  a:\n    runs-on: x\n    steps:\n"),
        40,
    ),
    Case("requirements", _launched("requirements.txt", "a#>=1 # c\ndeepspeed>=0.1#\n"), 300),
    Case(
        "pyproject.toml",
        _launched(
            "pyproject.toml", '  "a#>=1",\n', '[project]\nname = "x"\ndependencies = [\n', '  "deepspeed>=0.14"]\n'
        ),
        500,
    ),
    Case(
        "hostfile",
        lambda n: {
            "hostfile": _each(n, "h# slots=8\n"),
            "ds.json": _DS,
            "train.py": "import deepspeed\n",
            "run.sh": "deepspeed --hostfile hostfile train.py --deepspeed ds.json\n",
        },
        500,
    ),
    Case(
        "recipes",
        _launched("recipe.yaml", "key_#: 1\n", "deepspeed: ds.json\nmodel_name_or_path: m\nstage: sft\n"),
        200,
    ),
    Case(".gitignore", _launched(".gitignore", "*.a#\n!b#/**/c\n"), 300),
    Case("files", lambda n: {f"d{i % 7}/ds_{i}.json": _DS for i in range(n)}, 50),
    Case(
        "scripts of one config",
        lambda n: {"ds.json": _DS, "train.py": "import deepspeed\n", **{f"r{i}.sh": _RUN for i in range(n)}},
        20,
    ),
    Case("baseline", _json(_UNKNOWN), 100, ("check", "--write-baseline")),
)
FIXES = tuple(
    Case(f"{option}, {name}", files, units, ("check", option, "--unsafe-fixes"))
    for option in ("--fix", "--diff")
    for name, files, units in (
        ("unknown keys", _FOUND, 100),
        ("misspelled sections", _json(_TYPED), 50),
        ("values of hjson", _FIXABLE, 50),
        ("one key again and again", _json('"steps_per_print": #'), 100),
        ("Python", _named("t.py", _DICT), 40),
        ("a notebook", _notebook(_DICT), 30),
        ("heredocs", _named("run.sh", f'cat > ds#.json <<EOF\n{{"gradient_cliping": 1, {_DS[1:]}\nEOF\n'), 30),
    )
)
FORMATS = tuple(
    Case(f"--output-format {name}", _FOUND, 100, ("check", "--output-format", name)) for name in output.FORMATS
)
OTHERS = (
    Case("--add-ignore", _json(_UNKNOWN), 100, ("check", "--add-ignore", "--stack", "deepspeed")),
    Case("--statistics", _FOUND, 100, ("check", "--statistics")),
    Case("effective", _FOUND, 100, ("effective", "ds.json")),
    Case("convert", _FOUND, 100, ("convert", "ds.json", "--to", "fsdp")),
    Case("upgrade", _FOUND, 100, ("upgrade", "--from", "0.14.0", "ds.json")),
    Case("--show-launches", _launched("run.sh", _RUN), 40, ("check", "--show-launches")),
    Case("--show-files", lambda n: {f"d{i % 7}/ds_{i}.json": _DS for i in range(n)}, 50, ("check", "--show-files")),
)
ALL = (*READERS, *FIXES, *FORMATS, *OTHERS)


def own_config(number: int) -> dict[str, Any]:
    """A clean config of its own for every file: other numbers, another order."""
    config = {**CLEAN, "steps_per_print": number + 1}
    names = list(config)
    return {name: config[name] for name in names[number % len(names) :] + names[: number % len(names)]}


_TRAINER = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments

(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(args=arguments).train()
"""
_MODULE = """\
import torch
from transformers import PreTrainedModel

from model.configuration import Configuration


class Model#(PreTrainedModel):
    config_class = Configuration

    def __init__(self, config):
        super().__init__(config)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(config.hidden_size, #) for _ in range(config.layers))

    def forward(self, hidden, labels=None):
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden
"""
_SCRIPT = """\
set -x
GPUS=${GPUS:-8}
BATCH_SIZE=${BATCH_SIZE:-128}
PER_DEVICE_BATCH_SIZE=${PER_DEVICE_BATCH_SIZE:-EACH}
GRADIENT_ACC=$((BATCH_SIZE / PER_DEVICE_BATCH_SIZE / GPUS))
export PYTHONPATH="${PYTHONPATH}:$(pwd)"
OUTPUT_DIR='work_dirs/#'
if [ ! -d "$OUTPUT_DIR" ]; then
  mkdir -p "$OUTPUT_DIR"
fi
torchrun --nnodes=1 --node_rank=0 --master_addr=127.0.0.1 --nproc_per_node=${GPUS} --master_port=34229 \\
  train.py \\
  --output_dir ${OUTPUT_DIR} \\
  --bf16 True \\
  --num_train_epochs 1 \\
  --per_device_train_batch_size ${PER_DEVICE_BATCH_SIZE} \\
  --gradient_accumulation_steps ${GRADIENT_ACC} \\
  --learning_rate 2e-5 \\
  --weight_decay 0.05 \\
  --lr_scheduler_type "cosine" \\
  --deepspeed "configs/CONFIG.json" \\
  2>&1 | tee -a "${OUTPUT_DIR}/training_log.txt"
"""


def _newest(library: str) -> list[str]:
    """The releases that ds-lint knows, the newest one last."""
    releases: list[str] = json.loads((ROOT / "schemas" / f"{library}.json").read_text(encoding="utf-8"))["releases"]
    return releases


def _checked_for(count: int) -> Files:
    """The settings with so many releases of DeepSpeed, whatever is installed beside ds-lint."""
    first, last = _newest("deepspeed")[-count], _newest("deepspeed")[-1]
    settings = [f'deepspeed-version = "{last if count == 1 else f">={first},<={last}"}"']
    settings += [f'{library}-version = "{_newest(library)[-1]}"' for library in ("transformers", "accelerate")]
    return {"ds-lint.toml": "\n".join(settings) + "\n"}


def _launches(options: Callable[[int], str], releases: int) -> Callable[[int], Files]:
    """One config, and so many launches of it with options of their own."""
    return lambda count: {
        **_checked_for(releases),
        "ds.json": _DS,
        "train.py": _TRAINER,
        "run.sh": "".join(f"{_RUN[:-1]} {options(number)}\n" for number in range(count)),
    }


def _seed(number: int) -> str:
    return f"--seed {number}"


def _batch(number: int) -> str:
    return f"--per_device_train_batch_size {number + 1}"


def _releases(count: int) -> Files:
    return _launches(_batch, count)(20)


def _repository(count: int) -> Files:
    """So many scripts; for each eight of them a config, and for each of them two modules."""
    configs = {f"configs/{number}.json": _DS for number in range((count + 7) // 8)}
    scripts = {
        f"scripts/{number}.sh": _SCRIPT.replace("CONFIG", str(number // 8))
        .replace("EACH", str(number % 4 + 1))
        .replace("#", str(number))
        for number in range(count)
    }
    modules = {f"model/m{number}.py": _MODULE.replace("#", str(number + 1)) for number in range(2 * count)}
    return {**_checked_for(50), "train.py": _TRAINER, **configs, **scripts, **modules}


def _configs(count: int) -> Files:
    return {f"{number}.json": json.dumps(own_config(number), indent=2) for number in range(count)}


GROWING = (
    Case("configs in one call", _configs, 125, ("check", "*.json")),
    Case("launches, other seeds, 1 release", _launches(_seed, 1), 50),
    Case("launches, other seeds, 50 releases", _launches(_seed, 50), 50),
    Case("launches, other batches, 1 release", _launches(_batch, 1), 50),
    Case("launches, other batches, 50 releases", _launches(_batch, 50), 50),
    Case("releases, 20 launches with other batches", _releases, 10),
    Case("scripts, 2 modules and 1/8 config for each", _repository, 24),
)
