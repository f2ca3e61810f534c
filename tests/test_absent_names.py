"""Names that lead nowhere are found where they stand, and nothing that may be there, or be made, is missed."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

from ds_lint.cli import run

DS = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}}
TRAIN = """\
import argparse
import deepspeed
args = deepspeed.add_config_arguments(argparse.ArgumentParser()).parse_args()
deepspeed.initialize(args=args, model=model)
"""
TRAINER = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
Trainer(args=args).train()
"""
LAUNCH = "torchrun --nproc_per_node 4 train.py --deepspeed_config conf/ds.json\n"
ACCELERATE = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n"
RECIPE = "model_name_or_path: org/model\nstage: sft\nfinetuning_type: full\ndataset: x\ncutoff_len: 512\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_into(tmp_path)


@pytest.fixture
def found(write, capsys):
    def check(files, *arguments):
        write(files)
        run(["check", *(arguments or ["."]), "--select", "DS881,DS882", "--output-format", "json"])
        return json.loads(capsys.readouterr().out)["findings"]

    return check


def names(findings):
    return [one["message"].split("`")[1] for one in findings]


def start(finding):
    return finding["span"]["start"]["line"], finding["span"]["start"]["column"]


def notebook(*cells):
    sources = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": c} for c in cells
    ]
    return json.dumps({"cells": sources, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def launch(*before, name="conf/ds.json", program="torchrun train.py --deepspeed_config"):
    return "\n".join([*before, f"{program} {name}"]) + "\n"


def python(*lines):
    return "\n".join(["import json, deepspeed", "from pathlib import Path", *lines]) + "\n"


# What each project names that is not there.
ABSENT = {
    "config": ({"run.sh": LAUNCH}, ["conf/ds.json"]),
    "config beside another": ({"run.sh": LAUNCH, "conf/ds2.json": DS}, ["conf/ds.json"]),
    "config in the wrong folder": ({"run.sh": LAUNCH, "ds.json": DS}, ["conf/ds.json"]),
    "with an equals sign": ({"run.sh": "deepspeed train.py --deepspeed=ds.json\n"}, ["ds.json"]),
    "with dots": ({"s/run.sh": launch(name="../conf/ds.json"), "conf/other.json": DS}, ["../conf/ds.json"]),
    "in a variable": ({"run.sh": "C=conf/ds.json\ntorchrun train.py --deepspeed_config $C\n"}, ["conf/ds.json"]),
    "in a variable of flags": ({"run.sh": 'A="--deepspeed ds.json --bf16"\ntorchrun train.py $A\n'}, ["ds.json"]),
    "two launches": ({"run.sh": LAUNCH, "b.sh": LAUNCH}, ["conf/ds.json", "conf/ds.json"]),
    "behind a cd": ({"run.sh": launch("cd sub", name="ds.json"), "sub/train.py": TRAIN}, ["ds.json"]),
    "printed": ({"run.sh": launch("echo using conf/ds.json")}, ["conf/ds.json"]),
    "only logs are written": ({"run.sh": LAUNCH.rstrip() + " > log.txt 2>&1\n"}, ["conf/ds.json"]),
    "another file is copied": ({"run.sh": launch("cp a.txt conf/b.json")}, ["conf/ds.json"]),
    "in a loop": (
        {"run.sh": "for c in conf/a.json conf/b.json; do\ntorchrun train.py --deepspeed_config $c\ndone\n"},
        ["conf/a.json", "conf/b.json"],
    ),
    "in an array": (
        {"run.sh": 'A=(--deepspeed_config ds.json --x 1)\ntorchrun train.py "${A[@]}"\n'},
        ["ds.json"],
    ),
    "in a case": (
        {"run.sh": "S=2\ncase $S in\n  2) C=conf/z2.json ;;\nesac\ntorchrun train.py --deepspeed_config $C\n"},
        ["conf/z2.json"],
    ),
    "as a default": (
        {"run.sh": "C=${1:-conf/ds.json}\ntorchrun train.py --deepspeed_config $C\n"},
        ["conf/ds.json"],
    ),
    "over several lines": (
        {"run.sh": "torchrun \\\n  train.py \\\n  --deepspeed_config conf/ds.json \\\n  --x 1\n"},
        ["conf/ds.json"],
    ),
    "with a log": ({"run.sh": "torchrun train.py --deepspeed_config ds.json 2>&1 | tee log.txt\n"}, ["ds.json"]),
    "evaluated": ({"run.sh": 'CMD="torchrun train.py --deepspeed_config ds.json"\neval $CMD\n'}, ["ds.json"]),
    "in a function": (
        {"run.sh": "go() {\n  torchrun train.py --deepspeed_config ds.json\n}\ngo\n"},
        ["ds.json"],
    ),
    "in a subshell": (
        {"run.sh": "(cd sub && torchrun train.py --deepspeed_config ds.json)\n", "sub/train.py": TRAIN},
        ["ds.json"],
    ),
    "in a job": (
        {"job.slurm": "#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun train.py --deepspeed_config ds.json\n"},
        ["ds.json"],
    ),
    "sourced": (
        {"run.sh": "source env.sh\ntorchrun train.py --deepspeed_config $C\n", "env.sh": "C=conf/ds.json\n"},
        ["conf/ds.json"],
    ),
    "of Python alone": ({"run.sh": "python train.py --deepspeed_config ds.json\n"}, ["ds.json"]),
    "in flags over several lines": (
        {"run.sh": 'A="\n  --deepspeed_config ds.json \n  --x 1\n"\ntorchrun train.py $A\n'},
        ["ds.json"],
    ),
    "of a program in a variable": (
        {"run.sh": "L='torchrun --nproc_per_node 2'\n$L train.py --deepspeed_config ds.json\n"},
        ["ds.json"],
    ),
    "in a Makefile": ({"Makefile": f"train:\n\t{LAUNCH}"}, ["conf/ds.json"]),
    "in a workflow": ({".github/workflows/a.yml": f"jobs:\n  a:\n    steps:\n    - run: {LAUNCH}"}, ["conf/ds.json"]),
    "of subprocess": (
        {"go.py": 'import subprocess\nsubprocess.run(["deepspeed", "train.py", "--deepspeed", "ds.json"])\n'},
        ["ds.json"],
    ),
    "script": ({"run.sh": "deepspeed train2.py --deepspeed_config ds.json\n", "ds.json": DS}, ["train2.py"]),
    "script without a config": ({"run.sh": "deepspeed --num_gpus 2 nothing.py\n"}, ["nothing.py"]),
    "script of python": ({"run.sh": "python t.py --deepspeed ds.json\n", "ds.json": DS}, ["t.py"]),
    "script under srun": ({"run.sh": "srun python t.py --deepspeed ds.json\n", "ds.json": DS}, ["t.py"]),
    "script and config": ({"run.sh": "torchrun t.py --deepspeed conf/x.json\n"}, ["t.py", "conf/x.json"]),
    "YAML of accelerate": ({"run.sh": "accelerate launch --config_file acc.yaml train.py\n"}, ["acc.yaml"]),
    "hostfile": ({"run.sh": "deepspeed --hostfile hosts train.py\n"}, ["hosts"]),
    "hostfile in short": ({"run.sh": "deepspeed -H conf/hosts train.py\n"}, ["conf/hosts"]),
    "recipe": ({"run.sh": "llamafactory-cli train sft.yaml\n"}, ["sft.yaml"]),
    "recipe of axolotl": ({"run.sh": "axolotl train conf/sft.yaml\n", "conf/dpo.yaml": "x: 1\n"}, ["conf/sft.yaml"]),
    "named by accelerate": ({"acc.yaml": f"{ACCELERATE}  deepspeed_config_file: ds.json\n"}, ["ds.json"]),
    "hosts of accelerate": (
        {"acc.yaml": f"{ACCELERATE}  deepspeed_hostfile: hosts\n  deepspeed_multinode_launcher: pdsh\n"},
        ["hosts"],
    ),
    "named by a recipe": ({"r.yaml": f"{RECIPE}deepspeed: ds_z3.json\n"}, ["ds_z3.json"]),
    "TrainingArguments": (
        {"a.py": python('TrainingArguments("out", deepspeed="path/to/ds.json")')},
        ["path/to/ds.json"],
    ),
    "in a variable of Python": ({"a.py": python('P = "ds.json"', "SFTConfig(deepspeed=P)")}, ["ds.json"]),
    "initialize": ({"a.py": python('deepspeed.initialize(model=m, config="ds.json")')}, ["ds.json"]),
    "plugin": ({"a.py": python('DeepSpeedPlugin(hf_ds_config="ds.json")')}, ["ds.json"]),
    "beside the script": (
        {"s/a.py": python('DeepSpeedPlugin(hf_ds_config=str(Path(__file__).parent / "ds.json"))'), "ds.json": DS},
        ["s/ds.json"],
    ),
    "opened": (
        {"a.py": python('with open("ds.json") as f:', "    c = json.load(f)", "deepspeed.initialize(config=c)")},
        ["ds.json"],
    ),
    "notebook": ({"a.ipynb": notebook('TrainingArguments("o", deepspeed="ds.json")')}, ["ds.json"]),
    "launch of a notebook": ({"a.ipynb": notebook("!deepspeed train.py --deepspeed ds.json\n")}, ["ds.json"]),
    "the README has the launch": ({"run.sh": LAUNCH, "README.md": f"```\n{LAUNCH}```\n"}, ["conf/ds.json"]),
    "a script writes something else": (
        {"run.sh": LAUNCH, "gen.py": 'import json\njson.dump({}, open("metrics.json", "w"))\n'},
        ["conf/ds.json"],
    ),
    "the default of an option": (
        {"run.sh": LAUNCH, "train.py": TRAIN + 'p.add_argument("--ds_config", default="conf/ds.json")\n'},
        ["conf/ds.json"],
    ),
}
WRITTEN = "{}"
# What may be there, or be made.
PRESENT = {
    "there": {"run.sh": LAUNCH, "conf/ds.json": DS},
    "seen from the script": {"s/run.sh": LAUNCH, "s/conf/ds.json": DS},
    "seen from the root": {"a/b/run.sh": LAUNCH, "conf/ds.json": DS},
    "seen from between": {"a/b/run.sh": LAUNCH, "a/conf/ds.json": DS},
    "seen from where the script changes to": {
        "run.sh": launch("cd sub"),
        "sub/conf/ds.json": DS,
        "sub/train.py": TRAIN,
    },
    "seen from a folder with scripts": {
        "s/run.sh": "deepspeed t.py --deepspeed ds.json\n",
        "src/t.py": TRAINER,
        "src/ds.json": DS,
    },
    "here-document": {"run.sh": launch("cat > conf/ds.json <<EOF", WRITTEN, "EOF")},
    "echo": {"run.sh": launch("echo '{}' > conf/ds.json")},
    "append": {"run.sh": launch("echo '{}' >> conf/ds.json")},
    "tee": {"run.sh": launch("echo '{}' | tee conf/ds.json")},
    "copy": {"run.sh": launch("cp templates/a.json conf/ds.json")},
    "move": {"run.sh": launch("mv a.json conf/ds.json")},
    "link": {"run.sh": launch("ln -s /data/ds.json conf/ds.json")},
    "envsubst": {"run.sh": launch("envsubst < conf/ds.tmpl > conf/ds.json")},
    "sed": {"run.sh": launch("sed s/a/b/ a.json > conf/ds.json")},
    "jq": {"run.sh": launch("jq . a.json > conf/ds.json")},
    "into a variable": {"run.sh": "C=conf/ds.json\njq . a.json > $C\ntorchrun train.py --deepspeed_config $C\n"},
    "a pattern": {"run.sh": launch("for s in 2 3; do", 'echo {} > "conf/ds_z$s.json"', "done", name="conf/ds_z3.json")},
    "wget": {"run.sh": launch("wget -O conf/ds.json https://x.org/a")},
    "wget by its name": {"run.sh": launch("wget https://x.org/ds.json", name="ds.json")},
    "curl": {"run.sh": launch("curl -o conf/ds.json https://x.org/a")},
    "a generator": {"run.sh": launch("python gen.py --out conf/ds.json")},
    "tested for": {"run.sh": launch("[ -f conf/ds.json ] || exit 1")},
    "a clone": {"run.sh": launch("git clone https://x.org/r", "cd r")},
    "an archive": {"run.sh": launch("tar xf conf.tar.gz")},
    "a bucket": {"run.sh": launch("aws s3 cp --recursive s3://b/conf conf")},
    "a target of make": {"Makefile": f"conf/ds.json: gen.py\n\tpython gen.py\ntrain: conf/ds.json\n\t{LAUNCH}"},
    "json.dump": {"run.sh": LAUNCH, "gen.py": 'import json\njson.dump({}, open("conf/ds.json", "w"))\n'},
    "a path with write_text": {
        "run.sh": LAUNCH,
        "gen.py": 'from pathlib import Path\nP = Path("conf") / "ds.json"\nP.write_text("{}")\n',
    },
    "OmegaConf": {"run.sh": LAUNCH, "gen.py": 'OmegaConf.save(c, "conf/ds.json")\n'},
    "a name of a function": {
        "run.sh": LAUNCH,
        "gen.py": 'def save(p):\n    open(p, "w").write("{}")\nsave("conf/ds.json")\n',
    },
    "an f-string": {"run.sh": launch(name="conf/ds_z3.json"), "gen.py": 'open(f"conf/ds_z{stage}.json", "w")\n'},
    "the script itself writes": {
        "a.py": python('json.dump({}, open("ds.json", "w"))', 'TrainingArguments("o", deepspeed="ds.json")')
    },
    "a cell writes": {"a.ipynb": notebook("%%writefile ds.json\n{}", 'TrainingArguments("o", deepspeed="ds.json")')},
    "a cell of the shell writes": {
        "a.ipynb": notebook("%%bash\necho '{}' > ds.json", "!deepspeed train.py --deepspeed ds.json")
    },
    "an upload": {
        "a.ipynb": notebook("from google.colab import files\nfiles.upload()", "!deepspeed train.py --deepspeed ds.json")
    },
    "ignored": {"run.sh": LAUNCH, ".gitignore": "conf/ds.json\n"},
    "in an ignored folder": {"run.sh": LAUNCH, ".gitignore": "/conf/\n"},
    "in a submodule": {"run.sh": LAUNCH, ".gitmodules": '[submodule "c"]\n\tpath = conf\n\turl = https://x.org/c\n'},
    "output folder": {"run.sh": "torchrun train.py --output_dir out --deepspeed out/ds.json\n"},
    "mkdir": {"run.sh": launch("mkdir -p conf", "python gen.py")},
    "an example beside it": {"run.sh": "deepspeed --hostfile hosts train.py\n", "hosts.example": "a slots=1\n"},
    "said how to make it": {"run.sh": LAUNCH, "README.md": "Copy a.json to conf/ds.json first.\n"},
    "unknown": {"run.sh": "torchrun train.py --deepspeed $CONF\n"},
    "partly unknown": {"run.sh": "torchrun train.py --deepspeed conf/$NAME.json\n"},
    "in an unknown folder": {"run.sh": launch("cd $WHERE")},
    "absolute": {"run.sh": launch(name="/workspace/ds.json")},
    "in an absolute folder": {"run.sh": launch("cd /workspace")},
    "from home": {"run.sh": launch(name="'~/ds.json'")},
    "in a bucket": {"run.sh": launch(name="s3://b/ds.json")},
    "a preset": {"run.sh": "swift sft --model a/b --deepspeed zero3\n"},
    "another preset": {"run.sh": "swift sft --model a/b --deepspeed zero2_offload\n"},
    "a model of the hub": {
        "run.sh": "torchrun train.py --model_name_or_path org/model --deepspeed_config ds.json\n",
        "ds.json": DS,
    },
    "a flag without a value": {"run.sh": "deepspeed train.py --deepspeed --deepspeed_config ds.json\n", "ds.json": DS},
    "a text": {"run.sh": "torchrun train.py --deepspeed '{\"train_batch_size\": 8}'\n"},
    "base64": {"run.sh": "torchrun train.py --deepspeed eyJ6ZXJvIjoxfQ==\n"},
    "a module": {"run.sh": "torchrun -m pkg.train --deepspeed ds.json\n", "ds.json": DS},
    "a console script": {"run.sh": "torchrun $(which train) --deepspeed ds.json\n", "ds.json": DS},
    "a program": {"run.sh": "accelerate launch --no_python train.py --deepspeed ds.json\n", "ds.json": DS},
    "an example of LLaMA-Factory": {"run.sh": "llamafactory-cli train examples/train_full/a.yaml\n"},
    "a config of LLaMA-Factory": {"r.yaml": f"{RECIPE}deepspeed: examples/deepspeed/ds_z3_config.json\n"},
    "a config of axolotl": {
        "r.yaml": "base_model: a/b\nmicro_batch_size: 1\ndatasets: []\ndeepspeed: deepspeed_configs/zero1.json\n"
    },
    "a script of another checkout": {"run.sh": "torchrun src/train.py examples/a.yaml\n"},
    "an image": {"Dockerfile": f"FROM x\nCMD {LAUNCH}"},
    "a folder before it": {
        "run.sh": launch(name="ds.json"),
        "train.py": TRAIN + 'c = os.path.join("conf", args.deepspeed_config)\n',
        "conf/ds.json": DS,
    },
    "a test": {"tests/test_a.py": python('TrainingArguments("o", deepspeed="ds.json")')},
    "a script that shows no stack": {"run.sh": "torchrun t.py --deepspeed_config ds.json\n", "t.py": "import engine\n"},
    "a guard in Python": {
        "a.py": python('if Path("ds.json").exists():', '    TrainingArguments("o", deepspeed="ds.json")')
    },
    "one of two": {"a.py": python('TrainingArguments("o", deepspeed="ds.json" if x else None)')},
    "written by a call of the shell": {
        "run.sh": LAUNCH,
        "gen.py": 'import os\nos.system("jq . a.json > conf/ds.json")\n',
    },
    "a list of words for a generator": {
        "run.sh": LAUNCH,
        "gen.py": 'import subprocess\nsubprocess.run(["python", "x.py", "--out", "conf/ds.json"])\n',
    },
    "accelerate config": {
        "run.sh": "accelerate config --config_file acc.yaml\naccelerate launch --config_file acc.yaml train.py\n"
    },
    "a generator with the same flag": {
        "run.sh": launch("python gen.py --deepspeed_config conf/ds.json"),
        "gen.py": "import json\n",
    },
    "a program with the same flag": {
        "run.sh": "./hosts.sh --hostfile hosts\ndeepspeed --hostfile hosts train.py\n",
    },
    "the script writes what it gets": {
        "run.sh": LAUNCH,
        "train.py": TRAIN + 'json.dump(c, open(args.deepspeed_config, "w"))\n',
    },
    "the script looks whether it is there": {
        "run.sh": LAUNCH,
        "train.py": TRAIN + "c = args.deepspeed_config if os.path.exists(args.deepspeed_config) else {}\n",
    },
    "a path of Windows": {"a.py": python('TrainingArguments("o", deepspeed="conf\\\\ds.json")')},
    "called in a clone": {
        "s/run.sh": "deepspeed lib/train.py --deepspeed s/ds.json\n",
        "main.sh": "git clone https://x.org/lib\ncd lib\nbash ../s/run.sh\n",
    },
    "sourced in a clone": {"main.sh": "git clone https://x.org/lib\nsource env.sh\n", "env.sh": LAUNCH},
    "another script called with it": {"run.sh": launch("bash prepare.sh conf/ds.json")},
    "written in a function": {"run.sh": launch("w() {", '  echo {} > "$1"', "}", "w conf/ds.json")},
    "a link on the way": {"run.sh": launch("ln -sf /shared/conf conf")},
    "in a container": {"run.sh": "docker run -w /w img torchrun train.py --deepspeed_config ds.json\n"},
    "a job in another folder": {"run.sh": f"#!/bin/bash\n#SBATCH --chdir=/data/x\n{LAUNCH}"},
    "a step in another folder": {
        ".github/workflows/a.yml": f"jobs:\n  a:\n    steps:\n    - run: {LAUNCH}      working-directory: x\n"
    },
    "a process in another folder": {
        "go.py": 'import subprocess\nsubprocess.run(["torchrun", "train.py", "--deepspeed", "ds.json"], cwd=D)\n'
    },
    "a template": {"{{cookiecutter.name}}/run.sh": LAUNCH},
    "a placeholder": {"run.sh": launch(name="'<config>.json'")},
    "a comment": {"run.sh": f"# {LAUNCH}"},
    "no Python at all": {"run.sh": "torchrun other.py --deepspeed_config ds.json\n", "ds.json": DS, "train.py": None},
    "a script of a notebook": {
        "run.sh": "torchrun t2.py --deepspeed_config ds.json\n",
        "ds.json": DS,
        "a.ipynb": notebook("%%writefile t2.py\nprint(1)"),
    },
    "a script that is copied": {"run.sh": "cp a.py t2.py\ntorchrun t2.py --deepspeed_config ds.json\n", "ds.json": DS},
    "another config": {"a.py": python('AutoModel.from_pretrained("x", config="model.json")')},
    "a default": {"train.py": TRAIN + 'p.add_argument("--deepspeed_config", default="ds.json")\n'},
    "Markdown": {"README.md": f"```bash\n{LAUNCH}```\n"},
}


@pytest.mark.parametrize(("files", "expected"), ABSENT.values(), ids=ABSENT)
def test_what_is_not_there_is_found(found, files, expected):
    assert names(found({"train.py": TRAIN, **files})) == expected


@pytest.mark.parametrize("files", PRESENT.values(), ids=PRESENT)
def test_what_may_be_there_is_not(found, files):
    given = {"train.py": TRAIN, **files}
    assert found({name: text for name, text in given.items() if text is not None}) == []


def test_the_finding_is_at_the_name(found):
    (finding,) = found({"train.py": TRAIN, "run.sh": f"set -e\n{LAUNCH}"})
    assert (finding["path"], start(finding)) == ("./run.sh", (2, 57))
    assert (finding["code"], finding["severity"], finding["effect"]) == ("DS881", "warning", "rejected")


def test_a_name_in_a_variable_is_shown_there(found):
    (finding,) = found({"train.py": TRAIN, "run.sh": "C=conf/ds.json\ntorchrun train.py --deepspeed_config $C\n"})
    assert start(finding) == (1, 3)


def test_a_hostfile_is_information(found):
    (finding,) = found({"train.py": TRAIN, "run.sh": "deepspeed --hostfile hosts train.py\n"})
    assert (finding["code"], finding["severity"], finding["effect"]) == ("DS882", "info", "ignored")


@pytest.mark.parametrize(
    ("there", "nearest"),
    [
        ("conf/ds2.json", "conf/ds2.json"),
        ("other/ds.json", "other/ds.json"),
        ("conf/ds.hjson", "conf/ds.hjson"),
        ("conf/accelerate.json", None),
    ],
)
def test_the_nearest_name_is_suggested(found, there, nearest):
    (finding,) = found({"train.py": TRAIN, "run.sh": LAUNCH, there: DS})
    assert finding["help"].startswith(f"Did you mean {nearest}? " if nearest else "DeepSpeed and the Trainer raise")


def test_the_nearest_name_is_as_the_launch_would_write_it(found):
    files = {"sub/train.py": TRAIN, "run.sh": launch("cd sub", name="../conf/d.json"), "conf/ds.json": DS}
    (finding,) = found(files)
    assert finding["help"].startswith("Did you mean ../conf/ds.json? ")


def test_a_file_without_a_config_counts_as_checked(write, capsys):
    write({"train.py": TRAIN, "run.sh": LAUNCH})
    assert run(["check", "."]) == 1
    text = capsys.readouterr().out
    assert "1 warning in ./run.sh" in text
    assert "No DeepSpeed configs found" not in text


def test_a_named_script_is_checked_and_another_config_is_not(write, capsys):
    write({"train.py": TRAIN, "run.sh": LAUNCH, "other.json": DS, ".git/HEAD": "x"})
    assert run(["check", "run.sh"]) == 1
    assert "run.sh:1:57: DS881" in concise(capsys, "run.sh")
    assert "DS881" not in concise(capsys, "other.json")


def concise(capsys, *paths):
    capsys.readouterr()
    run(["check", *paths, "--output-format", "concise"])
    return capsys.readouterr().out


def test_a_comment_suppresses_it(write, capsys):
    write({"train.py": TRAIN, "run.sh": f"# ds-lint: ignore[absent-file] of the cluster\n{LAUNCH}"})
    assert run(["check", "."]) == 0


def test_a_comment_in_a_script_with_a_config_is_not_unused(write, capsys):
    script = f"cat > z.json <<EOF\n{json.dumps(DS)}\nEOF\n# ds-lint: ignore[absent-file] of the cluster\n{LAUNCH}"
    write({"train.py": TRAIN, "run.sh": script})
    run(["check", "."])
    assert "DS013" not in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--fix"], ["--diff"]])
def test_only_unsafe_fixes_write_the_nearest_name(write, capsys, tmp_path, arguments):
    write({"train.py": TRAIN, "run.sh": LAUNCH, "conf/ds2.json": DS})
    run(["check", ".", *arguments])
    assert "conf/ds2.json" not in (tmp_path / "run.sh").read_text()
    run(["check", ".", *arguments, "--unsafe-fixes"])
    printed = capsys.readouterr().out
    written = (tmp_path / "run.sh").read_text()
    assert LAUNCH.replace("conf/ds.json", "conf/ds2.json") in (written if arguments == ["--fix"] else printed)


def test_the_config_in_a_script_keeps_its_fixes(write, capsys, tmp_path):
    script = (
        'cat > z.json <<EOF\n{"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_com": true}}\nEOF\n'
        + LAUNCH
    )
    write({"train.py": TRAIN, "run.sh": script})
    run(["check", ".", "--fix", "--unsafe-fixes"])
    assert "overlap_comm" in (tmp_path / "run.sh").read_text()


def test_line_ends_of_windows_are_no_complaint(write, tmp_path):
    write({"train.py": TRAIN, "conf/ds2.json": DS})
    (tmp_path / "run.sh").write_bytes(LAUNCH.replace("\n", "\r\n").encode())
    assert run(["check", ".", "--fix", "--unsafe-fixes"]) == 1


def test_the_root_is_that_of_the_repository(write, capsys, monkeypatch, tmp_path):
    write({".git/HEAD": "x", "conf/ds.json": DS, "s/run.sh": LAUNCH, "s/train.py": TRAIN})
    monkeypatch.chdir(tmp_path / "s")
    assert run(["check", "."]) == 0


def test_no_upgrade_is_about_it(write, capsys):
    write({"train.py": TRAIN, "run.sh": LAUNCH, "ds.json": DS})
    run(["upgrade", "--from", "0.16.0", "."])
    assert "DS881" not in capsys.readouterr().out
