"""Where a file of the repository is on the site, and what that makes of the links between such files.

A page of the site is named by its source: ``rules/index.md``, ``zh/rules/DS101-unknown-key.md``. Each language is built
alone, into a folder of its own, so a link to a page of another language is HTML: no generator looks for it among the
pages that it knows.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from ds_lint.addresses import REPOSITORY
from ds_lint.rule_pages import pages
from ds_lint.rule_pages.languages import LANGUAGES
from tools.documents import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = f"{REPOSITORY}/blob/main/"  # of what is not on the site
SHARED = ("assets/", "images/")  # every language has its own copy

_ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "rules": "rules/index.md",
    "tools/bench/results.json": "benchmarks.md",
}
_TRANSLATED = re.compile(r"rules/(\w+)/([^/]+)\.md")
_LINK = re.compile(
    r"(?P<label>!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])"
    r"\((?!https?:|mailto:|#)(?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)"
)


def language_of(page: str) -> str:
    """The language of a page of the site."""
    first = page.partition("/")[0]
    return first if first in LANGUAGES else "en"


def within(page: str) -> str:
    """The page as its language's own site names it."""
    return page if language_of(page) == "en" else page.partition("/")[2]


def rules_index(language: str) -> str:
    """The page that lists the rules of a language beside English: its home page where it has no other."""
    has_home = (ROOT / "docs" / language / "index.md").is_file()
    return f"{language}/rules/index.md" if has_home else f"{language}/index.md"


def place(path: str) -> str | None:
    """The page or file of the site that a file of the repository is; None where it is not on the site."""
    folder, _, below = path.partition("/")
    if folder == "docs":
        return below
    if translated := _TRANSLATED.fullmatch(path):
        language, name = translated.groups()
        return rules_index(language) if name == "README" else f"{language}/rules/{name}.md"
    if folder in ("rules", "schemas") and path.endswith((".md", ".schema.json")) and path != "schemas/README.md":
        return path
    return _ELSEWHERE.get(path)


def between(page: str, other: str) -> str:
    """What leads from one page to another in Markdown, if both are of one language."""
    return posixpath.relpath(other, posixpath.dirname(page) or ".")


def address(page: str) -> str:
    """Where the site has a page or a file."""
    if not page.endswith(".md"):
        return page
    name = page.removesuffix(".md")
    return f"{name[: -len('index')] if posixpath.basename(name) == 'index' else f'{name}/'}"


def leading(page: str, other: str) -> str:
    """What leads from one page to another in HTML, whatever their languages."""
    target = address(other)
    path = posixpath.relpath(target or ".", address(page).rstrip("/") or ".")
    return f"{path}/" if not target or target.endswith("/") else path


def relinked(text: str, source: str, page: str) -> str:
    """The text of a Markdown file of the repository with its links as the page of the site needs them."""

    def link(found: re.Match[str]) -> str:
        label, anchor = found["label"], found["anchor"] or ""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["path"]))
        on_site = place(target)
        if on_site is None:
            return f"{label}({SOURCES}{target}{anchor})"
        if on_site.startswith(SHARED) and (language := language_of(page)) != "en":
            on_site = f"{language}/{on_site}"
        if language_of(on_site) == language_of(page):
            return f"{label}({between(page, on_site)}{anchor})"
        return f'<a href="{leading(page, on_site)}{anchor}">{label[1:-1]}</a>'

    return "".join(part if is_code else _LINK.sub(link, part) for part, is_code in _parts(text))


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with whether it is that of a fenced block."""
    end = 0
    for block in pages.blocks(text):
        yield text[end : block.span.start], False
        yield block.text, True
        end = block.span.end
    yield text[end:], False
