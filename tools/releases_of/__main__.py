"""In which releases of a library a defect is: ask a claim of each, or find the patterns of the store in their sources.

    python -m tools.releases_of CLAIM.py --releases ">=0.17" --right 1.000 -- 4 '{"zero_optimization": {"stage": 2}}'
    python -m tools.releases_of CLAIM.py --library transformers --releases 4.57.6 5.0.0 --with accelerate==1.10.0
    python -m tools.releases_of --patterns schemas/advisories.json --write
    python -m tools.releases_of --newest schemas/advisories.json

A claim is a script that prints one line or raises; what follows ``--`` are its arguments. Releases are unpacked into a
cache and not installed. ``--patterns`` prints the records whose range the sources contradict, ``--newest`` those that
the newest releases contradict, by a run or by their sources; the status is then 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from tools.command_line import Parser, cannot, print_progress
from tools.extract.releases import UnavailableError
from tools.releases_of import latest, patterns
from tools.releases_of.outcomes import is_right
from tools.releases_of.question import INSTALLED, TIMEOUT, Question, ask
from tools.releases_of.ranges import stretches, words
from tools.releases_of.records import CLAIMS, Advisory, read
from tools.releases_of.trees import CACHE, Trees, newest, published

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.releases_of.question import Outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 done, 1 the store is contradicted, 2 it cannot be done."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    own = given.index("--") if "--" in given else len(given)
    options = _parser().parse_args(given[:own])
    options.arguments = given[own + 1 :]
    trees = Trees(options.cache, tuple(options.releases_in))
    try:
        if options.patterns is not None:
            return _compare(options.patterns, trees, write=options.write)
        if options.newest is not None:
            return _try_newest(options.newest, trees, options.claims)
        if options.claim is None:
            return cannot("a claim, --patterns or --newest is missing")
        return _ask_all(options, trees)
    except (UnavailableError, patterns.PatternError) as error:
        return cannot(str(error))
    except (OSError, json.JSONDecodeError, KeyError) as error:
        return cannot(f"{type(error).__name__}: {error}")


def _ask_all(options: argparse.Namespace, trees: Trees) -> int:
    """The table of one claim."""
    if not options.claim.is_file():
        return cannot(f"{options.claim} is not a file")
    question = Question(
        claim=options.claim,
        arguments=tuple(options.arguments),
        library=options.library,
        ranks=options.ranks,
        beside=dict(options.beside),
        timeout=options.timeout,
    )
    try:
        releases = _chosen(options.library, options.releases)
    except (InvalidSpecifier, InvalidVersion) as error:
        return cannot(str(error))
    width = max(map(len, releases), default=0)
    outcomes: dict[str, Outcome] = {}
    for release in releases:
        outcomes[release] = ask(question, release, trees)
        if not options.json:
            _print(f"{question.library} {release:{width}}  {outcomes[release].text}")
    answered = [release for release in releases if outcomes[release].is_answer]
    affected = {one for one in answered if options.right and not is_right(outcomes[one].text, options.right)}
    if options.json:
        _print(json.dumps(_report(question, options.right, outcomes, answered, affected), indent=1))
    elif options.right:
        _print(f"affected: {words(answered, affected)}")
    if len(answered) < len(releases) and not options.json:
        _print(f"no answer: {words(releases, set(releases) - set(answered))}")
    return 0


def _report(
    question: Question, right: str | None, outcomes: dict[str, Outcome], answered: list[str], affected: set[str]
) -> dict[str, object]:
    """The table for a program; a stretch begins and ends between the releases that were run."""
    return {
        "library": question.library,
        "claim": question.claim.stem,
        "arguments": list(question.arguments),
        "ranks": question.ranks,
        "right": right,
        "measured": {release: outcomes[release].text for release in answered},
        "unanswered": {release: one.text for release, one in outcomes.items() if not one.is_answer},
        "stretches": [one._asdict() for one in stretches(answered, affected)] if right else None,
    }


def _chosen(library: str, given: Sequence[str]) -> list[str]:
    """The releases that are named, or those on the package index that a specifier such as ``>=0.12`` allows."""
    if any(sign in one for one in given for sign in "<>=!~") or not given:
        specifiers = SpecifierSet(",".join(given))
        return [release for release in published(library) if specifiers.contains(release)]
    return sorted(given, key=lambda one: (one != INSTALLED, Version("0" if one == INSTALLED else one)))


def _compare(store: Path, trees: Trees, *, write: bool) -> int:
    """Say where the ranges of a store are not those of the sources, or write them."""
    advisories = read(store)
    libraries = {name for one in advisories for name, parts in one.libraries.items() if _has_pattern(parts)}
    releases = {library: published(library) for library in sorted(libraries)}
    found = patterns.find(advisories, releases, trees)
    differing = list(patterns.differences(advisories, found))
    for difference in differing:
        _print(str(difference))
    if write and differing:
        by_id = {one.id: one for one in advisories}
        for one in differing:
            patterns.correct(by_id[one.id], one.library, found[one.library])
        _write(store, advisories)
        return 0
    return 1 if differing else 0


def _has_pattern(parts: Sequence[dict[str, object]]) -> bool:
    return any(part.get("pattern") for part in parts)


def _write(store: Path, advisories: list[Advisory]) -> None:
    """Write the records back, indented as they were."""
    text = store.read_text(encoding="utf-8")
    second = [*text.splitlines(), "", ""][1]
    records = [one.content for one in advisories]
    content = {**json.loads(text), "advisories": records} if text.lstrip().startswith("{") else records
    indent = len(second) - len(second.lstrip()) or None
    written = json.dumps(content, indent=indent, ensure_ascii=False) + "\n"
    store.write_text(written, encoding="utf-8", newline="\n")


def _try_newest(store: Path, trees: Trees, claims: Path) -> int:
    """Say which records the newest releases contradict."""
    advisories = read(store)
    proofs = [proof for one in advisories if (proof := one.proof(claims))]
    patterned = {name for one in advisories for name, parts in one.libraries.items() if _has_pattern(parts)}
    releases = newest(sorted(patterned | {proof.question.library for proof in proofs}))
    print_progress("newest: " + ", ".join(f"{library} {release}" for library, release in releases.items()))
    is_contradicted = False
    for line in latest.disagreements(advisories, releases, trees, claims, print_progress):
        is_contradicted = True
        _print(line)
    return 1 if is_contradicted else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m tools.releases_of", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("claim", nargs="?", type=Path, help="a script that prints one line or raises")
    parser.add_argument("--library", default="deepspeed", help="whose releases are asked (default: deepspeed)")
    parser.add_argument(
        "--releases", nargs="+", default=[], metavar="R", help=f'releases, ">=0.12", or "{INSTALLED}" (default: all)'
    )
    parser.add_argument("--ranks", type=_count, default=1, metavar="N", help="processes, over gloo")
    parser.add_argument(
        "--with", dest="beside", action="append", default=[], type=_beside, metavar="LIBRARY==RELEASE",
        help="a release of another library, in place of the installed one",
    )  # fmt: skip
    parser.add_argument("--timeout", type=float, default=TIMEOUT, metavar="S", help="seconds until a claim hangs")
    parser.add_argument("--right", metavar="VALUE", help="what a release without the defect gives; prints the range")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument("--patterns", type=Path, metavar="STORE", help="find the patterns of a store in the sources")
    parser.add_argument("--write", action="store_true", help="with --patterns: correct the ranges in the store")
    parser.add_argument("--newest", type=Path, metavar="STORE", help="try a store with the newest releases")
    parser.add_argument("--claims", type=Path, default=CLAIMS, metavar="DIR", help="where the claims of a store are")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="where releases are kept")
    parser.add_argument(
        "--releases-in", nargs="+", type=Path, default=[], metavar="DIR", help="folders that have unpacked releases"
    )
    return parser


def _beside(text: str) -> tuple[str, str]:
    try:
        requirement = Requirement(text)
        (specifier,) = requirement.specifier
    except (InvalidRequirement, ValueError):
        raise argparse.ArgumentTypeError(f"{text} is not LIBRARY==RELEASE") from None
    return canonicalize_name(requirement.name), specifier.version


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} ranks cannot be started")
    return count


if __name__ == "__main__":
    sys.exit(main())
