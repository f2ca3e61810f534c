"""The pages of the rules in other languages, below an address of their own: ``zh/rules/DS101-unknown-key/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.knowledge import resources
from ds_lint.rule_pages import translations
from ds_lint.rule_pages.languages import LANGUAGES
from tools.site import addresses, rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.rule import Rule

NAMES = {"en": "English"} | {code: language.name for code, language in LANGUAGES.items()}


def languages() -> tuple[str, ...]:
    """The languages beside English."""
    return tuple(LANGUAGES)


def every_page(known: list[Rule]) -> Iterator[tuple[str, str]]:
    """Every translated page, with its text, and the index of each language."""
    for language in languages():
        yield f"{language}/index.md", _index(language)
        for rule in known:
            text = translations.page(rule, language)
            if text is not None:
                yield _path(rule, language), _page(rule, language, text)


def language_of(page: str) -> str:
    """The language of a page of the site."""
    first = page.partition("/")[0]
    return first if first in languages() else "en"


def path(rule: Rule, language: str) -> str | None:
    """The page of a rule in a language, English too; None if it is not translated."""
    if language == "en":
        return rules.path(rule)
    return _path(rule, language) if translations.page(rule, language) is not None else None


def _path(rule: Rule, language: str) -> str:
    return f"{language}/{rules.path(rule)}"


def elsewhere(rule: Rule, language: str) -> str:
    """A line with the page of a rule in other languages; empty where there is none."""
    page = path(rule, language)
    others = [
        f"[{name}]({addresses.between(page, other)})"
        for code, name in NAMES.items()
        if code != language and page is not None and (other := path(rule, code)) is not None
    ]
    return " · ".join(others)


def redirects(known: list[Rule]) -> dict[str, str]:
    """Short addresses of the translated pages; of an untranslated rule they lead to the English one."""
    return {
        name: address if path(rule, language) else address.replace("../", "../../../rules/", 1)
        for language in languages()
        for rule in known
        for name, address in rules.redirects([rule], f"{language}/rules").items()
    }


def counterparts(page: str, known: list[Rule]) -> dict[str, str]:
    """The page of the same rule in every language, from a page of a rule; nothing for other pages."""
    language = language_of(page)
    rule = next((rule for rule in known if path(rule, language) == page), None)
    if rule is None:
        return {}
    return {
        other: f"../{addresses.between(page, counterpart).removesuffix('.md')}/"
        for other in NAMES
        if (counterpart := path(rule, other)) is not None
    }


def _page(rule: Rule, language: str, text: str) -> str:
    source = f"rules/{language}/{rule.code}-{rule.name}.md"
    text = addresses.relinked(rules.shown(text), source, _path(rule, language))
    return rules.with_languages(text, elsewhere(rule, language))


def _index(language: str) -> str:
    source = f"rules/{language}/README.md"
    with open(resources.path(*source.split("/")), encoding="utf-8") as file:
        return addresses.relinked(file.read(), source, f"{language}/index.md")
