"""Which command lines Megatron-DeepSpeed refuses, by its own functions, and what it makes of the others.

DS_LINT_MEGATRON names folders with git repositories of its editions, as ``python -m tools.megatron_options`` gets them.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from ds_lint.facts.megatron import _of, _Started
from ds_lint.knowledge import tables
from ds_lint.knowledge.unknown import UNKNOWN

pytestmark = [
    pytest.mark.fidelity,
    pytest.mark.skipif("DS_LINT_MEGATRON" not in os.environ, reason="needs clones of Megatron-DeepSpeed"),
]
PROGRAM = Path(__file__).parent / "programs" / "megatron_arguments.py"
NUMBER = 1000
ALWAYS = ["--deepspeed", "--deepspeed_config", "ds.json"]
# Options with values of each, those that most lines have first.
COMMON = {
    "--micro-batch-size": ["1", "2", "4", "3"],
    "--num-layers": ["24", "12"],
    "--hidden-size": ["1024", "768", "1000"],
    "--num-attention-heads": ["16", "12"],
    "--seq-length": ["1024", "2048"],
    "--max-position-embeddings": ["2048", "1024"],
}
OTHERS = {
    "--global-batch-size": ["8", "16", "32", "48", "256"],
    "--tensor-model-parallel-size": ["1", "2", "3", "4", "8"],
    "--pipeline-model-parallel-size": ["1", "2", "3", "4"],
    "--no-pipeline-parallel": [None],
    "--ds-sequence-parallel-size": ["1", "2"],
    "--fp16": [None],
    "--bf16": [None],
    "--zero-stage": ["0", "1", "2", "3"],
    "--train-iters": ["1000"],
    "--train-samples": ["10000"],
    "--lr": ["1e-4", "6.0e-5"],
    "--min-lr": ["1e-5", "1e-3"],
    "--lr-warmup-iters": ["100"],
    "--lr-warmup-samples": ["1000"],
    "--lr-warmup-fraction": ["0.01"],
    "--lr-decay-iters": ["900"],
    "--lr-decay-samples": ["9000"],
    "--rampup-batch-size": [("16", "16", "1000")],
    "--save": ["out"],
    "--save-interval": ["100"],
    "--clip-grad": ["1.0", "0.5"],
    "--checkpoint-activations": [None],
    "--distribute-checkpointed-activations": [None],
    "--recompute-activations": [None],
    "--recompute-method": ["uniform"],
    "--recompute-granularity": ["full", "selective"],
    "--distribute-saved-activations": [None],
    "--use-distributed-optimizer": [None],
    "--DDP-impl": ["local", "torch"],
    "--accumulate-allreduce-grads-in-fp32": [None],
    "--no-contiguous-buffers-in-local-ddp": [None],
    "--cpu-optimizer": [None],
    "--optimizer": ["adam", "sgd"],
    "--fp16-lm-cross-entropy": [None],
    "--fp32-residual-connection": [None],
    "--num-layers-per-virtual-pipeline-stage": ["1", "5"],
    "--num-key-value-heads": ["4", "5"],
    "--swiglu": [None],
    "--batch-size": ["4"],
    "--model-parallel-size": ["2"],
    "--warmup": ["10"],
    "--sequence-parallel": [None],
    "--weight-decay-incr-style": ["constant", "linear"],
    "--start-weight-decay": ["0.1"],
    "--end-weight-decay": ["0.1"],
    "--num-experts": [("4",)],
    "--deepspeed-activation-checkpointing": [None],
}


def line(seed: int, options: dict[str, object]) -> tuple[list[str], int]:
    chance = random.Random(seed)
    words: list[str] = []
    names = [name for name in COMMON if chance.random() < 0.97]
    names += chance.sample(sorted(OTHERS), chance.choice([1, 2, 3, 4, 6, 9]))
    chance.shuffle(names)
    for name in names:
        if name not in options:
            continue
        value = chance.choice([*COMMON.get(name, ()), *OTHERS.get(name, ())])
        if value is None:
            words.append(name)
        elif isinstance(value, tuple):
            words += [name, *value]
        else:
            words += chance.choice([[name, value], [f"{name}={value}"]])
    return [*words, *ALWAYS], chance.choice([1, 2, 4, 6, 8, 16, 64])


@pytest.mark.parametrize("number", range(len(tables.load("megatron")["editions"])))
@pytest.mark.parametrize("count", [pytest.param(100, id="short"), pytest.param(NUMBER, marks=pytest.mark.long)])
def test_what_an_edition_refuses_is_what_it_refuses(number: int, count: int) -> None:
    edition = tables.load("megatron")["editions"][number]
    folder = next(one for one in os.environ["DS_LINT_MEGATRON"].split(os.pathsep) if has(one, edition["commit"]))
    lines = [line(seed, edition["options"]) for seed in range(count)]
    command = [sys.executable, str(PROGRAM), folder, edition["commit"]]
    done = subprocess.run(command, input=json.dumps(lines), capture_output=True, text=True, check=True)
    wrong, silent, refused = [], 0, 0
    for (words, world_size), real in zip(lines, json.loads(done.stdout.splitlines()[-1]), strict=True):
        found = _of(edition, _Started(tuple(words), world_size, is_open=False))
        assert found is not None, words
        refused += "error" in real
        if found.refusal is not None:
            said = f"{found.refusal.raises}: {found.refusal.message}"
            if real.get("error", "").split() != said.split():
                wrong.append((words, world_size, said, real))
        elif "error" in real:
            silent += 1
        else:
            for name, value in real["values"].items():
                if found.value(name) is not UNKNOWN and found.value(name) != value:
                    wrong.append((words, world_size, name, found.value(name), value))
    assert not wrong, wrong[:3]
    assert silent <= 0.01 * count, silent
    assert 0.2 * count < refused < 0.95 * count, refused


def has(folder: str, commit: str) -> bool:
    done = subprocess.run(["git", "-C", folder, "cat-file", "-e", commit], capture_output=True, check=False)
    return done.returncode == 0
