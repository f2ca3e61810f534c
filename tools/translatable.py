"""The English pages that are translated, those of rules and some documents, and where their translations lie.

The page of a rule is translated to ``rules/<language>/``, ``docs/guides/trainer.md`` to
``docs/<language>/guides/trainer.md``. Both are as ``ds_lint.rule_pages.translations`` describes. A document breaks long
lines, so one line of its translation stands for a paragraph, an item of a list, or a row.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.linter.engine import every_rule
from ds_lint.linter.selection import find
from ds_lint.rule_pages import pages, translations

if TYPE_CHECKING:
    from ds_lint.diagnostics.rule import Rule

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("getting-started", "what-it-catches", "guides/trainer", "guides/offload")
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")
_START = re.compile(r"[*-] |\d+\. |[|#]|<!--|$")  # of a line that does not go on with the one before it


class Page(NamedTuple):
    """An English page that is translated."""

    name: str  # that the command line takes: the code of a rule, or a document without its ending
    source: str  # its path in the repository
    english: str

    def path(self, language: str) -> str:
        """Where its translation lies in the repository, if there is one."""
        folder, _, below = self.source.partition("/")
        return f"{folder}/{language}/{below}"

    def is_translated(self, language: str) -> bool:
        """Whether there is a translation."""
        return (ROOT / self.path(language)).exists()

    def outline(self) -> str:
        """What there is to translate, with placeholders for what translations take from the English page."""
        return joined(translations.outline(self.english)[0])

    def prose(self) -> list[str]:
        """What there is to translate, line by line."""
        return prose(self.outline())

    def shown(self, language: str) -> str | None:
        """The translation with the examples of the English page; None where there is none."""
        return translations.with_examples(str(ROOT / self.path(language)), self.english)


def of_rule(rule: Rule) -> Page:
    """The page of a rule."""
    return Page(rule.code, f"rules/{rule.code}-{rule.name}.md", pages.page(rule))


def documents() -> list[Page]:
    """The documents that are translated."""
    return [_document(name) for name in DOCUMENTS]


def every_page() -> list[Page]:
    """All that may be translated."""
    return [*map(of_rule, every_rule()), *documents()]


def by_name(name: str) -> Page:
    """The page of a code or name of a rule, or a document."""
    if name in DOCUMENTS:
        return _document(name)
    rule = find(name)
    if rule is None:
        raise SystemExit(f"there is no rule or translated document {name}")
    return of_rule(rule)


def prose(text: str) -> list[str]:
    """The lines of an outline or of a translated page that are in a language."""
    return [line for line in text.splitlines() if line and not line.startswith(("<!--", "|---", "# DS"))]


def joined(text: str) -> str:
    """A text with one line for each paragraph, item of a list and row of a table."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and lines[-1] and not lines[-1].startswith(("|", "#", "<!--")) and not _START.match(line):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def relinked(text: str, page: Page, language: str) -> str:
    """A translation whose links lead to the pages of its language where there are some, else to the English ones.

    Which page a link means shows the name of the file, wherever the link leads now.
    """
    meant = {posixpath.basename(target): _path(target, page.source) for target in _LINK.findall(page.english)}
    translated = {one.source: one.path(language) for one in every_page() if one.is_translated(language)}
    folder = posixpath.dirname(page.path(language))

    def address(found: re.Match[str]) -> str:
        source = meant.get(posixpath.basename(found[1]))
        return found[1] if source is None else posixpath.relpath(translated.get(source, source), folder)

    return _LINK.sub(address, text)


def _document(name: str) -> Page:
    source = f"docs/{name}.md"
    return Page(name, source, (ROOT / source).read_text(encoding="utf-8"))


def _path(target: str, source: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
