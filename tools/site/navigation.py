"""The navigation: what mkdocs.yml says, filled with the pages that are made, and the same for each other language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ds_lint.linter.engine import every_rule
from tools import rule_ranges
from tools.site import advisories, keys, rules
from tools.site.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Container

    from ds_lint.diagnostics.rule import Rule


def filled(nav: list[Any]) -> list[Any]:
    """The navigation with the rules by their families, the advisories, and the sections of the key reference."""
    made: list[Any] = []
    for item in nav:
        title, below = _parted(item)
        if isinstance(below, list):
            made.append({title: filled(below)})
            continue
        made.append(item)
        if below == rules.INDEX:
            made += [
                {about.title: [{_name(rule): rules.path(rule)} for rule in every_rule() if _digit(rule) == digit]}
                for digit, about in rule_ranges.RANGES.items()
            ]
        elif below == advisories.INDEX:
            made += advisories.navigation()
        elif below == keys.INDEX:
            made += [{"top level": f"keys/{keys.TOP}.md"}]
            made += [{section: f"keys/{section}.md"} for section in keys.sections() if section != keys.TOP]
            made += [{"older releases": f"keys/{keys.REMOVED}.md"}]
    return made


def of_language(nav: list[Any], language: str, pages: Container[str]) -> list[Any]:
    """The filled navigation with the pages that a language has, in its words; a page without words has its title."""
    words, made = WORDS[language], []
    for item in nav:
        title, below = _parted(item)
        if isinstance(below, list):
            if kept := of_language(below, language, pages):
                made.append({words[title]: kept})
        elif f"{language}/{below}" in pages:
            is_rule = title is not None and title.startswith("DS")
            shown = title if is_rule else words.get(title or "")
            made.append({shown: below} if shown else below)
    return made


def _parted(item: Any) -> tuple[Any, Any]:
    return next(iter(item.items())) if isinstance(item, dict) else (None, item)


def _name(rule: Rule) -> str:
    return f"{rule.code} {rule.name}"


_digit = rule_ranges.digit_of
