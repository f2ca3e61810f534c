"""Training runs of configs in processes that stay warm: what ``ds-lint check --smoke`` does, many times."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import threading
from typing import TYPE_CHECKING, Any

from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.linter.choice import choose
from ds_lint.smoke.processes.client import Pool
from ds_lint.smoke.records.messages import IMPORTING
from ds_lint.smoke.small_run import proof
from ds_lint.smoke.small_run.options import RunOptions
from ds_lint.source import documents
from ds_lint.targets.distributions import installed
from tools.gpu.setting import ERROR, FAIL, PASS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ds_lint.diagnostics.verdict import Verdict
    from tools.gpu.setting import Result, Setting

_STARTING = threading.Lock()
SECONDS = 60.0  # for a part of a run, which takes a few
_LONGEST = 4000  # characters of a log


class Prover:
    """Makes the runs of one lane."""

    def __init__(self, pool: Pool, setting: Setting) -> None:
        self._pool = pool
        self._setting = setting
        self._target = choose("", {}, installed("")).newest

    def prove(
        self,
        config: Result,
        *,
        stack: str = "deepspeed",
        run_options: RunOptions | None = None,
        model: str | None = None,
        arguments: Result | None = None,
    ) -> Result:
        """The run of a config, as a result; on one GPU unless ``run_options`` has more.

        ``model`` is a model type of transformers, of which a small model is made.
        """
        run_options = run_options or RunOptions(ranks=1)
        fresh: list[str] = []  # the parts whose rank was not forked with the libraries
        (verdict,) = proof.prove(
            self._pool,
            documents.from_bytes(json.dumps(config).encode(), "config.json"),
            stack=stack,  # type: ignore[arg-type] # one of the three
            facts=gather(Sources(trainer_args=arguments, model=model and self._folder_of(model))),
            target=self._target,
            options=run_options._replace(
                seconds=SECONDS, mode=self._setting.mode, gpus=self._setting.gpus, simulates=False
            ),
            on_phase=lambda part, phase: fresh.append(part) if phase == IMPORTING else None,
        )
        return {**summary(verdict), "config": config, "stack": stack, "fresh": fresh}

    def _folder_of(self, model_type: str) -> str:
        """A folder with the config.json of a model type."""
        folder = os.path.join(self._setting.folder, "models", model_type)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"model_type": model_type}, file)
        return folder


@contextlib.contextmanager
def prover(setting: Setting, **variables: str) -> Iterator[Prover]:
    """The process of a lane, started with these variables of the environment.

    Lanes are threads of one process, so a variable is in its environment only while that of a lane starts.
    """
    with _STARTING:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            pool = Pool(setting.folder, setting.mode)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
    with pool:
        _ = pool.versions
        yield Prover(pool, setting)


def without_ops(setting: Setting) -> AbstractContextManager[Prover]:
    """The same, where no op is built: all are stand-ins."""
    return prover(setting, TORCH_EXTENSIONS_DIR=os.path.join(setting.folder, "no-ops"))


def summary(verdict: Verdict) -> Result:
    """A run in short: every check, and the numbers of its steps."""
    adapted = [one for one in verdict.adaptations if one.after == "torch operations"]
    return {
        "status": verdict.status,
        "mode": verdict.mode,
        "ranks": verdict.world_size,
        "run_seconds": round(verdict.seconds, 2),
        "peak_bytes": list(verdict.peak_bytes),
        "checks": [
            {"id": one.id, "status": one.status, "message": one.message, "observed": _plain(one.observed)}
            for one in verdict.checks
        ],
        "losses": [step.loss for step in verdict.steps],
        "norms": [step.gradient_norm for step in verdict.steps],
        "skipped": [step.is_skipped for step in verdict.steps],
        "stand_ins": [one.before for one in adapted],
        "ends": [list(end) for end in verdict.ranks if end.exit != "ok"],
        "error": verdict.error,
        "log": _end_of(verdict.log),
    }


def not_passed(result: Result) -> list[str]:
    """The ids of the checks that failed, warned, or could not be made."""
    return sorted({one["id"] for one in result["checks"] if one["status"] not in ("pass", "skip")})


def compared(found: Result, reference: Result) -> Result:
    """A run that is as it should be if it trains, and each check that passes in another one passes in it, too.

    Of some checks a run has several, so they are counted. More of them may pass: only a GPU shows where the tensors of
    an offloaded optimizer are (``placement`` in ds_lint/smoke/verify/offload.py).
    """
    expected, observed = not_passed(reference), not_passed(found)
    missing = sorted(_passed(reference) - _passed(found))
    error = found["error"]
    if error is None and reference["error"] is not None:
        error = f"the run to compare with: {reference['error']}"
    is_the_same = expected == observed and not missing and "start" not in observed
    return {
        **found,
        "verdict": found["status"],
        "status": ERROR if error is not None else PASS if is_the_same else FAIL,
        "error": error,
        "expected": expected,
        "observed": observed,
        "missing": missing,
    }


def _passed(result: Result) -> collections.Counter[str]:
    return collections.Counter(one["id"] for one in result["checks"] if one["status"] == "pass")


def _end_of(log: str | None) -> str | None:
    """The last lines of a log, which is removed."""
    if log is None:
        return None
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    os.unlink(log)
    return text[-_LONGEST:]


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    return value if value is None or isinstance(value, (bool, int, float, str, list)) else str(value)
