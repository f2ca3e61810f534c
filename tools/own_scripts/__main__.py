"""Run public training scripts, as they are, through ``ds-lint smoke -- COMMAND``, and write down what happened.

    python -m tools.own_scripts --cache DIR --packages DIR [NAME ...]
    python -m tools.own_scripts --cache DIR --packages DIR --bare [NAME ...]

Each command is run by itself up to the step at which ds-lint stops it, and then with ds-lint. What happened is in
``tools/own_scripts/results.json``, and in ``docs/own-scripts.md``, which is made of it. The output of every run is in
``CACHE/logs``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.own_scripts import page, results
from tools.own_scripts.recipes import RECIPES
from tools.own_scripts.runs import prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.own_scripts.recipe import Recipe
    from tools.own_scripts.runs import Ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scripts that are named, and bring the list up to date."""
    parser = argparse.ArgumentParser(prog="python -m tools.own_scripts", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the scripts to run (default: all)")
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR", help="where repositories and logs are kept")
    parser.add_argument("--packages", type=Path, required=True, metavar="DIR", help="the packages of requirements.txt")
    parser.add_argument("--bare", action="store_true", help="run each command only by itself, and write nothing down")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - {recipe.name for recipe in RECIPES}:
        parser.error(f"no script is named {', '.join(sorted(unknown))}")
    sys.path.append(str(options.packages / "current"))  # data is made with them too
    logs = options.cache / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for recipe in RECIPES:
        if options.names and recipe.name not in options.names:
            continue
        with prepared(recipe, options.cache, options.packages) as place:
            bare = place.bare()
            _log(logs, recipe, "alone", bare)
            if not options.bare:
                proved, report = place.with_ds_lint()
                _log(logs, recipe, "with ds-lint", proved)
                (logs / f"{recipe.name}.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
                results.record(recipe, bare, proved, report)
    if not options.bare:
        page.write()
    return 0


def _log(logs: Path, recipe: Recipe, how: str, ended: Ended) -> None:
    """Keep what a run printed, and print how it ended."""
    (logs / f"{recipe.name} {how}.log").write_text(ended.log, encoding="utf-8")
    left = f"  left: {', '.join(ended.left[:4])}" if ended.left else ""
    sys.stderr.write(f"{recipe.name} {how}: status {ended.status} after {ended.seconds:.1f} s{left}\n")


if __name__ == "__main__":
    sys.exit(main())
