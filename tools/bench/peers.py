"""Measure ds-lint and the linters around it, each on the files that it is for, as ratios to ``python -c pass``.

    python -m tools.bench.peers [--rounds 9] [--environments .bench]

The same clean config in the format of each, or a script or a workflow that uses it; every file of the many is another
one. Whole processes without caches, medians of runs in turns: CPU time (user and system), and time on the clock, where
programs with threads take less. The tools are installed from the package index into an environment of their own, with
ds-lint as a wheel; ds-lint in a checkout is installed in place, in a second one.

The figures compare costs, not merits: each tool answers another question. `ruff`, `taplo` and `zizmor` are native
programs, and `taplo` without a schema only parses. `check-jsonschema` and `taplo` check the schema that ds-lint
publishes, which has keys and types, but neither the releases of a project nor what one key does to another. `yamllint`
and `ruff` know nothing of DeepSpeed; `zizmor` audits workflows.
"""

from __future__ import annotations

import argparse
import json
import os
import pprint
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ds_lint.addresses import DISTRIBUTION
from tools.bench.cost import cost, in_turns
from tools.bench.size_texts import ROOT, own_config

MANY = 100
OTHERS = ("ruff", "zizmor", "check-jsonschema", "yamllint", "taplo")
SCHEMA = ROOT / "schemas" / "published" / "deepspeed-latest.schema.json"
# Its default rules, and what PyYAML writes.
_STYLE = "{extends: default, rules: {indentation: {indent-sequences: whatever}}}"
_VERSIONS = "import importlib.metadata, sys; print(*map(importlib.metadata.version, sys.argv[1:]))"
WORKFLOW = """\
name: configs
on: [push]
permissions: {{}}
jobs:
  configs:
    runs-on: ubuntu-latest
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2
        with:
          persist-credentials: false
      - run: pip install {distribution}
      - run: ds-lint check {number}.json
      - run: deepspeed train.py --deepspeed_config {number}.json
"""
SCRIPT = """\
import deepspeed

CONFIG = {config}


def initialized(model):
    return deepspeed.initialize(model=model, config=CONFIG)
"""


class Linter(NamedTuple):
    """A tool on files of a kind."""

    package: str
    how: str  # it is installed or called
    pattern: str  # of its files
    command: tuple[str, ...]  # what comes before them
    is_checkout: bool = False


LINTERS = (
    Linter("ds-lint", "wheel", "*.json", ("ds-lint", "check")),
    Linter("ds-lint", "checkout", "*.json", ("ds-lint", "check"), is_checkout=True),
    Linter("check-jsonschema", "", "*.json", ("check-jsonschema", "--schemafile", str(SCHEMA))),
    Linter("yamllint", "", "*.yaml", ("yamllint", "-d", _STYLE)),
    Linter("taplo", "no schema", "*.toml", ("taplo", "lint", "--no-auto-config", "--no-schema")),
    Linter("taplo", "schema", "*.toml", ("taplo", "lint", "--no-auto-config", "--schema", SCHEMA.as_uri())),
    Linter("ds-lint", "wheel", "*.py", ("ds-lint", "check")),
    Linter("ruff", "", "*.py", ("ruff", "check", "--isolated", "--no-cache")),
    Linter("zizmor", "offline", ".github/workflows/*.yml", ("zizmor", "--offline", "--no-progress")),
)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--environments", type=Path, default=ROOT / ".bench", metavar="FOLDER")
    chosen = options.parse_args()
    wheel = _environment(chosen.environments / "wheel", *OTHERS, str(ROOT))
    checkout = _environment(chosen.environments / "checkout", "--editable", str(ROOT))
    question = [str(wheel / "python"), "-c", _VERSIONS, DISTRIBUTION, *OTHERS]
    versions = dict(zip(("ds-lint", *OTHERS), subprocess.check_output(question, text=True).split(), strict=True))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(MANY):
            for path, text in texts(number).items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text, encoding="utf-8")
        commands = {"": [str(wheel / "python"), "-c", "pass"]}
        for place, linter in enumerate(LINTERS):
            program, *words = linter.command
            start = [str((checkout if linter.is_checkout else wheel) / program), *words]
            commands[f"{place} one"] = [*start, linter.pattern.replace("*", "0")]
            commands[f"{place} many"] = [*start, linter.pattern]
        runs = {name: partial(cost, words, folder, environment=environment) for name, words in commands.items()}
        costs = in_turns(runs, chosen.rounds)
    base = costs[""]
    sys.stdout.write(f"{'':36} {'CPU':^21} {'clock':>13}\n")
    sys.stdout.write(
        f"{'tool':27} {'files':8} {'one file':>10} {f'{MANY} files':>10} {'one file':>10} {MANY:>4} files\n"
    )
    sys.stdout.write(f"{'python -c pass':36} {base.cpu * 1000:7.1f} ms {'':10} {base.clock * 1000:7.1f} ms\n")
    for place, linter in enumerate(LINTERS):
        title = ", ".join(filter(None, (f"{linter.package} {versions[linter.package]}", linter.how)))
        one, many = costs[f"{place} one"], costs[f"{place} many"]
        ratios = (one.cpu / base.cpu, many.cpu / base.cpu, one.clock / base.clock, many.clock / base.clock)
        columns = " ".join(f"{ratio:8.2f} x" for ratio in ratios)
        sys.stdout.write(f"{title:27} {Path(linter.pattern).name:8} {columns}\n")


def texts(number: int) -> dict[str, str]:
    """The files with one config: the config in three formats, a script and a workflow with it."""
    config = own_config(number)
    return {
        f"{number}.json": json.dumps(config, indent=2),
        f"{number}.yaml": "---\n" + yaml.safe_dump(config, sort_keys=False),
        f"{number}.toml": _toml(config),
        f"{number}.py": SCRIPT.format(config=pprint.pformat(config, sort_dicts=False)),
        f".github/workflows/{number}.yml": WORKFLOW.format(number=number, distribution=DISTRIBUTION),
    }


def _toml(table: dict[str, Any], name: str = "") -> str:
    """A table: its values, and behind them the tables in it."""
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items() if not isinstance(value, dict))
    for key, value in table.items():
        if isinstance(value, dict):
            text += f"\n[{name}{key}]\n{_toml(value, f'{name}{key}.')}"
    return text


def _environment(folder: Path, *what: str) -> Path:
    """Where the programs of an environment are, which is made, and has the newest of these."""
    programs = folder / "bin"
    if not programs.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(programs / "python"), "-m", "pip", "install", "-qq", "--upgrade"]
    for packages in (["pip"], what):
        subprocess.run([*pip, *packages], check=True, stdout=subprocess.DEVNULL)
    return programs


if __name__ == "__main__":
    main()
