"""Bring everything that rests on releases of the libraries up to the newest ones.

    tools/refresh                    every library
    tools/refresh transformers       this one
    tools/refresh --check            only say what is new; status 1 if anything is

Standard output is a list in Markdown of what a person has to look at, standard error reports progress. The status is 0
where nothing is new or every step went well, 1 where a step failed or left something open, 2 where the run stops. A run
after one that was interrupted continues where it stopped: each file names the releases that it rests on.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tools.command_line import Parser, cannot
from tools.extract.releases import UnavailableError
from tools.refreshing import refresh
from tools.refreshing.releases import libraries

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = _parser().parse_args(arguments)
    try:
        if options.check:
            return refresh.check(options.libraries)
        return refresh.run(options.libraries, options.cache.absolute(), everything=options.all, tests=options.tests)
    except UnavailableError as error:
        return cannot(str(error))
    except Exception:  # noqa: BLE001 - Python itself ends with 1, which says something else here
        traceback.print_exc()
        return 2


def _parser() -> argparse.ArgumentParser:
    description, _, epilog = (__doc__ or "").partition("\n\n")
    parser = Parser(
        prog="tools/refresh",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    named = libraries()
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=f"{', '.join(named)} (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--all", action="store_true", help="do every step again, also where no release is new")
    parser.add_argument(
        "--cache",
        type=Path,
        default=ROOT / ".refresh",
        metavar="DIR",
        help="where downloads are kept (default: .refresh)",
    )
    parser.add_argument("--no-tests", dest="tests", action="store_false", help="leave the tests to you")
    return parser


if __name__ == "__main__":
    sys.exit(main())
