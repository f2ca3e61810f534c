"""Measure what ``ds-lint check --smoke`` costs, as a ratio to a bare script that does the same with two ranks.

    python -m tools.bench.smoke [--rounds 5] [--configs 15]

The bare script is what a user would write to try a config: two processes that import the libraries, initialize, train
as many steps, save a checkpoint and the weights, resume and train on, each in one process. Wall time from start to end,
and CPU time of all processes, which other jobs of the machine change less; interleaved, medians of one run; then the
time of each further config where a folder of them is run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.smoke.small_run.options import STEPS, STEPS_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {
        "stage": 3,
        "stage3_param_persistence_threshold": 0,
        "stage3_gather_16bit_weights_on_model_save": True,
    },
}
RANKS = 2
BARE = f"""
import json, os, sys, torch
torch.set_num_threads(1)
import deepspeed
import deepspeed.ops
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
from transformers import LlamaConfig, LlamaForCausalLM
deepspeed.init_distributed(dist_backend="gloo", verbose=False)
torch.manual_seed(0)
sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
model = LlamaForCausalLM(LlamaConfig(**sizes))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=json.load(open("c.json")))
tokens = torch.randint(0, 64, (2, 16))
def train(steps):
    for _ in range(steps):
        engine.backward(engine(input_ids=tokens, labels=tokens).loss)
        engine.step()
train({STEPS})
engine.save_checkpoint("checkpoint")
engine.save_16bit_model("export")
engine.load_checkpoint("checkpoint")
train({STEPS_AFTER})
sys.stdout.flush()
os._exit(0)
"""


class Time(NamedTuple):
    """Seconds of one run, and those of the processors, of all its processes."""

    wall: float
    cpu: float


def median(times: list[Time]) -> Time:
    """The median of each column."""
    return Time(*(statistics.median(column) for column in zip(*times, strict=True)))


def timed(run: Callable[[], None]) -> Time:
    """The time of one run, whose processes have ended when it returns."""
    began, used = time.perf_counter(), _cpu()
    run()
    return Time(time.perf_counter() - began, _cpu() - used)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--configs", type=int, default=15)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "c.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        many = folder / "many"
        many.mkdir()
        for number in range(chosen.configs):
            config = CONFIG | {"steps_per_print": number + 1}
            (many / f"{number}.json").write_text(json.dumps(config), encoding="utf-8")
        times: dict[str, list[Time]] = {"bare": [], "one": [], "many": []}
        for _ in range(chosen.rounds):
            times["bare"].append(timed(lambda: _bare(folder)))
            times["one"].append(timed(lambda: _smoke(folder, "c.json")))
            times["many"].append(timed(lambda: _smoke(folder, "many")))
    bare, one, many_files = (median(times[name]) for name in ("bare", "one", "many"))
    rows = {f"bare script on {RANKS} ranks": bare, "ds-lint check c.json --smoke": one}
    for name, (wall, cpu) in rows.items():
        ratios = f"{wall / bare.wall:.2f} x, CPU {cpu / bare.cpu:.2f} x"
        sys.stdout.write(f"{name:30}{wall:6.2f} s, CPU {cpu:6.2f} s, {ratios}\n")
    each = (many_files.wall - one.wall) / (chosen.configs - 1)
    name = f"{chosen.configs} configs in one call"
    sys.stdout.write(f"{name:30}{many_files.wall:6.2f} s, {each:.2f} s for each further one\n")


def _bare(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        **os.environ,
        "WORLD_SIZE": str(RANKS),
        "LOCAL_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", BARE],
            cwd=folder,
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(RANKS)
    ]
    if any(rank.wait() for rank in ranks):
        raise SystemExit("the bare script failed")


def _smoke(folder: Path, path: str) -> None:
    command = [sys.executable, "-m", "ds_lint", "check", path, "--isolated", "--smoke", "--output-format", "concise"]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True, env={**os.environ, "PYTHONPATH": ROOT})


ROOT = str(Path(__file__).parent.parent.parent)

if __name__ == "__main__":
    main()
