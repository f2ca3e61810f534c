"""``ds-lint smoke -- torchrun SCRIPT`` on a GPU: peaks of memory, seconds of a step, resuming, and what is left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from tools.gpu import card
from tools.gpu.installation import ROOT
from tools.gpu.parts.smoke import BASE, CPU, PRECISIONS
from tools.gpu.proving import not_passed
from tools.gpu.setting import ERROR, FAIL, PASS, Item, Setting

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tools.gpu.setting import Result

QUESTION = "Does a script of one's own pass on a GPU, repeat its steps after it resumes, and leave nothing behind?"
LANES = 1  # the seconds of a step are those of a script that has the GPU for itself
_SCRIPTS = os.path.join(ROOT, "tests", "fidelity", "programs", "gpu")
_START, _REHEARSED_START = 35, 60  # seconds for each of both starts of a script
_GRACE = 20.0  # and for ds-lint, which ends a start that takes longer, and removes what it has left
_LONGEST = 4000
_PLAIN = {**BASE, **PRECISIONS["bf16"], "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}}
_AUTO = dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"), "auto")
_STAGE_3 = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
# Script, config, and whether a step of it is profiled.
RUNS: tuple[tuple[str, str, Result, bool], ...] = (
    ("plain, stage 2", "plain.py", {**_PLAIN, "zero_optimization": {"stage": 2}}, True),
    ("trainer, stage 3", "trainer.py", {**_AUTO, "bf16": {"enabled": "auto"}, "zero_optimization": _STAGE_3}, False),
    ("loop, stage 2", "loop.py", {**_AUTO, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 2}}, False),
    ("plain, stage 3", "plain.py", {**_PLAIN, "zero_optimization": _STAGE_3}, False),
    (
        "trainer, stage 2, optimizer on the CPU",
        "trainer.py",
        {**_AUTO, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2, "offload_optimizer": CPU},
         "zero_force_ds_cpu_optimizer": False},
        False,
    ),
)  # fmt: skip


def lane(_setting: Setting) -> AbstractContextManager[None]:
    """Each script is a process of its own."""
    return contextlib.nullcontext()


def items(setting: Setting) -> list[Item]:
    """A run of each script."""
    return [_run(setting, *one) for one in RUNS]


def _run(setting: Setting, name: str, script: str, config: Result, is_profiled: bool) -> Item:
    start = _REHEARSED_START if setting.rehearses else _START

    def measure(_shared: None) -> Result:
        folder = tempfile.mkdtemp(dir=setting.folder)
        shutil.copy(os.path.join(_SCRIPTS, script), folder)
        with open(os.path.join(folder, "ds_config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        before = set(os.listdir(folder)), set(os.listdir("/dev/shm"))  # noqa: S108 - where DeepSpeed leaves things
        done = subprocess.run(
            [sys.executable, "-m", "ds_lint", "smoke", "--isolated", "--output-format", "json",
             "--timeout", str(start),
             *(["--cpu"] if setting.rehearses else []), *(["--profile"] if is_profiled else []), "--",
             sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1", script],
            cwd=folder, env=_environment(folder), capture_output=True, text=True, errors="replace",
            timeout=2 * start + _GRACE, check=False,
        )  # fmt: skip
        after = set(os.listdir(folder)), set(os.listdir("/dev/shm"))  # noqa: S108
        left = sorted((after[0] - before[0]) | (after[1] - before[1]))
        try:
            report = json.loads(done.stdout)
        except ValueError:
            return {"status": ERROR, "exit": done.returncode, "error": (done.stdout + done.stderr)[-_LONGEST:]}
        gpu = card.of(setting.gpu, rehearses=setting.rehearses)
        summary, processes = _summary(report), card.Before.of(gpu).processes
        return {
            **summary,
            "status": FAIL if summary["status"] == PASS and (left or processes) else summary["status"],
            "exit": done.returncode,
            "left": left,
            "processes_left": processes,
            "config": config,
            "said": _end_if_bad(done),
        }

    return Item(name, measure, seconds=25.0)


def _environment(folder: str) -> dict[str, str]:
    """A user without a compiler, whose ops are not built; the script makes its weights itself."""
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TORCH_EXTENSIONS_DIR": f"{folder}-extensions"}


def _summary(report: Result) -> Result:
    """The run of the one engine, in short."""
    runs = report.get("smoke") or []
    if len(runs) != 1:
        return {"status": ERROR, "error": f"{len(runs)} engines were seen", "findings": report.get("findings")}
    run = runs[0]
    return {
        "status": run["status"],
        "mode": run["mode"],
        "engine": run.get("engine"),
        "checks": [
            {name: check.get(name) for name in ("id", "status", "message", "observed")} for check in run["checks"]
        ],
        "not_passed": not_passed(run),
        "measured": run.get("measured"),
        "error": run.get("error"),
    }


def _end_if_bad(done: subprocess.CompletedProcess[str]) -> str | None:
    return done.stderr[-_LONGEST:] if done.returncode else None
