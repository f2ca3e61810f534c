"""Compare the table of what raises with a release of a library.

    python -m tools.raises                                      what is installed
    python -m tools.raises --write                              and bring table and pages up to it
    python -m tools.raises deepspeed 0.19.9                     a release, downloaded with pip

A site that the release has and the table lacks gets an empty row by ``--write``, to be filled in by hand: ``rules``,
``reason`` with ``because``, or ``open`` (``tools/raises/table.py`` says what they mean).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tools.extract.releases import fetch
from tools.raises import pages
from tools.raises.table import LIBRARIES, bring_up_to, differences, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGES = Path(__file__).parents[2] / "docs" / "raises"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 the table is complete, 1 it differs or has rows without an answer, 2 it cannot be compared."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except (LookupError, SyntaxError) as error:
        sys.stderr.write(f"error: tools/raises/sites.py does not know this layout: {error}\n")
        return 2


def _run(options: argparse.Namespace) -> int:
    if options.release:
        with tempfile.TemporaryDirectory() as folder:
            tree = fetch(options.library, options.release, Path(folder))
            status = _compare(options.library, tree, options.release if options.write else None)
    else:
        libraries = [options.library] if options.library else LIBRARIES
        status = max(_compare(one, installed(one), _release(one) if options.write else None) for one in libraries)
    if options.write:
        pages.write(PAGES)
    return status


def _release(library: str) -> str:
    return version(library).partition("+")[0]


def installed(library: str) -> Path:
    """The folder that holds the package of an installed library."""
    found = find_spec(library)
    if found is None or found.origin is None:
        raise SystemExit(f"error: {library} is not installed; name a release, or a folder with --tree")
    return Path(found.origin).parents[1]


def _compare(library: str, tree: Path, release: str | None) -> int:
    if release:
        bring_up_to(tree, library, release)
    new, removed, unlisted = differences(tree, library)
    for site in new:
        sys.stdout.write(f"new: {site.module}:{site.line} {site.function}: {' and '.join(site.when)}: {site.message}\n")
    for row in removed:
        sys.stdout.write(f"gone: {row.module} {row.site[1]}: {' and '.join(row.site[2])}: {row.site[4]}\n")
    for module in unlisted:
        sys.stdout.write(f"in neither list of tools/raises/modules.json: {module}\n")
    unanswered = [row for row in rows(library) if not row.is_accounted_for and row.open is None]
    for row in unanswered:
        sys.stdout.write(f"without an answer: {row.module} {row.site[1]}: {' and '.join(row.site[2])}: {row.site[4]}\n")
    sys.stdout.write(f"{library}: {len(rows(library))} sites, {pages.share(rows(library)):.1%} accounted for\n")
    return int(bool(new or removed or unlisted or unanswered))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.raises", description=__doc__.split("\n\n")[0] if __doc__ else None
    )
    parser.add_argument("library", nargs="?", choices=LIBRARIES, help="all, where none is named")
    parser.add_argument("release", nargs="?", help="a release to download; otherwise what is installed")
    parser.add_argument(
        "--write", action="store_true", help="add rows for new sites, drop those that are gone, write the pages"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
