"""Bring ``schemas/recipes.json`` up to new releases of the frameworks that people write recipes for.

    python -m tools.extract.recipes axolotl 0.20.0
    python -m tools.extract.recipes ms-swift 4.7.0 4.8.0 --check
    python -m tools.extract.recipes --cache DIR [--check]

The store says which releases were read, as states: releases that agree are one, and where states disagree, ds-lint
knows nothing. The state with the newest release is the last. Without a framework, all releases of the store are read
again: what they say also depends on the training arguments that ``schemas/transformers.json`` knows. Standard output is
the change log, and ``--allow-loss`` means the same as for ``tools.extract``.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from tools.extract import history
from tools.extract.frameworks import FRAMEWORKS, SCHEMAS, Facts, extract
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
from tools.extract.releases import number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from ds_lint.frameworks.record import Framework

__all__ = ["FRAMEWORKS", "STORE", "extract", "known", "main", "merged"]

STORE = SCHEMAS / "recipes.json"


def known(name: str) -> list[str]:
    """The releases of a framework that the store has, oldest first."""
    return _releases(_read()["frameworks"].get(name, {}))


def known_transformers() -> str:
    """The newest release of transformers that is known: its arguments are not fields of a framework's own."""
    store = json.loads((SCHEMAS / "transformers.json").read_text(encoding="utf-8"))
    return str(store["releases"][-1])


def merged(name: str, releases: Iterable[tuple[str, Facts]]) -> Facts:
    """The record of a framework whose releases say this."""
    record: Facts = {"package": FRAMEWORKS[name].package, "fields": [], "states": []}
    for release, facts in releases:
        record = joined(record, release, facts)
    return record


def joined(record: Facts, release: str, facts: Facts) -> Facts:
    """The record of a framework with one more release, or with other facts of one that it has."""
    states = [{**one, "releases": [each for each in one["releases"] if each != release]} for one in record["states"]]
    says = _without_fields(facts)
    same = next((one for one in states if _is_same(_of_state(one), says)), None)
    if same is None:
        states.append(same := {"releases": [], **says})
    same["releases"] = sorted([*same["releases"], release], key=number)
    states = sorted((one for one in states if one["releases"]), key=lambda one: number(one["releases"][-1]))
    fields = sorted({*record["fields"], *facts["fields"]})
    return {"package": record["package"], "fields": fields, "states": states}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 done, 1 the store differs (``--check``), 2 it cannot be done."""
    return status(_run, _parser().parse_args(arguments))


def _run(options: argparse.Namespace) -> int:
    verify_releases(options.releases, options)
    store = _read()
    frameworks = dict(store["frameworks"])
    if options.framework is None:
        if options.tree:
            raise ExtractionError("--tree holds one release, so name a framework and a release")
        frameworks = {name: _read_again(name, frameworks[name], options) for name in FRAMEWORKS if name in frameworks}
    else:
        if not options.releases:
            raise ExtractionError("name a release of the framework")
        name = _named(options.framework)
        for release in options.releases:
            frameworks[name] = _with(name, release, frameworks.get(name) or merged(name, ()), options)
    differing = [name for name, one in frameworks.items() if _text(one) != _text(store["frameworks"].get(name, {}))]
    newest = known_transformers()
    arguments_of = store.get("transformers", newest) if options.framework else newest
    if not differing and (options.check or arguments_of == store.get("transformers")):
        return 0
    if options.check:
        sys.stderr.write(f"{STORE.name} differs in {', '.join(differing)}\n")
        return 1
    today = datetime.now(timezone.utc).date().isoformat()
    written = {"read_on": today, "transformers": arguments_of, "frameworks": frameworks}
    STORE.write_text(f"{_text(written)}\n", encoding="utf-8", newline="\n")
    sys.stderr.write(f"wrote {STORE.name}\n")
    return 0


def _named(word: str) -> str:
    """The framework of this name, or of the package of this name."""
    for name, framework in FRAMEWORKS.items():
        if word.lower() in (name.lower(), framework.package):
            return name
    raise ExtractionError(f"{word} is none of the frameworks: {', '.join(FRAMEWORKS)}")


def _with(name: str, release: str, record: Facts, options: argparse.Namespace) -> Facts:
    """The record of a framework with a release, which is compared with the one before it for the change log.

    The store keeps the fields of all releases together, so the release before is read again; with --tree only new
    fields are listed.
    """
    framework = FRAMEWORKS[name]
    facts = _facts(framework, release, options)
    earlier = earlier_than(release, _releases(record))
    before: Facts = {}
    if earlier and options.tree:
        before = {**_at(record, earlier), "fields": record["fields"]}
    elif earlier:
        before = _facts(framework, earlier, options)
        if not _is_same(_without_fields(before), _at(record, earlier)):
            sys.stderr.write(f"the store says something else of {framework.package} {earlier}: all are read again\n")
            record = _read_again(name, record, options)
    now = {**facts, "fields": sorted({*facts["fields"], *before.get("fields", ())})} if options.tree else facts
    if earlier and release not in _releases(record):
        refuse_losses(f"{framework.package} {release}", _findings(now), earlier, _findings(before), options.allow_loss)
    changes = history.changes(_tables(before), _tables(now)) if earlier else []
    sys.stdout.write(entry(f"{framework.package} {release}", earlier, changes))
    return joined(record, release, facts)


def _read_again(name: str, record: Facts, options: argparse.Namespace) -> Facts:
    """The record of a framework by what the releases that it has say now."""
    return merged(name, ((one, _facts(FRAMEWORKS[name], one, options)) for one in _releases(record)))


def _facts(framework: Framework, release: str, options: argparse.Namespace) -> Facts:
    with tree_of(framework.package, release, options) as tree:
        return extracted(partial(extract, framework, release=release), framework.package, release, tree)


def _releases(record: Facts) -> list[str]:
    """The releases of a record, oldest first."""
    return sorted((release for state in record.get("states", ()) for release in state["releases"]), key=number)


def _at(record: Facts, release: str) -> Facts:
    """What a release of a record says, but for its fields, which the record has of all releases together."""
    return next(_of_state(state) for state in record["states"] if release in state["releases"])


def _of_state(state: Facts) -> Facts:
    return {name: known for name, known in state.items() if name != "releases"}


def _without_fields(facts: Facts) -> Facts:
    return {name: known for name, known in facts.items() if name != "fields"}


def _tables(facts: Facts) -> Facts:
    """The facts of a release as tables of named records, as the change log takes them."""
    tables: Facts = {}
    for name, known in facts.items():
        if isinstance(known, dict):
            tables[name] = {key: {"uses" if name == "arguments" else "default": value} for key, value in known.items()}
        else:
            tables[name] = {key: {} for key in known}
    return tables


def _findings(facts: Facts) -> Facts:
    """The tables of which a release may have lost something; to know more of what was unknown is none."""
    return {name: known for name, known in _tables(facts).items() if name != "unknown"}


def _read() -> Facts:
    store: Facts = json.loads(STORE.read_text(encoding="utf-8"))
    return store


def _is_same(one: Facts, other: Facts) -> bool:
    """Whether two releases say the same; 1, 1.0 and True differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _parser() -> Parser:
    parser = Parser("python -m tools.extract.recipes", __doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("framework", nargs="?", help=", ".join(FRAMEWORKS))
    parser.add_argument("releases", nargs="*", metavar="release")
    return parser


if __name__ == "__main__":
    sys.exit(main())
