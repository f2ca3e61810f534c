"""Measure what the probe of ``ds-lint smoke`` costs a script, as a ratio to the bare command up to the same step.

    python -m tools.bench.own_script [--rounds 5] [--stage 3]

The command is torchrun on two CPU ranks with a script of plain DeepSpeed and a Llama of 34 million parameters. Bare, it
stops by itself after as many steps as the first start of ``ds-lint smoke`` makes; "and saves" is the same with the
checkpoint and the 16-bit weights that the first start writes. Paired: each round runs each of them once. Wall time from
start to end, and CPU time of all processes, which other jobs of the machine change less; medians of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ds_lint.smoke import probe
from ds_lint.smoke.probe import plan as plans
from tools.bench.times import Time, median, timed

RANKS = 2
PLAN = plans.Plan("")
STEPS = PLAN.steps + PLAN.steps_after
CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
}
ZERO = {"stage3_gather_16bit_weights_on_model_save": True}
SCRIPT = f"""\
import os, sys, torch
import deepspeed
import deepspeed.ops
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
from transformers import LlamaConfig, LlamaForCausalLM

deepspeed.init_distributed(dist_backend="gloo", verbose=False)
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=8192, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")
batches = torch.randint(0, 8192, (1000, 1, 128), generator=torch.Generator().manual_seed(engine.global_rank))
for tokens in batches:
    engine.backward(engine(input_ids=tokens, labels=tokens).loss)
    engine.step()
    if "bare" in sys.argv and engine.global_steps == {PLAN.steps} and "saves" in sys.argv:
        engine.save_checkpoint("checkpoint")
        engine.save_16bit_model("export")
    if "bare" in sys.argv and engine.global_steps == {STEPS}:
        os._exit(0)  # threads of Gloo may abort an orderly end
"""
ROOT = str(Path(__file__).parent.parent.parent)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--stage", type=int, default=3)
    chosen = options.parse_args()
    bare, saves, probed = "the bare command", "the bare command, and saves", "the first start of ds-lint smoke"
    times: dict[str, list[Time]] = {bare: [], saves: [], probed: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = {**CONFIG, "zero_optimization": {**ZERO, "stage": chosen.stage}}
        (folder / "ds.json").write_text(json.dumps(config), encoding="utf-8")
        (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
        for _ in range(chosen.rounds):
            times[bare].append(timed(lambda: _run(folder, ["bare"])))
            times[saves].append(timed(lambda: _run(folder, ["bare", "saves"])))
            times[probed].append(timed(lambda: _run_probed(folder)))
            for written in ("checkpoint", "export", "run"):
                shutil.rmtree(folder / written, ignore_errors=True)
    base = median(times[bare])
    for what, seconds in times.items():
        wall, cpu = median(seconds)
        pairs = [one.wall / other.wall for one, other in zip(seconds, times[bare], strict=True)]
        ratios = f"{statistics.median(pairs):.2f} x, CPU {cpu / base.cpu:.2f} x"
        sys.stdout.write(f"{what:34}{wall:6.2f} s, CPU {cpu:6.2f} s, {ratios}\n")


def _run_probed(folder: Path) -> None:
    run = folder / "run"
    run.mkdir()
    path = plans.write(PLAN._replace(folder=str(run), uses_cpu=True))
    startup = os.path.join(os.path.dirname(probe.__file__), "startup")
    _run(folder, [], PYTHONPATH=startup, **{plans.VARIABLE: path})


def _run(folder: Path, arguments: list[str], **variables: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "--master-port", str(port)]
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, *launcher, "train.py", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit((done.stdout + done.stderr)[-4000:])


if __name__ == "__main__":
    main()
