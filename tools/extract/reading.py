"""What the commands that read releases share: their options, where a release lies, its facts or why it has none."""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools import command_line
from tools.extract.losses import losses
from tools.extract.releases import UnavailableError, fetch, is_final, number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tools.extract.history import Facts

# What an extractor may stumble over in a layout that it does not know.
STUMBLES = (AttributeError, LookupError, RecursionError, StopIteration, SyntaxError, TypeError, ValueError)


class ExtractionError(Exception):
    """Why a release cannot be brought into a store; the message is one line."""


class Parser(command_line.Parser):
    """The options of all commands."""

    def __init__(self, prog: str, description: str | None) -> None:
        super().__init__(prog=prog, description=description)
        self.add_argument(
            "--tree", type=Path, metavar="DIR", help="a folder that holds the package, instead of a download"
        )
        self.add_argument("--cache", type=Path, metavar="DIR", help="keep what is downloaded here, and use it again")
        self.add_argument("--check", action="store_true", help="write nothing; exit status 1 if the store would change")
        self.add_argument(
            "--allow-loss",
            action="append",
            default=[],
            metavar="TABLE",
            help="accept that a new release has nothing of this kind, or less than half; may be repeated",
        )


def status(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """The exit status of a command; 2 and one line of error if it cannot be done."""
    try:
        return run(options)
    except (ExtractionError, UnavailableError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def verify_releases(releases: Sequence[str], options: argparse.Namespace) -> None:
    """That these releases can be read with these options."""
    if options.tree and len(releases) > 1:
        raise ExtractionError("--tree holds one release, so name one")
    for release in releases:
        if not is_final(release):
            raise ExtractionError(f"{release} is not the number of a final release")


@contextmanager
def tree_of(package: str, release: str, options: argparse.Namespace) -> Iterator[Path]:
    """The folder with the package of a release; a download is thrown away afterwards unless ``--cache`` keeps it."""
    if options.tree:
        yield options.tree
    elif options.cache:
        yield fetch(package, release, options.cache)
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield fetch(package, release, Path(folder))


def extracted(extract: Callable[[Path], Facts], package: str, release: str, tree: Path) -> Facts:
    """The facts of a release as the store will give them back; an error if it is laid out in an unknown way."""
    for metadata in tree.glob(f"{package.replace('-', '_')}-*.dist-info"):  # in a wheel and where one is installed
        found = metadata.stem.partition("-")[2].partition("+")[0]
        if found != release:
            raise ExtractionError(f"{tree} holds {package} {found}, not {release}")
    try:
        facts = extract(tree)
    except STUMBLES as error:
        layout = f"the extractor does not know how {package} {release} is laid out"
        raise ExtractionError(f"{layout}: {error_text(error)}") from error
    plain: Facts = json.loads(json.dumps(facts))
    return plain


def error_text(error: Exception) -> str:
    """What an extractor says of a layout; where it stumbled, if it says nothing."""
    if type(error) is LookupError or isinstance(error, SyntaxError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(place.filename).name}, line {place.lineno}: {error}"


def earlier_than(release: str, releases: Iterable[str]) -> str | None:
    """The one of these releases before this one, by number; None if it is the oldest."""
    return max((one for one in releases if number(one) < number(release)), key=number, default=None)


def refuse_losses(release: str, facts: Facts, earlier: str, before: Facts, allowed: Sequence[str]) -> None:
    """That a new release seems to do much less than the one before it is an error, except for the tables named."""
    found = [
        f"the extractor finds {one.has or 'no'} {one.table} in {release}; {earlier} has {one.had}"
        f" (--allow-loss {one.table} accepts that)"
        for one in losses(before, facts)
        if one.table not in allowed
    ]
    if found:
        raise ExtractionError("; ".join(found))


def entry(release: str, earlier: str | None, changes: Sequence[str]) -> str:
    """The entry of the change log for a release: what differs from the one before it."""
    if earlier is None:
        return f"{release}: the oldest in the store\n"
    return "".join([f"{release} (after {earlier})\n", *(f"* {line}\n" for line in changes or ["nothing changed"])])
