"""Bring ``schemas/exceptions.json`` up to date: what each exception of the libraries means.

    python -m tools.exceptions --cache DIR                 the sources of every release, and what runs showed
    python -m tools.exceptions --cache DIR --check         write nothing; status 1 if the store would change
    python -m tools.exceptions --runs FILE                 also what runs showed, from a file that the tests wrote

Releases are downloaded with pip into the cache, and read without running them. Their sites get the answers of
``tools/raises`` or of ``reviewed.json``. What runs of rejected examples raise is written by the fidelity tests:

    DS_LINT_EXCEPTIONS=FILE python -m pytest tests/fidelity/test_rule_pages_truth.py
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds_lint.knowledge import tables
from ds_lint.targets.pin import LIBRARIES
from tools.exceptions import store
from tools.exceptions.others import of_others, of_torch
from tools.exceptions.runs import together, unexplained
from tools.exceptions.sources import read
from tools.pairs.trees import tree
from tools.raises.__main__ import installed
from tools.raises.table import releases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.exceptions.sources import Entry


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 done, 1 the store differs or a site has no answer."""
    options = _parser().parse_args(arguments)
    old = store.load()
    known, stored = store.records(old, "source"), store.records(old, "run")
    shown: list[Entry] = []
    named, complete = old["releases"], True
    if options.cache is not None:
        known, named, complete = _of_sources(options.cache)
    if options.runs is not None:
        shown = [json.loads(line) for path in options.runs for line in path.read_text(encoding="utf-8").splitlines()]
        differences = dict.fromkeys(
            f"{line['rules']}, not {record.get('rules')}: {record['module']} {record['function']} {record['message']}\n"
            for line, record in unexplained(shown, known)
        )
        sys.stdout.write("".join(differences))
    text = store.text(named, [*known, *together(stored, shown, known)])
    if text != store.STORE.read_text(encoding="utf-8"):
        if options.check:
            sys.stderr.write(f"{store.STORE.name} differs\n")
            return 1
        store.STORE.write_text(text, encoding="utf-8", newline="\n")
        sys.stderr.write(f"wrote {store.STORE.name}\n")
    return 0 if complete else 1


def _of_sources(cache: Path) -> tuple[list[Entry], dict[str, Any], bool]:
    """The records of the sources, the releases that were read, and whether every site has an answer."""
    found: list[Entry] = []
    named: dict[str, Any] = {}
    complete = True
    for library in LIBRARIES:
        until = releases()[library]  # the release whose sites have been looked at
        listed = tables.load(library)["releases"]
        for release in listed:
            tree(library, release, cache)
        one = read(library, listed[: listed.index(until) + 1], cache)
        for site in one.without:
            sys.stdout.write(f"without an answer: {site.key.module} {site.key.function}: {site.source}\n")
        for row in one.unused:
            sys.stdout.write(f"no site is like this row of reviewed.json: {row}\n")
        complete = complete and not one.without and not one.unused
        found += one.records
        named[library] = {"since": one.releases[0], "until": one.releases[-1]}
    return [*found, *of_others(), *of_torch(installed("torch"))], named, complete


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.exceptions", description=__doc__.split("\n\n")[0] if __doc__ else None
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="where the releases are kept; read the sources")
    parser.add_argument("--runs", type=Path, nargs="+", metavar="FILE", help="what the tests wrote")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if the store would change")
    return parser


if __name__ == "__main__":
    sys.exit(main())
