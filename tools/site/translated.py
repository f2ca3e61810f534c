"""The pages in other languages, below an address of their own: ``zh/rules/DS101-unknown-key/``, ``zh/guides/offload/``.

The texts of documents in docs/zh/ and docs/ko/ lack their blocks: what is shown is made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.knowledge import resources
from ds_lint.rule_pages import translations
from ds_lint.rule_pages.languages import LANGUAGES
from tools import translatable
from tools.documents import without_words
from tools.site import addresses, rules
from tools.site.playground import links

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from ds_lint.diagnostics.rule import Rule

NAMES = {"en": "English"} | {code: language.name for code, language in LANGUAGES.items()}


def every_page(language: str, known: list[Rule]) -> Iterator[tuple[str, str]]:
    """Every page of a language, with its text."""
    source = f"rules/{language}/README.md"
    with open(resources.path(*source.split("/")), encoding="utf-8") as file:
        index = addresses.rules_index(language)
        yield index, addresses.relinked(file.read(), source, index)
    for rule in known:
        text = translations.page(rule, language)
        if text is not None:
            page = f"{language}/{rules.path(rule)}"
            source = f"rules/{language}/{rule.code}-{rule.name}.md"
            yield page, addresses.relinked(rules.shown(text, links.of_page(text, rule, page)), source, page)
    for document in translatable.documents():
        text = document.shown(language)
        if text is not None:
            source = document.path(language)
            page = source.removeprefix("docs/")
            yield page, addresses.relinked(without_words(text), source, page)


def counterparts(page: str, known: Container[str]) -> dict[str, str]:
    """The page in every language that it is in, its own too."""
    page = addresses.within(page)
    every = {code: page if code == "en" else f"{code}/{page}" for code in NAMES}
    return {code: other for code, other in every.items() if other in known}


def elsewhere(page: str, known: Container[str]) -> str:
    """A line with the page in other languages; empty where there is none."""
    return " · ".join(
        f'<a href="{addresses.leading(page, other)}" hreflang="{code}" lang="{code}">{NAMES[code]}</a>'
        for code, other in counterparts(page, known).items()
        if code != addresses.language_of(page)
    )


def redirects(known: list[Rule], pages: Container[str]) -> dict[str, str]:
    """Short addresses of rules in each language; of an untranslated rule they lead to the English page."""
    return {
        name: address if f"{language}/{rules.path(rule)}" in pages else address.replace("../", "../../../rules/", 1)
        for language in LANGUAGES
        for rule in known
        for name, address in rules.redirects([rule], f"{language}/rules").items()
    }
