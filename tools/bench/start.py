"""Measure what ``ds-lint check`` and ``ds-lint memory`` cost, as ratios to ``python -c pass`` of the same interpreter.

    python -m tools.bench.start [--rounds 41]

Whole processes, CPU time (user and system, of the child alone), in turns, medians of one run. Run it with the
interpreter of the environment that ds-lint is installed in. The script that pip writes is part of it: that of pip 23.2
imports ``re``, which costs half a start of Python, that of 26.3 does not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from tools.bench.cost import BARE, cost, in_turns
from tools.bench.size_texts import ROOT

MODEL = {  # of 70 billion parameters
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip
RUN = ("--stack", "deepspeed", "--world-size", "64", "--nodes", "8", "--micro-batch", "1", "--sequence-length", "4096")


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=41)
    chosen, ours = options.parse_args(), shutil.which("ds-lint", path=str(Path(sys.executable).parent))
    if ours is None:
        options.error("ds-lint is not installed beside this interpreter")
    with tempfile.TemporaryDirectory() as folder:
        clean = Path(folder) / "clean.json"
        clean.write_bytes((ROOT / "examples" / "clean.json").read_bytes())
        model = Path(folder) / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
        memory = [ours, "memory", str(clean), "--model", str(model), *RUN]
        commands = {
            "python -c pass": BARE,
            "ds-lint check clean.json": [ours, "check", str(clean)],
            "ds-lint memory, 70B": memory,
            "ds-lint memory, 70B, with advice": [*memory, "--gpu", "A100-40GB"],
            "ds-lint memory, 70B, --sweep": [*memory, "--sweep"],
            "ds-lint memory, 70B, no config": [ours, "memory", *memory[3:], "--gpu", "A100-80GB"],
        }
        runs = {
            name: partial(cost, command, Path(folder), environment=os.environ, statuses=(0, 1))
            for name, command in commands.items()
        }
        costs = in_turns(runs, chosen.rounds)
    for name, took in costs.items():
        ratio = took.cpu / costs["python -c pass"].cpu
        sys.stdout.write(f"{name:32} {took.cpu * 1000:8.1f} ms  {ratio:6.2f} x\n")


if __name__ == "__main__":
    main()
