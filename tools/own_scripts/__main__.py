"""Run public training scripts, as they are, through ``ds-lint smoke -- COMMAND``.

    python -m tools.own_scripts --cache DIR --packages DIR --bare [NAME ...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.own_scripts.recipes import RECIPES
from tools.own_scripts.runs import prepared

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.own_scripts", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the scripts to run; all if none is named")
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR", help="where the repositories are kept")
    parser.add_argument("--packages", type=Path, required=True, metavar="DIR", help="the packages of requirements.txt")
    parser.add_argument("--bare", action="store_true", help="only run each command by itself")
    options = parser.parse_args(arguments)
    for recipe in RECIPES:
        if options.names and recipe.name not in options.names:
            continue
        with prepared(recipe, options.cache, options.packages) as place:
            ended = place.bare()
        logs = options.cache / "logs"
        logs.mkdir(exist_ok=True)
        (logs / f"{recipe.name}-bare.log").write_text(ended.log, encoding="utf-8")
        print(f"{recipe.name:40} {ended.status:4} {ended.seconds:6.1f} s  {len(ended.left)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
