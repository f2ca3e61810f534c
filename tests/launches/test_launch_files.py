"""The launches of Makefiles, Dockerfiles, workflows, notebooks and Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds_lint.launches import files

MAKEFILE = """\
GPUS ?= 8
MODEL := gpt2
ARGS = --deepspeed ds.json \\
  --model $(MODEL)
ARGS += --bf16
SEED = $(shell date +%s)

.PHONY: train
train: data
\t@echo training
\t-deepspeed --num_gpus $(GPUS) train.py $(ARGS) \\
\t  --dollar $$FIXED --seed ${SEED}
\tfor lr in 1 2; do torchrun train.py --lr $$lr; done

data: ; accelerate launch data.py --target $@
"""


def found(text, path):
    kind = files.kind_of(path, text.encode())
    return files.launches(text, path, kind, lambda _: None).launches


def test_a_makefile_starts_what_make_starts(tmp_path):
    launches = found(MAKEFILE, "Makefile")
    assert [launch.line for launch in launches] == [11, 13, 13, 15]
    assert launches[0].unknown == ["FIXED", "$(shell date +%s)"]
    assert launches[3].command[-1] == "data"  # the target of the rule
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    for name in ("deepspeed", "torchrun"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' {name} \"$@\" >> {tmp_path}/log\necho end >> {tmp_path}/log\n")
        program.chmod(0o755)
    (tmp_path / "data").touch()
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "FIXED": "unknown", "HOME": str(tmp_path)}
    subprocess.run(["make", "-s", "train"], cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    ran = [words.split("\n")[:-1] for words in (tmp_path / "log").read_text().split("end\n")[:-1]]
    for launch, words in zip(launches[:3], ran, strict=True):
        assert [
            ours if ours is not None else theirs for ours, theirs in zip(launch.command, words, strict=True)
        ] == words


def test_what_a_condition_of_make_decides_is_unknown():
    text = "ARGS = --a\nifdef FAST\nARGS = --b\nendif\nrun:\n\tdeepspeed train.py $(ARGS)\n"
    assert found(text, "Makefile")[0].command == ["deepspeed", "train.py", None]


def test_a_dockerfile_starts_entrypoint_with_command():
    text = (
        'FROM base\nENV GPUS=4 \\\n    MODEL="big one"\nARG SEED\n# comment\nRUN pip install deepspeed\n'
        'ENTRYPOINT ["torchrun", "--nproc_per_node", "2"]\nCMD ["train.py", "--deepspeed", "ds.json"]\n'
        'RUN deepspeed --num_gpus $GPUS train.py --model "$MODEL" \\\n  --seed $SEED\n'
    )
    launches = found(text, "Dockerfile")
    assert [launch.command for launch in launches] == [
        ["torchrun", "--nproc_per_node", "2"],
        ["torchrun", "--nproc_per_node", "2", "train.py", "--deepspeed", "ds.json"],
        ["deepspeed", "--num_gpus", "4", "train.py", "--model", "big one", "--seed", None],
    ]
    assert launches[1].world_size == 2


def test_a_workflow_has_the_environment_of_its_step():
    text = """\
name: train
env: {GPUS: 2}
jobs:
  train:
    env: {LR: 1e-4}
    steps:
      - uses: actions/checkout@v4
      - run: deepspeed --num_gpus $GPUS train.py
      - env: {GPUS: 4}
        run: |
          cd examples
          torchrun --nproc_per_node "$GPUS" train.py \\
            --lr $LR --config ${{ matrix.config }}
"""
    launches = found(text, ".github/workflows/train.yml")
    assert [(launch.line, launch.world_size, launch.cwd) for launch in launches] == [(8, 2, "."), (12, 4, "examples")]
    assert launches[1].command[-4:] == ["--lr", "1e-4", "--config", None]
    assert launches[1].unknown == ["matrix.config"]


def test_python_starts_the_words_that_show():
    text = """\
import os
import subprocess
import sys

BASE = ["deepspeed", "--num_gpus", "2"]


def main(seed, fast):
    command = [*BASE, "train.py", "--seed", str(seed)]
    command += ["--bf16"]
    if fast:
        command.append("--fast")
    command.extend(["--name", f"run {seed}"])
    subprocess.run(command, check=True)
    os.system("torchrun --nproc_per_node 4 train.py --lr %s" % seed)
    subprocess.Popen("accelerate launch train.py --a 'b c'", shell=True)
    subprocess.check_call([sys.executable, "-m", "torch.distributed.run", "train.py"])
    print("deepspeed never.py")
"""
    launches = found(text, "start.py")
    assert [launch.line for launch in launches] == [14, 15, 16, 17]
    start = ["deepspeed", "--num_gpus", "2", "train.py", "--seed", None, "--bf16", None, "--name", None]
    assert launches[0].command == start
    assert launches[0].unknown == ["str(seed)", "['--fast']", "seed"]
    assert launches[1].command == ["torchrun", "--nproc_per_node", "4", "train.py", "--lr", None]
    assert launches[2].command == ["accelerate", "launch", "train.py", "--a", "b c"]
    assert launches[3].launcher == "torchrun"


def test_a_notebook_starts_its_shell_lines():
    cells = [
        {"cell_type": "markdown", "source": ["!deepspeed never.py"]},
        {
            "cell_type": "code",
            "source": ["lr = f()\n", "n = 2\n", "!deepspeed --num_gpus $n train.py \\\n", "  --lr {lr}\n", "x = 2"],
        },
        {"cell_type": "code", "source": "%%bash\nexport N=3\ntorchrun --nproc_per_node $N train.py"},
    ]
    launches = found(json.dumps({"cells": cells}, indent=1), "train.ipynb")
    assert [launch.command for launch in launches] == [
        ["deepspeed", "--num_gpus", "2", "train.py", "--lr", None],
        ["torchrun", "--nproc_per_node", "3", "train.py"],
    ]
    assert launches[0].unknown == ["lr"]


@pytest.mark.parametrize("word", ["{\U0010fffe}", "{\uffff..\U000e0fff}", "{a,\U0010ffff}"])
def test_characters_that_the_parser_has_no_table_for_do_no_harm(word):
    (launch,) = found(f"deepspeed a.py {word}\n", "run.sh")
    assert launch.command[:2] == ["deepspeed", "a.py"]


@pytest.mark.parametrize("path", ["a.sh", "Makefile", "Dockerfile", "a.yml", "a.py", "a.ipynb", "run"])
@given(text=st.text(max_size=300) | st.text(alphabet=" \n\t$(){}[]\"'`\\;&|<>=#ab1-", max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_text_gives_an_answer(path, text):
    text = f"#!/bin/bash\njobs:\ndeepspeed {text}"
    kind = files.kind_of(path, text.encode("utf-8", "replace")) or "python"
    files.launches(text, path, kind, lambda _: None)


@pytest.mark.parametrize(
    "script",
    [
        "f() { f; f; }; f; deepspeed train.py",
        "while true; do X=$X$X$X; done; deepspeed train.py $X",
        "X=aaaaaaaaaa; for i in {1..99}; do X=$X$X; done; deepspeed $X",
        "deepspeed {1..999}{1..999}{1..999}",
        "for i in {1..99}; do for j in {1..99}; do for k in {1..99}; do deepspeed $i; done; done; done",
        'eval "' * 50 + "deepspeed",
        "deepspeed " + "$(" * 500,
        "deepspeed " + "${x:-" * 500,
        "((" * 2000 + " deepspeed",
        f"X={'a' * 5000}; deepspeed ${{X//*a*a*a*a*b/}}",
    ],
    ids=range(10),
)
def test_hostile_scripts_end_soon(script):
    before = os.times().user
    found(script, "a.sh")
    assert os.times().user - before < 10


def test_an_environment_with_the_name_of_a_launcher_is_none():
    (launch,) = found("conda run -n ds deepspeed --num_gpus 4 train.py --deepspeed_config ds.json\n", "run.sh")
    assert (launch.launcher, launch.script, launch.world_size) == ("deepspeed", "train.py", 4)
