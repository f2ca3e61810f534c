"""What the stores of the training frameworks share: records by framework, and the command that reads more releases.

    python -m tools.extract.presets ms-swift 4.7.0 4.8.0
    python -m tools.extract.refusals --cache DIR [--check]

A module of a store says what it extracts from a release, of which frameworks, and what it writes on one line. Without a
framework, all releases of the store are read again. Standard output is the change log: for each release that is named,
what differs from the one before it.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tools.extract import history
from tools.extract.frameworks import SCHEMAS
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
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ds_lint.frameworks.record import Framework
    from tools.extract.frameworks import Facts


class Extract(Protocol):
    """A function that reads a release of a framework, whose package lies in a folder."""

    def __call__(self, framework: Framework, tree: Path, release: str | None = None) -> Facts:
        """The facts of the release; without a number it counts as new."""


def never(_value: object, _depth: int, _name: str) -> bool:
    """For a store without longer lines than a number or a word has."""
    return False


class FrameworkStore:
    """A store with a record for each framework: its package, the releases, and tables as in ``history``."""

    def __init__(
        self,
        name: str,  # of the file and of the module
        frameworks: Mapping[str, Framework],
        extract: Extract,
        is_line: Callable[[object, int, str], bool] = never,  # by value, depth and key
        *,
        indent: int = 1,
    ) -> None:
        self.name, self.frameworks = name, frameworks
        self._extract, self._is_line, self._indent = extract, is_line, indent

    @property
    def path(self) -> Path:
        """The file."""
        return SCHEMAS / f"{self.name}.json"

    def read(self) -> Facts:
        """The store as it lies in the checkout; one without frameworks where there is none yet."""
        if not self.path.is_file():
            return {"frameworks": {}}
        store: Facts = json.loads(self.path.read_text(encoding="utf-8"))
        return store

    def text(self, store: Facts) -> str:
        """What the file has for this content."""
        return f"{self._written(store)}\n"

    def known(self, name: str) -> list[str]:
        """The releases of a framework that the store has, oldest first."""
        return self.releases(self.read()["frameworks"].get(name, {}))

    def releases(self, record: Facts) -> list[str]:
        """The releases of a record, oldest first."""
        return list(record.get("releases", ()))

    def facts(self, name: str, release: str, options: argparse.Namespace) -> Facts:
        """What a release says."""
        framework = self.frameworks[name]
        with self.tree(framework, release, options) as tree:
            return extracted(partial(self._extract, framework, release=release), framework.package, release, tree)

    def tree(self, framework: Framework, release: str, options: argparse.Namespace) -> AbstractContextManager[Path]:
        """The folder that the facts of a release are read from."""
        return tree_of(framework.package, release, options)

    def with_release(self, name: str, record: Facts, release: str, options: argparse.Namespace) -> Facts:
        """A record with one more release, or with other facts of one that it has; the change log is printed."""
        facts, title = self.facts(name, release, options), f"{self.frameworks[name].package} {release}"
        earlier = earlier_than(release, self.releases(record))
        before = history.at(record, earlier) if earlier else {}
        if earlier and release not in self.releases(record):
            refuse_losses(title, facts, earlier, before, options.allow_loss)
        sys.stdout.write(entry(title, earlier, self.changes(before, facts) if earlier else []))
        return self.joined(record, release, facts)

    def read_again(self, name: str, record: Facts, options: argparse.Namespace) -> Facts:
        """A record by what the releases that it has say now."""
        again = self.empty(name)
        for release in self.releases(record):
            again = self.joined(again, release, self.facts(name, release, options))
        return again

    def empty(self, name: str) -> Facts:
        """The record of a framework that the store does not have yet."""
        return {"library": self.frameworks[name].package, "releases": []}

    def joined(self, record: Facts, release: str, facts: Facts) -> Facts:
        """A record with these facts of a release."""
        return history.merged(record, release, facts)

    def changes(self, before: Facts, after: Facts) -> list[str]:
        """What is new, removed or different in a later release, one line each."""
        return history.changes(before, after)

    def rests_on(self) -> dict[str, str]:
        """The releases of other libraries that all facts depend on, which the store names."""
        return {}

    def add_options(self, parser: Parser) -> None:
        """The options that only this command has."""

    def named(self, _name: str, options: argparse.Namespace) -> list[str]:
        """The releases of a framework that the options name; none where all of the store are read again."""
        return list(options.releases)

    def _written(self, value: object, depth: int = 0, key: str = "") -> str:
        if not isinstance(value, (dict, list)) or not value or self._is_line(value, depth, key):
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, list):
            parts = [self._written(one, depth + 1) for one in value]
        else:
            parts = [f"{json.dumps(name)}: {self._written(one, depth + 1, name)}" for name, one in value.items()]
        begin, end = "[]" if isinstance(value, list) else "{}"
        inner, outer = " " * self._indent * (depth + 1), " " * self._indent * depth
        return f"{begin}\n" + ",\n".join(f"{inner}{one}" for one in parts) + f"\n{outer}{end}"


def main(store: FrameworkStore, description: str | None, arguments: Sequence[str] | None = None) -> int:
    """Run the command of a store; 0 done, 1 the store differs (``--check``), 2 it cannot be done."""
    parser = Parser(f"python -m tools.extract.{store.name}", (description or "").partition("\n\n")[0])
    parser.add_argument("framework", nargs="?", help=", ".join(store.frameworks))
    parser.add_argument("releases", nargs="*", metavar="release")
    store.add_options(parser)
    return status(partial(_run, store), parser.parse_args(arguments))


def _run(store: FrameworkStore, options: argparse.Namespace) -> int:
    verify_releases(options.releases, options)
    before = store.read()
    known = _brought_up(store, dict(before["frameworks"]), options)
    newest = store.rests_on()
    rests_on = newest if options.framework is None else {one: before.get(one, newest[one]) for one in newest}
    is_same = store.path.is_file() and store.text({**before, "frameworks": known}) == store.path.read_text("utf-8")
    if is_same and (options.check or all(before.get(one) == release for one, release in rests_on.items())):
        return 0
    if options.check:
        differing = [one for one in known if store.text(known[one]) != store.text(before["frameworks"].get(one, {}))]
        sys.stderr.write(f"{store.path.name} differs in {', '.join(differing) or 'its lines'}\n")
        return 1
    today = datetime.now(timezone.utc).date().isoformat()
    text = store.text({"read_on": today, **rests_on, "frameworks": known})
    store.path.write_text(text, encoding="utf-8", newline="\n")
    sys.stderr.write(f"wrote {store.path.name}\n")
    return 0


def _brought_up(store: FrameworkStore, known: dict[str, Facts], options: argparse.Namespace) -> dict[str, Facts]:
    """The records of the frameworks with what the options name, or read again."""
    if options.framework is None and options.tree:
        raise ExtractionError("--tree holds one release, so name a framework and a release")
    for name in store.frameworks if options.framework is None else [_name(store, options.framework)]:
        releases = store.named(name, options)
        if options.framework is not None and not releases:
            raise ExtractionError("name a release of the framework")
        for release in releases:
            known[name] = store.with_release(name, known.get(name) or store.empty(name), release, options)
        if not releases and name in known:
            known[name] = store.read_again(name, known[name], options)
    return known


def _name(store: FrameworkStore, word: str) -> str:
    """The framework of this name, or of the package of this name."""
    for name, framework in store.frameworks.items():
        if word.lower() in (name.lower(), framework.package):
            return name
    raise ExtractionError(f"{word} is none of the frameworks: {', '.join(store.frameworks)}")
