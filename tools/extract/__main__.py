"""Bring a store in ``schemas/`` up to new releases of its library, and say what changed.

    python -m tools.extract deepspeed 0.19.9
    python -m tools.extract transformers 5.24.0 5.24.1
    python -m tools.extract models 5.24.0 5.24.1
    python -m tools.extract accelerate 1.15.0 --tree .venv/lib/python3.12/site-packages --check

A release is downloaded with pip, or read from a folder that holds the package. What a release does is put into the
store beside what the others do; that none of them changed is verified before anything is written. Standard output is
the change log: for each release, what differs from the one before it.

A new release in which the extractor finds nothing of a kind, or less than half of what the release before it has, is an
error: ``--allow-loss training_arguments`` accepts it where the library has really lost that much.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Protocol

from tools.extract import accelerate, deepspeed, lightning, models, torch, transformers, trl
from tools.extract.reading import (
    ExtractionError,
    Parser,
    earlier_than,
    entry,
    extracted,
    refuse_losses,
    status,
    tree_of,
    verify_releases,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from tools.extract.history import Facts


class Library(Protocol):
    """A module that extracts the facts of a library, and keeps them in a store of its own shape."""

    LIBRARY: str
    STORE: Path

    def extract(self, tree: Path) -> Facts:
        """The facts of the release whose package lies in this folder."""

    def at(self, store: Facts, release: str) -> Facts:
        """The facts of one release that the store knows."""

    def merged(self, store: Facts, release: str, facts: Facts) -> Facts:
        """The store with the facts of one more release, or with other facts of one that it has."""

    def changes(self, before: Facts, after: Facts) -> list[str]:
        """What is new, removed or different in a later release, one line each."""


LIBRARIES: dict[str, Library] = {
    "deepspeed": deepspeed,
    "transformers": transformers,
    "accelerate": accelerate,
    "lightning": lightning,
    "torch": torch,
    "models": models,  # of transformers
    "trl": trl,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 done, 1 the store differs (``--check``), 2 it cannot be done."""
    return status(_run, _parser().parse_args(arguments))


def _run(options: argparse.Namespace) -> int:
    library = _library(options.library)
    verify_releases(options.releases, options)
    known = _read(library)
    store = known
    for release in options.releases:
        with tree_of(library.LIBRARY, release, options) as tree:
            facts = _extracted(library, release, tree)
        earlier = earlier_than(release, store["releases"])
        before = library.at(store, earlier) if earlier else {}
        if earlier and release not in store["releases"]:
            refuse_losses(f"{library.LIBRARY} {release}", facts, earlier, before, options.allow_loss)
        merged = library.merged(store, release, facts)
        _verify(library, store, merged, release, facts)
        store = merged
        changes = library.changes(before, library.at(store, release)) if earlier else []
        sys.stdout.write(entry(f"{library.LIBRARY} {release}", earlier, changes))
    text = _text(store)
    if text == _text(known):
        return 0
    if options.check:
        sys.stderr.write(f"{library.STORE.name} differs from {', '.join(options.releases)}\n")
        return 1
    library.STORE.write_text(text, encoding="utf-8", newline="\n")
    sys.stderr.write(f"wrote {library.STORE.name}\n")
    return 0


def _library(name: str) -> Library:
    if name not in LIBRARIES:
        raise ExtractionError(f"{name} is none of the libraries: {', '.join(LIBRARIES)}")
    return LIBRARIES[name]


def _read(library: Library) -> Facts:
    """The store as it lies in the checkout; one without releases where there is none yet."""
    if not library.STORE.exists():
        return {"library": library.LIBRARY, "releases": []}
    store: Facts = json.loads(library.STORE.read_text(encoding="utf-8"))
    return store


def _extracted(library: Library, release: str, tree: Path) -> Facts:
    if not (tree / library.LIBRARY).is_dir():
        raise ExtractionError(f"there is no package {library.LIBRARY} in {tree}")
    return extracted(library.extract, library.LIBRARY, release, tree)


def _verify(library: Library, before: Facts, after: Facts, release: str, facts: Facts) -> None:
    """Nothing is lost: the store gives back what was extracted, and of every other release what it gave before."""
    wanted = {one: library.at(before, one) for one in before["releases"]} | {release: facts}
    wrong = [one for one, known in wanted.items() if _with_records(library.at(after, one)) != _with_records(known)]
    if wrong:
        raise ExtractionError(f"the merged store says something else of {library.LIBRARY} {', '.join(wrong)}")


def _with_records(facts: Facts) -> Facts:
    """The tables that are not empty: one that the extractor learns to read is empty in the other releases at first."""
    return {table: known for table, known in facts.items() if known != {}}


def _text(store: Facts) -> str:
    return json.dumps(store, indent=1, ensure_ascii=False) + "\n"


def _parser() -> Parser:
    parser = Parser("python -m tools.extract", __doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("library", help=", ".join(LIBRARIES))
    parser.add_argument("releases", nargs="+", metavar="release")
    return parser


if __name__ == "__main__":
    sys.exit(main())
