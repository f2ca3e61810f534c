"""Which translated rule pages are missing or behind the English ones.

    python -m tools.translations                             exit status 1 where one is, with the lines that changed
    python -m tools.translations --outline DS101             what there is to translate of a page
    python -m tools.translations --accept DS101 --lang zh    the Chinese page says what the English one says now
    python -m tools.translations --index                     write the lists of rules/*/README.md

``--accept`` is for those who have read both. ``docs/translating.md`` has the words to use, ``tools.top_rules`` says
which rules are translated at least.
"""

from __future__ import annotations

import argparse
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge import resources
from ds_lint.linter.engine import every_rule
from ds_lint.linter.selection import find
from ds_lint.rule_pages import pages, translations
from ds_lint.rule_pages.languages import LANGUAGES
from tools.top_rules import chosen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.rule import Rule

FIRST_LINE = "<!-- translates: {} -->"
LIST = "<!-- rules -->\n"  # of an index, what is above it is written by hand
DIGITS = 6


class Behind(NamedTuple):
    """A translated page that does not say what the English one says, and the English lines that are new since."""

    rule: Rule
    language: str
    lines: list[str]

    def __str__(self) -> str:
        changed = "".join(f"\n    {line}" for line in self.lines) or "\n    lines were deleted or moved"
        return (
            f"rules/{self.language}/{self.rule.code}-{self.rule.name}.md is behind the English page:{changed}\n"
            f"  translate that, then: python -m tools.translations --accept {self.rule.code} --lang {self.language}"
        )


def prose(text: str) -> list[str]:
    """The lines of an outline or of a translated page that are in a language."""
    return [line for line in text.splitlines() if line and not line.startswith(("<!--", "|---", "# "))]


def english(rule: Rule) -> list[str]:
    """What there is to translate of the page of a rule."""
    return prose(translations.outline(pages.page(rule))[0])


def first_line(rule: Rule) -> str:
    """The first line of a translation that is up to date."""
    return FIRST_LINE.format(" ".join(map(_hash, english(rule))))


def behind(rule: Rule, language: str) -> Behind | None:
    """What changed since a page was translated; None where nothing did, or where there is no translation."""
    if not (path := Path(translations.path(rule, language))).exists():
        return None
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    if first == first_line(rule):
        return None
    translated = set(first.split())
    return Behind(rule, language, [line for line in english(rule) if _hash(line) not in translated])


def missing() -> Iterator[str]:
    """The untranslated pages of the rules that must be translated."""
    for code in chosen():
        rule = by_code(code)
        for language in LANGUAGES:
            if not Path(translations.path(rule, language)).exists():
                yield f"rules/{language}/{code}-{rule.name}.md is missing"


def by_code(code: str) -> Rule:
    """The rule of a code or name."""
    rule = find(code)
    if rule is None:
        raise SystemExit(f"there is no rule {code}")
    return rule


def translated(language: str) -> list[Rule]:
    """The rules that have a page in a language."""
    return [rule for rule in every_rule() if Path(translations.path(rule, language)).exists()]


def index(language: str) -> str:
    """The index of a language: what is written by hand, and one sentence for each of its pages."""
    above = index_path(language).read_text(encoding="utf-8").partition(LIST)[0]
    listed = "".join(
        f"- [{rule.code} {rule.name}]({rule.code}-{rule.name}.md): {translations.summary(rule, language)}\n"
        for rule in translated(language)
    )
    return f"{above}{LIST}\n{listed}"


def index_path(language: str) -> Path:
    """Where the index of a language lies."""
    return Path(resources.path("rules", language, "README.md"))


def _hash(line: str) -> str:
    return sha256(line.encode()).hexdigest()[:DIGITS]


def _accept(rule: Rule, language: str) -> None:
    path = Path(translations.path(rule, language))
    if not path.exists():
        raise SystemExit(f"there is no {path}")
    _, _, text = path.read_text(encoding="utf-8").partition("\n")
    path.write_text(f"{first_line(rule)}\n{text}", encoding="utf-8", newline="\n")


def main() -> int:
    """Report, or do what one of the options says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", nargs="+", type=by_code, default=[], metavar="CODE")
    parser.add_argument(
        "--lang",
        choices=LANGUAGES,
        action="append",
        help="for --accept; every language of the page where it is not given",
    )
    parser.add_argument("--outline", type=by_code, metavar="CODE")
    parser.add_argument("--index", action="store_true")
    options = parser.parse_args()
    if options.outline:
        sys.stdout.write(translations.outline(pages.page(options.outline))[0])
        return 0
    for rule in options.accept:
        for language in options.lang or [one for one in LANGUAGES if rule in translated(one)]:
            _accept(rule, language)
    if options.index:
        for language in LANGUAGES:
            index_path(language).write_text(index(language), encoding="utf-8", newline="\n")
    return _report()


def _report() -> int:
    wrong = [
        *missing(),
        *(found for rule in every_rule() for language in LANGUAGES if (found := behind(rule, language))),
    ]
    sys.stdout.write("".join(f"{one}\n" for one in wrong))
    for language in LANGUAGES:
        more = [rule.code for rule in translated(language) if rule.code not in chosen()]
        beyond = f", {', '.join(more)} beyond those that tools.top_rules names" if more else ""
        sys.stdout.write(f"{language}: {len(translated(language))} rules{beyond}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
