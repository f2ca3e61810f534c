"""Launches in the YAML of clusters and services, in task files, and in guides."""

from __future__ import annotations

import pytest

from ds_lint.launches import files

TRAIN = "train.py --deepspeed ds.json"
PYTORCH_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  nprocPerNode: "8"
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: {spec: {containers: [{command: [torchrun, train.py, --deepspeed, ds.json]}]}}
    Worker:
      replicas: 3
      template: {spec: {containers: [{command: [torchrun, train.py, --deepspeed, ds.json]}]}}
"""
POD = """\
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: train
    command: ["bash", "-c"]
    args:
    - |
      cd /work
      torchrun --nnodes $NODES --nproc_per_node 8 train.py \\
        --deepspeed ds.json
    env:
    - {name: NODES, value: "2"}
  - command: [deepspeed, --num_gpus=$(GPUS), train.py, $(OTHER)]
    env: [{name: GPUS, value: "4"}]
"""
MPI_JOB = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
spec:
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{command: [mpirun, -np, "16", python, train.py, --deepspeed, ds.json]}]}}}
"""
SKYPILOT = """\
resources:
  accelerators: A100:8
num_nodes: 2
envs:
  LR: 1e-5
setup: |
  pip install deepspeed
run: |
  cd work
  torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE train.py --lr $LR
"""
COMPOSE = """\
services:
  one:
    environment: [N=2]
    command: torchrun --nproc_per_node ${GPUS:-4} train.py
  other:
    entrypoint: ["bash", "-c"]
    command: ["deepspeed --num_gpus $$N train.py"]
    environment: {N: 3}
"""
GITLAB = """\
variables: {GPUS: "2"}
before_script:
  - export LR=1e-4
train:
  script:
    - cd sub
    - deepspeed --num_gpus $GPUS train.py --lr $LR
    - |
      torchrun --nproc_per_node $GPUS \\
        train.py
"""
AZURE = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: >-
  python train.py --deepspeed ds.json --data ${{inputs.data}}
"""
TASKFILE = "tasks:\n  train:\n    cmds:\n      - deepspeed --num_gpus 2 train.py\n      - cmd: torchrun train.py\n"
JUSTFILE = """\
gpus := "8"
train config:
    @deepspeed --num_gpus {{gpus}} train.py \\
      --deepspeed {{config}}
other:
    #!/bin/bash
    N=2
    torchrun --nproc_per_node $N train.py
"""
PYPROJECT = """\
[tool.pixi.tasks]
train = "deepspeed --num_gpus 3 train.py"
other = { cmd = ["torchrun", "train.py", "$LR"], env = { LR = "1" } }
[tool.poe.tasks]
train.shell = "deepspeed --num_gpus 4 train.py"
"""
MARKDOWN = """\
# Training

```bash
export N=4
deepspeed --num_gpus $N train.py \\
  --deepspeed ds.json
```

* Or:
  ```console
  $ cd work
  $ torchrun --nproc_per_node 2 train.py \\
  >   --deepspeed ds.json
  torchrun says something
  ```

```python
import os; os.system("deepspeed never.py")
```
"""
RST = """\
Training
========

.. code-block:: bash
   :caption: run

   deepspeed --num_gpus 2 train.py \\
     --deepspeed ds.json

And deepspeed never.py.
"""


def found(text, path):
    kind = files.kind_of(path, text.encode())
    return files.launches(text, path, kind, lambda _: None).launches


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (PYTORCH_JOB, "job.yaml", [(8, "torchrun", 32, [])]),
        (POD, "pod.yml", [(6, "torchrun", 16, []), (14, "deepspeed", 4, [])]),
        (MPI_JOB, "mpi.yaml", [(5, "mpirun", None, [])]),
        (SKYPILOT, "sky.yaml", [(10, "torchrun", 16, [])]),
        (COMPOSE, "compose.yaml", [(4, "torchrun", 4, []), (6, "deepspeed", 3, [])]),
        (GITLAB, ".gitlab-ci.yml", [(7, "deepspeed", 2, []), (9, "torchrun", 2, [])]),
        (AZURE, "job.yml", [(3, "python", None, ["inputs.data"])]),
        (TASKFILE, "Taskfile.yml", [(4, "deepspeed", 2, []), (5, "torchrun", 1, [])]),
        (JUSTFILE, "justfile", [(3, "deepspeed", 8, ["config"]), (8, "torchrun", 2, [])]),
        (PYPROJECT, "pyproject.toml", [(2, "deepspeed", 3, []), (3, "torchrun", 1, []), (5, "deepspeed", 4, [])]),
        (f'{{"scripts": {{\n "train": "torchrun {TRAIN}"}}}}', "package.json", [(2, "torchrun", 1, [])]),
        (f"web: python x.py\ntrain: deepspeed --num_gpus 2 {TRAIN}\n", "Procfile", [(2, "deepspeed", 2, [])]),
        (MARKDOWN, "README.md", [(5, "deepspeed", 4, []), (12, "torchrun", 2, [])]),
        (RST, "guide.rst", [(7, "deepspeed", 2, [])]),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_a_file_launches_what_its_commands_do(text, path, expected):
    launches = found(text, path)
    assert [(one.line, one.launcher, one.world_size, one.unknown) for one in launches] == expected


def test_words_of_a_container_are_no_text_of_the_shell():
    _, launch = found(POD, "pod.yml")
    assert launch.command == ["deepspeed", "--num_gpus=4", "train.py", "$(OTHER)"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("model: gpt2\ndeepspeed: ds.json\nrun: train\n", "recipe.yaml"),
        ("compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\n", "accelerate.yaml"),
        ("[project]\nname = 'deepspeed'\n", "pyproject.toml"),
    ],
)
def test_other_yaml_holds_no_commands(text, path):
    assert files.kind_of(path, text.encode()) is None


def test_text_that_cannot_be_read_launches_nothing():
    assert found("{{ if .x }}\napiVersion: v1\ncommand: [deepspeed, train.py]\n", "chart.yaml") == []
    assert found("deepspeed [", "package.json") == []


def test_a_target_of_make_has_variables_of_its_own():
    text = (
        "GPUS = 4\nexport LR = 1e-5\nall: GPUS = 8\nall: one\n\tdeepspeed --num_gpus $(GPUS) $@.py --lr $$LR\n"
        "one:\n\tdeepspeed --num_gpus $(GPUS) train.py\n"
        "define RUN\ntorchrun --nproc_per_node 2\nendef\ntwo:\n\t$(RUN) train.py\n"
    )
    assert [(one.line, one.world_size, one.command[-1]) for one in found(text, "Makefile")] == [
        (5, 8, "1e-5"),
        (7, 4, "train.py"),
        (12, 2, "train.py"),
    ]
    one_shell = ".ONESHELL:\ntrain:\n\t@export N=3\n\tdeepspeed --num_gpus $$N train.py\n"
    assert [(one.line, one.world_size) for one in found(one_shell, "Makefile")] == [(4, 3)]
