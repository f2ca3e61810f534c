"""Measure what the pre-commit hook costs: the first run, which installs it, and the later ones.

    python -m tools.bench.pre_commit [--rounds 11]

In a repository made for it, with configs among other JSON files. Seconds on the clock, of whole ``pre-commit`` runs;
the later ones interleaved with those of a hook that does nothing, medians. Nothing is cached before the first run, so
it says as much about the network and the package index as about ds-lint. Needs pre-commit beside this interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.bench.size_texts import ROOT, own_config

CONFIGS, OTHERS = 10, 1000  # files that are configs, and other JSON
OTHER = {"model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 4096, "num_hidden_layers": 32}

HOOKS = """\
repos:
  - repo: {ours}
    rev: {commit}
    hooks: [{{id: ds-lint}}]
  - repo: local
    hooks: [{{id: nothing, name: nothing, entry: "true", language: system, files: json$, require_serial: true}}]
"""


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=11)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        os.environ.update(PRE_COMMIT_HOME=f"{folder}/hooks", PIP_NO_CACHE_DIR="1", XDG_DATA_HOME=f"{folder}/data")
        _fill(project)
        first = _seconds(project, "ds-lint", "--all-files")
        later: dict[str, list[float]] = {}
        runs = {
            f"{CONFIGS} configs among {OTHERS} other files": ["--all-files"],
            "one config": ["--files", "config-0.json"],
        }
        for _ in range(chosen.rounds):
            for what, files in runs.items():
                later.setdefault(f"{what}, a hook that does nothing", []).append(_seconds(project, "nothing", *files))
                later.setdefault(f"{what}, ds-lint", []).append(_seconds(project, "ds-lint", *files))
    sys.stdout.write(f"{'the first run, with the installation':60} {first:6.2f} s\n")
    for what, seconds in later.items():
        sys.stdout.write(f"{what:60} {statistics.median(seconds):6.2f} s\n")


def _fill(project: Path) -> None:
    """A repository with configs, other JSON files and the hooks."""
    for number in range(CONFIGS):
        (project / f"config-{number}.json").write_text(json.dumps(own_config(number), indent=2), encoding="utf-8")
    for number in range(OTHERS):
        (project / f"other-{number}.json").write_text(json.dumps({**OTHER, "seed": number}), encoding="utf-8")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    hooks = HOOKS.format(ours=ROOT, commit=commit.strip())
    (project / ".pre-commit-config.yaml").write_text(hooks, encoding="utf-8")
    for words in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *words], cwd=project, check=True)


def _seconds(project: Path, hook: str, *files: str) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "pre_commit", "run", hook, *files]
    subprocess.run(command, cwd=project, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
