"""What happened to each script, in ``tools/own_scripts/results.json``."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.own_scripts.recipes import RECIPES
from tools.own_scripts.sources import installed, version

if TYPE_CHECKING:
    from tools.own_scripts.recipe import Recipe
    from tools.own_scripts.runs import Ended

STORE = Path(__file__).parent / "results.json"
STATUSES = ("pass", "warn", "fail", "error")
_OWN = "ds-lint: "  # starts a line of ds-lint itself
LIBRARIES = ("torch", "deepspeed", "transformers", "accelerate", "peft", "trl", "datasets")


def read() -> dict[str, Any]:
    """The list, with an entry for each script that was run."""
    found: dict[str, Any] = json.loads(STORE.read_text(encoding="utf-8"))
    return found


def record(recipe: Recipe, bare: Ended, proved: Ended, report: dict[str, Any]) -> None:
    """Write down what happened to a script, in the place of what happened before."""
    entries = {one["name"]: one for one in read()["scripts"]} if STORE.exists() else {}
    entries[recipe.name] = entry(recipe, bare, proved, report)
    content = {
        "versions": installed(LIBRARIES),
        "scripts": [entries[one.name] for one in RECIPES if one.name in entries],
    }
    STORE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8", newline="\n")


def entry(recipe: Recipe, bare: Ended, proved: Ended, report: dict[str, Any]) -> dict[str, Any]:
    """What happened to a script."""
    runs = report.get("smoke") or []
    reports = [line.removeprefix(_OWN) for line in proved.log.splitlines() if line.startswith(_OWN)]
    error = next((one["error"] for one in runs if one["error"]), None)
    result = max((one["status"] for one in runs), key=STATUSES.index, default="error")
    return {
        "name": recipe.name,
        "source": {"name": recipe.source.name, "version": version(recipe.source)},
        "script": recipe.script,
        "launcher": recipe.launcher,
        "stack": recipe.stack,
        "older": recipe.older,
        "command": recipe.command,
        "alone": _ended(bare),
        "with_ds_lint": _ended(proved),
        "result": result,
        "error": error or (reports[-1] if reports else "no report") if result == "error" else None,
        "engines": [_engine(one) for one in runs if one["engine"] is not None],
        "findings": [
            {"code": one["code"], "message": one["message"]}
            for one in report.get("findings") or []
        ],
        "left": proved.left,
    }  # fmt: skip


def _ended(run: Ended) -> dict[str, Any]:
    seconds = {"seconds": round(run.seconds, 1), "processor_seconds": round(run.processor_seconds, 1)}
    return {"status": run.status, **seconds}


def _engine(run: dict[str, Any]) -> dict[str, Any]:
    """An engine, how many of its checks had which outcome, and those that did not pass."""
    checks = run["checks"]
    return {
        "number": run["engine"]["number"],
        "stack": run["stack"],
        "model": run["model"],
        "parameters": run["parameter_count"],
        "optimizer": run["engine"]["optimizer"].rpartition(".")[2],
        "is_trained": run["engine"]["is_trained"],
        "result": run["status"],
        "checks": dict(sorted(collections.Counter(one["status"] for one in checks).items())),
        "notable": [
            {name: one[name] for name in ("id", "status", "message")}
            for one in checks if one["status"] != "pass"
        ],
    }  # fmt: skip
