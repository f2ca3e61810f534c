"""Which translated pages are missing or behind the English ones.

    python -m tools.translations                             exit status 1 where one is, with the lines that changed
    python -m tools.translations --outline DS101 DS102       what there is to translate of pages
    python -m tools.translations --accept DS101 --lang zh    the Chinese page says what the English one says now
    python -m tools.translations --index                     write the lists of rules/*/README.md, and every link

``--accept`` is for those who have read both. In place of a rule stands also a document: ``getting-started``,
``guides/trainer``. ``docs/translating.md`` has the words to use, ``tools.top_rules`` says which rules are translated at
least, ``tools.translatable`` which documents.
"""

from __future__ import annotations

import argparse
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge import resources
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import translations
from ds_lint.rule_pages.languages import LANGUAGES
from tools import translatable
from tools.top_rules import chosen
from tools.translatable import ROOT, Page, by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_LINE = "<!-- translates: {} -->"
LIST = "<!-- rules -->\n"  # of an index, what is above it is written by hand
DIGITS = 6


class Behind(NamedTuple):
    """A translated page that does not say what the English one says, and the English lines that are new since."""

    page: Page
    language: str
    lines: list[str]

    def __str__(self) -> str:
        changed = "".join(f"\n    {line}" for line in self.lines) or "\n    lines were deleted or moved"
        return (
            f"{self.page.path(self.language)} is behind the English page:{changed}\n"
            f"  translate that, then: python -m tools.translations --accept {self.page.name} --lang {self.language}"
        )


def first_line(page: Page) -> str:
    """The first line of a translation that is up to date."""
    return FIRST_LINE.format(" ".join(map(_hash, page.prose())))


def behind(page: Page, language: str) -> Behind | None:
    """What changed since a page was translated; None where nothing did, or where there is no translation."""
    if not page.is_translated(language):
        return None
    first, _ = _read(page, language)
    if first == first_line(page):
        return None
    known = set(first.split())
    return Behind(page, language, [line for line in page.prose() if _hash(line) not in known])


def needed() -> list[Page]:
    """The pages that every language must have."""
    return [*map(by_name, chosen()), *translatable.documents()]


def missing() -> Iterator[str]:
    """The pages that must be translated and are not."""
    for page in needed():
        for language in LANGUAGES:
            if not page.is_translated(language):
                yield f"{page.path(language)} is missing"


def translated(language: str) -> list[Page]:
    """The pages that there are in a language."""
    return [page for page in translatable.every_page() if page.is_translated(language)]


def index(language: str) -> str:
    """The index of a language: what is written by hand, and one sentence for each of its rules."""
    above = index_path(language).read_text(encoding="utf-8").partition(LIST)[0]
    listed = "".join(
        f"- [{rule.code} {rule.name}]({rule.code}-{rule.name}.md): {summary}\n"
        for rule in every_rule()
        if (summary := translations.summary(rule, language)) is not None
    )
    return f"{above}{LIST}\n{listed}"


def index_path(language: str) -> Path:
    """Where the index of a language lies."""
    return Path(resources.path("rules", language, "README.md"))


def _hash(line: str) -> str:
    return sha256(line.encode()).hexdigest()[:DIGITS]


def _read(page: Page, language: str) -> tuple[str, str]:
    """The first line of a translation, and the lines below."""
    first, _, text = (ROOT / page.path(language)).read_text(encoding="utf-8").partition("\n")
    return first, text


def _write(page: Page, language: str, first: str, text: str) -> None:
    text = f"{first}\n{translatable.relinked(text, page, language)}"
    (ROOT / page.path(language)).write_text(text, encoding="utf-8", newline="\n")


def _accept(page: Page, language: str) -> None:
    if not page.is_translated(language):
        raise SystemExit(f"there is no {page.path(language)}")
    _write(page, language, first_line(page), _read(page, language)[1])


def main() -> int:
    """Report, or do what one of the options says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", nargs="+", type=by_name, default=[], metavar="PAGE")
    parser.add_argument(
        "--lang",
        choices=LANGUAGES,
        action="append",
        help="for --accept; every language of the page where it is not given",
    )
    parser.add_argument("--outline", nargs="+", type=by_name, default=[], metavar="PAGE")
    parser.add_argument("--index", action="store_true")
    options = parser.parse_args()
    if options.outline:
        sys.stdout.write("\n".join(page.outline() for page in options.outline))
        return 0
    for page in options.accept:
        for language in options.lang or [one for one in LANGUAGES if page.is_translated(one)]:
            _accept(page, language)
    if options.index:
        for language in LANGUAGES:
            index_path(language).write_text(index(language), encoding="utf-8", newline="\n")
            for page in translated(language):
                _write(page, language, *_read(page, language))
    return _report()


def _report() -> int:
    wrong = [
        *missing(),
        *(found for page in translatable.every_page() for language in LANGUAGES if (found := behind(page, language))),
    ]
    sys.stdout.write("".join(f"{one}\n" for one in wrong))
    names = {page.name for page in needed()}
    for language in LANGUAGES:
        done = translated(language)
        more = [page.name for page in done if page.name not in names]
        beyond = f", {', '.join(more)} beyond those that tools.top_rules names" if more else ""
        sys.stdout.write(f"{language}: {len(done)} pages{beyond}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
