"""Measure what ``ds-lint check`` and ``ds-lint memory`` cost, as ratios to ``python -c pass`` of the same interpreter.

    python -m tools.bench.start [--rounds 41]

Whole processes, CPU time (user and system, of the child alone), interleaved, medians of one run. Run it with the
interpreter of the environment that ds-lint is installed in, and with PYTHONDONTWRITEBYTECODE unset. The script that
pip writes is part of it: that of pip 23.2 imports ``re``, which costs half a start of Python, that of 26.3 does not.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = Path(__file__).parent.parent.parent / "examples" / "clean.json"
MANY = 1000
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
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        options.error("PYTHONDONTWRITEBYTECODE is set: every start would compile ds-lint again")
    with tempfile.TemporaryDirectory() as folder:
        clean = Path(folder) / "clean.json"
        clean.write_bytes(CONFIG.read_bytes())
        many = Path(folder) / "many"
        many.mkdir()
        copies = [str(_variant(many, number)) for number in range(MANY)]
        model = Path(folder) / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
        memory = [ours, "memory", str(clean), "--model", str(model), *RUN]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "ds-lint check clean.json": [ours, "check", str(clean)],
            f"ds-lint check, {MANY} files": [ours, "check", *copies],
            "ds-lint memory, 70B": memory,
            "ds-lint memory, 70B, --sweep": [*memory, "--sweep"],
        }
        times = _measure(commands, chosen.rounds, folder)
    base = statistics.median(times["python -c pass"])
    for name, seconds in times.items():
        median = statistics.median(seconds)
        sys.stdout.write(f"{name:32} {median * 1000:8.1f} ms  {median / base:6.2f} x\n")
    start = statistics.median(times["ds-lint check clean.json"])
    extra = statistics.median(times[f"ds-lint check, {MANY} files"]) - start
    sys.stdout.write(f"{MANY} files on top of the start: {extra:.3f} s CPU\n")


def _variant(folder: Path, number: int) -> Path:
    """A config of its own for every file: other numbers, another order."""
    config = json.loads(CONFIG.read_text(encoding="utf-8"))
    config["steps_per_print"] = number + 1
    names = list(config)
    turned = names[number % len(names) :] + names[: number % len(names)]
    path = folder / f"{number}.json"
    path.write_text(json.dumps({name: config[name] for name in turned}, indent=2), encoding="utf-8")
    return path


def _measure(commands: dict[str, list[str]], rounds: int, folder: str) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return times


if __name__ == "__main__":
    main()
